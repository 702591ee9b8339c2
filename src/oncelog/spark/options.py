"""The options of format `oncelog`, checked before anything is read or written.

Names are those of Spark's own Kafka source where it has them; Spark hands keys over in lower case. `kafka.`-prefixed
options go to the client as they are. An unknown option is an error that names the nearest known one.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from oncelog.client.config import ALIASES, ClientConfig
from oncelog.errors import ConfigurationError

EARLIEST, LATEST = -2, -1
Offsets = dict[str, dict[int, int]]

COMMON = {"bootstrap.servers", "columns"}
SOURCE = {
    "subscribe",
    "assign",
    "startingOffsets",
    "endingOffsets",
    "maxOffsetsPerTrigger",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "isolationLevel",
}
SINK = {
    "topic",
    "transactionalIdPrefix",
    "decisionTopic",
    "decisionUrl",
    "backend",
    "txnAppId",
    "txnVersion",
    "checkpointLocation",
    "completionMarginMs",
    "includeHeaders",
}
# What Spark itself adds to the options of a query.
SPARKS_OWN = {"path", "queryname", "outputmode", "checkpointlocation", "mode"}


@dataclass(frozen=True)
class SourceOptions:
    """A reader's options; offsets are -2 for earliest, -1 for latest. `client` is for every client, `consumer` for consumers."""

    client: dict[str, str]
    consumer: dict[str, str]
    topics: tuple[str, ...]
    assigned: dict[str, tuple[int, ...]]
    starting: int | Offsets
    ending: int | Offsets
    offsets_per_trigger_max: int | None
    fail_on_data_loss: bool
    include_headers: bool
    partitions_min: int | None
    isolation_level: str


@dataclass(frozen=True)
class SinkOptions:
    """A writer's options."""

    client: dict[str, str]
    topic: str | None
    transactional_id_prefix: str
    decision_topic: str
    decision_url: str | None
    backend: str
    application_id: str | None
    application_version: str | None
    checkpoint_location: str | None
    completion_margin_ms: int


def source_options(options: Mapping[str, str], *, is_stream: bool) -> SourceOptions:
    """A reader's options. Raises ConfigurationError."""
    given = _known(options, COMMON | SOURCE)
    subscribe, assign = given.get("subscribe"), given.get("assign")
    if (subscribe is None) == (assign is None):
        raise ConfigurationError("give one of the options 'subscribe' (topic,topic) and 'assign' ({'topic': [0, 1]})")
    starting = _offsets("startingOffsets", given.get("startingoffsets", "latest" if is_stream else "earliest"))
    ending = _offsets("endingOffsets", given.get("endingoffsets", "latest"))
    if is_stream and "endingoffsets" in given:
        raise ConfigurationError("endingOffsets is for batch reads; a stream has no end")
    if not is_stream and starting == LATEST:
        raise ConfigurationError("startingOffsets of a batch read may not be 'latest'")
    if ending == EARLIEST:
        raise ConfigurationError("endingOffsets may not be 'earliest'")
    isolation_level = given.get("isolationlevel", "read_committed")
    if isolation_level not in ("read_committed", "read_uncommitted"):
        raise ConfigurationError(f"isolationLevel is read_committed or read_uncommitted, not {isolation_level!r}")
    client = _client(options, given)
    every = {key: value for key, value in client.items() if _is_of_every_client(key)}
    return SourceOptions(
        client=every,
        consumer={key: value for key, value in client.items() if key not in every},
        topics=tuple(t.strip() for t in subscribe.split(",") if t.strip()) if subscribe else (),
        assigned=_assigned(assign) if assign else {},
        starting=starting,
        ending=ending,
        offsets_per_trigger_max=_positive("maxOffsetsPerTrigger", given.get("maxoffsetspertrigger")),
        fail_on_data_loss=_boolean("failOnDataLoss", given.get("failondataloss", "true")),
        include_headers=_boolean("includeHeaders", given.get("includeheaders", "false")),
        partitions_min=_positive("minPartitions", given.get("minpartitions")),
        isolation_level=isolation_level,
    )


def sink_options(options: Mapping[str, str]) -> SinkOptions:
    """A writer's options. Raises ConfigurationError."""
    given = _known(options, COMMON | SINK)
    prefix = given.get("transactionalidprefix", "oncelog-spark")
    if not prefix or "." in prefix:
        raise ConfigurationError(f"transactionalIdPrefix may not be empty and has no dot: {prefix!r}")
    backend = given.get("backend", "auto")
    if backend not in ("auto", "prepared", "resumed"):
        raise ConfigurationError(f"backend is auto, prepared or resumed, not {backend!r}")
    if ("txnappid" in given) != ("txnversion" in given):
        raise ConfigurationError("txnAppId and txnVersion belong together")
    return SinkOptions(
        client=_client(options, given),
        topic=given.get("topic"),
        transactional_id_prefix=prefix,
        decision_topic=given.get("decisiontopic", "__oncelog_decisions"),
        decision_url=given.get("decisionurl"),
        backend=backend,
        application_id=given.get("txnappid"),
        application_version=given.get("txnversion"),
        checkpoint_location=given.get("checkpointlocation"),
        completion_margin_ms=_positive("completionMarginMs", given.get("completionmarginms")) or 60_000,
    )


def _known(options: Mapping[str, str], names: set[str]) -> dict[str, str]:
    known = {name.lower(): name for name in names}
    given: dict[str, str] = {}
    for key, value in options.items():
        low = key.lower()
        if low.startswith("kafka.") or low in SPARKS_OWN - set(known):
            continue
        if low not in known:
            near = difflib.get_close_matches(low, known, n=1)
            hint = f"; did you mean {known[near[0]]!r}?" if near else f"; known are {', '.join(sorted(names))}"
            raise ConfigurationError(f"unknown option {key!r} of format oncelog{hint}")
        given[low] = value
    return given


def _client(options: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    client = {key[len("kafka.") :]: value for key, value in options.items() if key.lower().startswith("kafka.")}
    if "bootstrap.servers" in given:
        client["bootstrap.servers"] = given["bootstrap.servers"]
    if not client.get("bootstrap.servers"):
        raise ConfigurationError("the option 'bootstrap.servers' is missing (for example 127.0.0.1:9092)")
    for forbidden in ("transactional.id", "group.id", "enable.idempotence", "isolation.level"):
        if forbidden in client:
            raise ConfigurationError(f"kafka.{forbidden} is set by the format itself")
    return client


def _is_of_every_client(key: str) -> bool:
    name = key.replace(".", "_")
    return ALIASES.get(name, name) in ClientConfig.__dataclass_fields__


def _offsets(name: str, text: str) -> int | Offsets:
    if text.lower() in ("earliest", "latest"):
        return EARLIEST if text.lower() == "earliest" else LATEST
    try:
        content = json.loads(text)
        return {str(topic): {int(p): int(o) for p, o in offsets.items()} for topic, offsets in content.items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigurationError(
            f'{name} is earliest, latest or JSON such as {{"t": {{"0": 23}}}}: {text!r}'
        ) from error


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        return {str(topic): tuple(int(p) for p in partitions) for topic, partitions in json.loads(text).items()}
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigurationError(f'assign is JSON such as {{"topic": [0, 1]}}: {text!r}') from error


def _positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.strip().isdigit() or int(text) < 1:
        raise ConfigurationError(f"{name} is a whole number above 0, not {text!r}")
    return int(text)


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"


def client_arguments(client: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """The configuration a client is built from: dotted keys of Kafka, with what the format itself sets."""
    return {**client, **more}
