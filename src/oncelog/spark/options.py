"""The options of format `oncelog`, checked before anything is read or written.

Names are those of Spark's own Kafka source and sink where they have them; Spark hands keys over in lower case. What begins
with `kafka.` goes to the client (client_options.py). Nothing is ignored: an option that would change nothing is refused with
what to do, a misspelt one with the nearest known name. The table of them all: docs/spark.md.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.core.two_phase.sink_names import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.client_options import consumer_options, producer_options

EARLIEST, LATEST = -2, -1
Offsets = dict[str, dict[int, int]]

ANY_READ = {
    "bootstrap.servers",
    "subscribe",
    "subscribePattern",
    "assign",
    "columns",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "includeHeaders",
    "minPartitions",
    "maxRecordsPerPartition",
    "isolationLevel",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
}
BATCH_READ = {"endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"}
STREAM_READ = {"maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "groupIdPrefix"}
ANY_WRITE = {
    "bootstrap.servers",
    "topic",
    "includeHeaders",
    "transactionalIdPrefix",
    "decisionTopic",
    "decisionUrl",
    "backend",
    "completionMarginMs",
}
BATCH_WRITE = {"txnAppId", "txnVersion"}
STREAM_WRITE = {"checkpointLocation"}
# What Spark itself adds to the options of a query.
SPARKS_OWN = {"queryname", "outputmode"}
WHAT_TO_DO = {
    "path": "a log has no path: use subscribe to read, topic to write",
    "kafka.group.id": "a batch read has no position that a group could keep: remove it",
}
KINDS = {
    "a batch read": ANY_READ | BATCH_READ,
    "a stream": ANY_READ | STREAM_READ,
    "a batch write": ANY_WRITE | BATCH_WRITE,
    "a streaming write": ANY_WRITE | STREAM_WRITE,
    "a dual write": ANY_WRITE - {"decisionTopic", "decisionUrl"},  # its decisions live beside the rows
}
ANY_KIND_OF_WRITE = "a write"
POLL_TIMEOUT_MS = 120_000
RETRY_INTERVAL_MS = 10
TRIGGER_DELAY_MS_MAX = 15 * 60_000
PREFIX_LENGTH_MAX = 1000  # a transactional id has at most 32767 bytes, and what comes behind its prefix needs room
DIGITS_MAX = 18
MS_OF_UNIT = {"": 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True)
class Times:
    """Where a read begins or ends, by the records' timestamps (ms): one for all, or one for each partition."""

    ms: int | Offsets
    or_latest: bool


@dataclass(frozen=True)
class SourceOptions:
    """A reader's options; offsets are -2 for earliest, -1 for latest. `client` is for every client, `consumer` for consumers."""

    client: dict[str, str]
    consumer: dict[str, str]
    topics: tuple[str, ...]
    topic_pattern: str | None
    assigned: dict[str, tuple[int, ...]]
    columns: tuple[str, ...]
    starting: int | Offsets | Times
    ending: int | Offsets | Times
    offsets_per_trigger_max: int | None
    offsets_per_trigger_min: int | None
    trigger_delay_ms_max: int
    fail_on_data_loss: bool
    include_headers: bool
    partitions_min: int | None
    records_per_partition_max: int | None
    isolation_level: str
    group_id: str | None
    group_id_prefix: str | None
    poll_timeout_ms: int
    fetch_offset_retries: int
    fetch_offset_retry_interval_ms: int


@dataclass(frozen=True)
class SinkOptions:
    """A writer's options. `client` is for every client, `producer` for producers."""

    client: dict[str, str]
    producer: dict[str, str]
    topic: str | None
    include_headers: bool | None
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
    given = _known(options, "a stream" if is_stream else "a batch read")
    kafka = consumer_options(options, given.get("bootstrap.servers"))
    consumer = dict(kafka.own)
    topics, pattern, assigned = _what_to_read(given)
    starting, ending = _starting(given, is_stream=is_stream), _ending(given)
    records_max = _positive("maxOffsetsPerTrigger", given.get("maxoffsetspertrigger"))
    records_min = _positive("minOffsetsPerTrigger", given.get("minoffsetspertrigger"))
    if records_min is not None and records_max is not None and records_min > records_max:
        raise ConfigurationError(f"minOffsetsPerTrigger={records_min} is more than maxOffsetsPerTrigger={records_max}")
    if "maxtriggerdelay" in given and records_min is None:
        raise ConfigurationError("maxTriggerDelay bounds what minOffsetsPerTrigger waits for: give both")
    if "exclude.internal.topics" in consumer and pattern is None:
        raise ConfigurationError("kafka.exclude.internal.topics belongs to subscribePattern: remove it")
    group_id, group_id_prefix = consumer.pop("group.id", None), given.get("groupidprefix")
    if group_id is not None and not is_stream:
        raise ConfigurationError(f"kafka.group.id: {WHAT_TO_DO['kafka.group.id']}")
    if group_id is not None and group_id_prefix is not None:
        raise ConfigurationError("kafka.group.id and groupIdPrefix both name a group: give one of them")
    has_headers = _boolean("includeHeaders", given.get("includeheaders", "false"))
    return SourceOptions(
        client=kafka.client,
        isolation_level=_isolation_level(given, consumer.pop("isolation.level", None)),
        consumer=consumer,
        topics=topics,
        topic_pattern=pattern,
        assigned=assigned,
        columns=_columns(given, has_headers=has_headers),
        starting=starting,
        ending=ending,
        offsets_per_trigger_max=records_max,
        offsets_per_trigger_min=records_min,
        trigger_delay_ms_max=_duration_ms("maxTriggerDelay", given.get("maxtriggerdelay")) or TRIGGER_DELAY_MS_MAX,
        fail_on_data_loss=_boolean("failOnDataLoss", given.get("failondataloss", "true")),
        include_headers=has_headers,
        partitions_min=_positive("minPartitions", given.get("minpartitions")),
        records_per_partition_max=_positive("maxRecordsPerPartition", given.get("maxrecordsperpartition")),
        group_id=group_id,
        group_id_prefix=group_id_prefix,
        poll_timeout_ms=_positive("kafkaConsumer.pollTimeoutMs", given.get("kafkaconsumer.polltimeoutms"))
        or POLL_TIMEOUT_MS,
        fetch_offset_retries=_whole("fetchOffset.numRetries", given.get("fetchoffset.numretries", "0")),
        fetch_offset_retry_interval_ms=_whole(
            "fetchOffset.retryIntervalMs", given.get("fetchoffset.retryintervalms", str(RETRY_INTERVAL_MS))
        ),
    )


def sink_options(options: Mapping[str, str], kind: str = ANY_KIND_OF_WRITE) -> SinkOptions:
    """A writer's options; `kind` is a key of KINDS, or all kinds of write together. Raises ConfigurationError."""
    given = _known(options, kind)
    kafka = producer_options(options, given.get("bootstrap.servers"))
    prefix = given.get("transactionalidprefix", TRANSACTIONAL_ID_PREFIX)
    if not prefix or "." in prefix:
        raise ConfigurationError(f"transactionalIdPrefix may not be empty and has no dot: {prefix!r:.100}")
    if len(prefix) > PREFIX_LENGTH_MAX:
        raise ConfigurationError(
            f"transactionalIdPrefix has {len(prefix)} characters, and {PREFIX_LENGTH_MAX} are the most: {prefix!r:.100}"
        )
    backend = given.get("backend", "auto")
    if backend not in ("auto", "prepared", "resumed"):
        raise ConfigurationError(f"backend is auto, prepared or resumed, not {backend!r}")
    if ("txnappid" in given) != ("txnversion" in given):
        raise ConfigurationError("txnAppId and txnVersion belong together")
    for name in ("topic", "txnAppId", "txnVersion"):
        if given.get(name.lower()) == "":  # of a variable that was not set: no name, and no version, is everybody's
            raise ConfigurationError(f"the option {name!r} is empty")
    if "decisiontopic" in given and "decisionurl" in given:
        raise ConfigurationError("decisionTopic and decisionUrl both say where decisions live: give one of them")
    decision_topic = given.get("decisiontopic", DECISION_TOPIC)
    if given.get("topic") == decision_topic:
        raise ConfigurationError(
            f"{decision_topic!r}: decisions cannot live in the topic that is written: take another"
        )
    if "completionmarginms" in given and backend == "prepared":
        raise ConfigurationError(
            "completionMarginMs has no meaning with backend=prepared, which has no clock: remove it"
        )
    return SinkOptions(
        client=kafka.client,
        producer=kafka.own,
        topic=given.get("topic"),
        include_headers=_boolean("includeHeaders", given["includeheaders"]) if "includeheaders" in given else None,
        transactional_id_prefix=prefix,
        decision_topic=decision_topic,
        decision_url=given.get("decisionurl"),
        backend=backend,
        application_id=given.get("txnappid"),
        application_version=given.get("txnversion"),
        checkpoint_location=given.get("checkpointlocation"),
        completion_margin_ms=_positive("completionMarginMs", given.get("completionmarginms")) or 60_000,
    )


def client_arguments(client: Mapping[str, str], **more: Any) -> dict[str, Any]:
    """The configuration a client is built from: dotted keys of Kafka, with what the format itself sets."""
    return {**client, **more}


# --- which options there are


def _known(options: Mapping[str, str], kind: str) -> dict[str, str]:
    """The given options that do not begin with `kafka.`, by their names in lower case."""
    names = KINDS.get(kind, ANY_WRITE | BATCH_WRITE | STREAM_WRITE)
    known = {name.lower(): name for name in names}
    given: dict[str, str] = {}
    for key, value in options.items():
        low = key.lower()
        if low.startswith("kafka.") or (low in SPARKS_OWN and "write" in kind):
            continue
        if low not in known:
            raise _unknown(key, known, kind)
        given[low] = value
    return given


def _unknown(key: str, known: Mapping[str, str], kind: str) -> ConfigurationError:
    low = key.lower()
    if low in WHAT_TO_DO:
        return ConfigurationError(f"option {key!r}: {WHAT_TO_DO[low]}")
    others = {name.lower(): (name, other) for other, names in reversed(KINDS.items()) for name in names}
    if low in others:
        name, other = others[low]
        return ConfigurationError(f"option {name!r} is for {other}, and this is {kind}: remove it")
    near = difflib.get_close_matches(low, known, n=1)
    hint = f"; did you mean {known[near[0]]!r}?" if near else f"; known are {', '.join(sorted(known.values()))}"
    return ConfigurationError(f"unknown option {key!r} of format oncelog{hint}")


def _what_to_read(given: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, dict[str, tuple[int, ...]]]:
    named = [name for name in ("subscribe", "subscribepattern", "assign") if name in given]
    if len(named) != 1:
        raise ConfigurationError(
            "give one of the options 'subscribe' (topic,topic), 'subscribePattern' (a regular expression) and "
            "'assign' ({\"topic\": [0, 1]})"
        )
    subscribe, pattern, assign = (given.get(name) for name in ("subscribe", "subscribepattern", "assign"))
    topics = tuple(dict.fromkeys(t.strip() for t in (subscribe or "").split(",") if t.strip()))
    assigned = _assigned(assign) if assign is not None else {}
    if pattern is not None:
        try:
            re.compile(pattern)
        except (re.error, OverflowError, RecursionError) as error:
            raise ConfigurationError(
                f"subscribePattern is no regular expression of Python's: {pattern!r}: {error}"
            ) from None
    elif not topics and not any(assigned.values()):
        raise ConfigurationError(f"the option {named[0]!r} names no topic")
    return topics, pattern, assigned


def _starting(given: Mapping[str, str], *, is_stream: bool) -> int | Offsets | Times:
    strategy = given.get("startingoffsetsbytimestampstrategy", "error")
    if strategy not in ("error", "latest"):
        raise ConfigurationError(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    times = _times(given, "starting", or_latest=strategy == "latest")
    if times is not None:
        return times
    if "startingoffsetsbytimestampstrategy" in given:
        raise ConfigurationError(
            "startingOffsetsByTimestampStrategy belongs to startingTimestamp or startingOffsetsByTimestamp: give one of them"
        )
    starting = _offsets("startingOffsets", given.get("startingoffsets", "latest" if is_stream else "earliest"))
    if not is_stream and _names(starting, LATEST):
        raise ConfigurationError("startingOffsets of a batch read may not be 'latest' (-1)")
    return starting


def _ending(given: Mapping[str, str]) -> int | Offsets | Times:
    times = _times(given, "ending", or_latest=True)
    if times is not None:
        return times
    ending = _offsets("endingOffsets", given.get("endingoffsets", "latest"))
    if _names(ending, EARLIEST):
        raise ConfigurationError("endingOffsets may not be 'earliest' (-2)")
    return ending


def _times(given: Mapping[str, str], end: str, *, or_latest: bool) -> Times | None:
    names = [f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"]
    named = [name for name in names if name.lower() in given]
    if len(named) > 1:
        raise ConfigurationError(
            f"{' and '.join(named)} both say where the read {end.removesuffix('ing')}s: give one of them"
        )
    if named == names[:1]:
        return Times(_whole(names[0], given[names[0].lower()]), or_latest)
    if named == names[1:2]:
        times = _offsets(names[1], given[names[1].lower()], are_times=True)
        assert not isinstance(times, int)
        return Times(times, or_latest)
    return None


def _names(offsets: int | Offsets, special: int) -> bool:
    if isinstance(offsets, int):
        return offsets == special
    return any(offset == special for partitions in offsets.values() for offset in partitions.values())


def _isolation_level(given: Mapping[str, str], kafkas: str | None) -> str:
    own = given.get("isolationlevel")
    if own is not None and kafkas is not None and own != kafkas:
        raise ConfigurationError("isolationLevel and kafka.isolation.level differ: give one of them")
    level = own or kafkas or "read_committed"
    if level not in ("read_committed", "read_uncommitted"):
        raise ConfigurationError(f"isolationLevel is read_committed or read_uncommitted, not {level!r}")
    return level


COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key:string,value:binary>>",
}
"""What a read can give, and the types."""


def columns_of(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns of a read; all options are checked when it is known of which kind it is. Raises ConfigurationError."""
    given = {key.lower(): value for key, value in options.items()}
    return _columns(given, has_headers=_boolean("includeHeaders", given.get("includeheaders", "false")))


def _columns(given: Mapping[str, str], *, has_headers: bool) -> tuple[str, ...]:
    if "columns" not in given:
        return tuple(name for name in COLUMNS if has_headers or name != "headers")
    names = tuple(name.strip() for name in given["columns"].split(","))
    for name in names:
        if name not in COLUMNS:
            raise ConfigurationError(f"columns: there is no column {name!r}; there are {', '.join(COLUMNS)}")
    if len(set(names)) != len(names):
        raise ConfigurationError(f"columns names one twice: {given['columns']!r}")
    if "includeheaders" in given and has_headers != ("headers" in names):
        raise ConfigurationError(
            "includeHeaders and columns say different things of the column headers: give columns alone"
        )
    return names


# --- values


def _offsets(name: str, text: str, *, are_times: bool = False) -> int | Offsets:
    if text.lower() in ("earliest", "latest") and not are_times:
        return EARLIEST if text.lower() == "earliest" else LATEST
    try:
        content = json.loads(text, object_pairs_hook=_no_name_twice)
        found = {
            str(topic): _no_name_twice([(int(p), _integer(o)) for p, o in offsets.items()])
            for topic, offsets in content.items()
        }
    except _Twice as error:
        raise ConfigurationError(f"{name} names {error} twice: {text!r:.200}") from None
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        what = (
            'JSON such as {"t": {"0": 1700000000000}}'
            if are_times
            else 'earliest, latest or JSON such as {"t": {"0": 23}}'
        )
        raise ConfigurationError(f"{name} is {what}: {text!r:.200}") from error
    low = 0 if are_times else EARLIEST
    if any(number < low for offsets in found.values() for number in offsets.values()):
        raise ConfigurationError(f"{name} has a number below {low}: {text!r:.200}")
    return found


class _Twice(Exception):
    """A name that an object of JSON has twice, of which a reader takes the last in silence."""


def _no_name_twice(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(repr(key))
        found[key] = value
    return found


def _integer(number: object) -> int:
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(number)
    return number


def _assigned(text: str) -> dict[str, tuple[int, ...]]:
    try:
        content = json.loads(text, object_pairs_hook=_no_name_twice)
        found = {str(topic): tuple(_integer(p) for p in partitions) for topic, partitions in content.items()}
    except _Twice as error:
        raise ConfigurationError(f"assign names {error} twice: {text!r:.200}") from None
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ConfigurationError(f'assign is JSON such as {{"topic": [0, 1]}}: {text!r:.200}') from error
    return {topic: tuple(dict.fromkeys(partitions)) for topic, partitions in found.items() if partitions}


def _positive(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not _is_number(text) or int(text) < 1:
        raise ConfigurationError(f"{name} is a whole number above 0, of at most {DIGITS_MAX} digits, not {text!r}")
    return int(text)


def _whole(name: str, text: str) -> int:
    if not _is_number(text):
        raise ConfigurationError(f"{name} is a whole number from 0 on, of at most {DIGITS_MAX} digits, not {text!r}")
    return int(text)


def _is_number(text: str) -> bool:
    return text.strip().isascii() and text.strip().isdigit() and len(text.strip()) <= DIGITS_MAX


def _duration_ms(name: str, text: str | None) -> int | None:
    """As Spark writes durations: 500ms, 30s, 15m, 2h; a number alone is milliseconds."""
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|min|h|d)?", text.strip().lower())
    if found is None or int(found[1]) < 1:
        raise ConfigurationError(f"{name} is a duration such as 500ms, 30s, 15m or 2h, not {text!r}")
    return int(found[1]) * MS_OF_UNIT[found[2] or ""]


def _boolean(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ConfigurationError(f"{name} is true or false, not {text!r}")
    return text.lower() == "true"
