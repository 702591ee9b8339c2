"""The options that begin with `kafka.`: which go to which client, which the format sets itself, which mean nothing here.

None is dropped in silence: what no client of ours takes is refused with what to do, a misspelt one with the nearest name.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from oncelog.client.config import ALIASES, HAS_NO_MEANING, ClientConfig, ConsumerConfig, ProducerConfig
from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass

_BYTES = "keys and values are bytes here: cast the columns in Spark"
_NO_CODE = "code of yours runs in Spark: map the columns there"
_NO_GROUP = "no group is joined: Spark deals out the partitions"
_NO_REPORTS = "look at query.lastProgress"
_NO_FUNCTION = (
    "an option of Spark's is a text: use kafka.sasl.oauthbearer.token.endpoint.url, or sasl.oauthbearer.config"
)
SET_BY_THE_SOURCE = {
    "oauth_cb": _NO_FUNCTION,
    "sasl_oauth_token_provider": _NO_FUNCTION,
    "auto_offset_reset": "use startingOffsets",
    "enable_auto_commit": "positions are in the checkpoint; kafka.group.id stores them in a group, too",
    "key_deserializer": _BYTES,
    "value_deserializer": _BYTES,
    "interceptor_classes": _NO_CODE,
    "order": "use the columns of the read",
    "transaction_order_memory_bytes": "there is no order to choose",
    "transaction_order_disk_bytes": "there is no order to choose",
    "group_instance_id": _NO_GROUP,
    "group_protocol": _NO_GROUP,
    "group_remote_assignor": _NO_GROUP,
    "partition_assignment_strategy": _NO_GROUP,
    "session_timeout_ms": _NO_GROUP,
    "heartbeat_interval_ms": _NO_GROUP,
    "max_poll_interval_ms": _NO_GROUP,
    "auto_commit_interval_ms": _NO_GROUP,
    "allow_auto_create_topics": "a topic that is not there is told: create it",
    "tracing": "an option of Spark's is a text, and this is an object",
    "stats_cb": _NO_REPORTS,
    "statistics_interval_ms": _NO_REPORTS,
}
SET_BY_THE_SINK = {
    "oauth_cb": _NO_FUNCTION,
    "sasl_oauth_token_provider": _NO_FUNCTION,
    "transactional_id": "each task attempt has its own: use transactionalIdPrefix",
    "transaction_timeout_ms": "it is the broker's largest, or none: use backend",
    "transaction_two_phase_commit_enable": "use backend=prepared",
    "keep_prepared_txn": "use backend=prepared",
    "linger_ms": "rows come many at a time, in whole batches that wait for no others: remove it",
    "key_serializer": _BYTES,
    "value_serializer": _BYTES,
    "interceptor_classes": _NO_CODE,
    "tracing": "an option of Spark's is a text, and this is an object",
    "stats_cb": _NO_REPORTS,
    "statistics_interval_ms": _NO_REPORTS,
    "partitioner_class": "name one of ours with kafka.partitioner, or use the column partition",
    "client_rack": "it is for reading",
}
PREFIX = "kafka."


@dataclass(frozen=True)
class KafkaOptions:
    """By Kafka's dotted keys: what every client takes, and what is for the consumers or producers alone."""

    client: dict[str, str]
    own: dict[str, str]


def consumer_options(options: Mapping[str, str], bootstrap_servers: str | None) -> KafkaOptions:
    """Of a read. Raises ConfigurationError."""
    found = _checked(options, ConsumerConfig, SET_BY_THE_SOURCE, bootstrap_servers)
    _build(ConsumerConfig, {**found.client, **found.own})
    return found


def producer_options(options: Mapping[str, str], bootstrap_servers: str | None) -> KafkaOptions:
    """Of a write. Raises ConfigurationError."""
    found = _checked(options, ProducerConfig, SET_BY_THE_SINK, bootstrap_servers)
    _build(ProducerConfig, {**found.client, **found.own, "transactional.id": "checked"})
    return found


def _checked(
    options: Mapping[str, str], kind: type[ClientConfig], set_here: Mapping[str, str], bootstrap_servers: str | None
) -> KafkaOptions:
    client: dict[str, str] = {}
    own: dict[str, str] = {}
    for option, value in options.items():
        if not option.lower().startswith(PREFIX):
            continue
        key = option[len(PREFIX) :]
        given = key.replace(".", "_")
        name = ALIASES.get(given, given)
        if name in set_here:
            raise ConfigurationError(f"{option} is not to be set here: {set_here[name]}")
        if name in kind.__dataclass_fields__:
            (client if name in ClientConfig.__dataclass_fields__ else own)[key] = value
        elif name in HAS_NO_MEANING:
            raise ConfigurationError(f"{option} has no meaning in oncelog's clients: remove it")
        else:
            raise _unknown(option, key, kind)
    if bootstrap_servers is not None:
        if client.get("bootstrap.servers", bootstrap_servers) != bootstrap_servers:
            raise ConfigurationError("bootstrap.servers and kafka.bootstrap.servers differ: give one of them")
        client["bootstrap.servers"] = bootstrap_servers
    if not client.get("bootstrap.servers"):
        raise ConfigurationError("the option 'bootstrap.servers' is missing (for example 127.0.0.1:9092)")
    return KafkaOptions(client, own)


def _unknown(option: str, key: str, kind: type[ClientConfig]) -> ConfigurationError:
    known = [name.replace("_", ".") for name in kind.__dataclass_fields__]
    other: type[ClientConfig] = ProducerConfig if kind is ConsumerConfig else ConsumerConfig
    if key.replace(".", "_") in other.__dataclass_fields__:
        return ConfigurationError(f"{option} is a {other.KIND}'s, and this is for a {kind.KIND}: remove it")
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    hint = f"; did you mean 'kafka.{near[0]}'?" if near else ""
    return ConfigurationError(f"unknown option {option!r}: a {kind.KIND} has no {key}{hint}")


def _build(kind: type[ClientConfig], config: Mapping[str, Any]) -> None:
    """As the tasks will: a wrong value is told before the first of them runs."""
    try:
        kind.of_dotted(config)
    except ConfigurationError as error:
        raise ConfigurationError(f"an option that begins with 'kafka.': {as_spelled(str(error), kind)}") from error


def as_spelled(text: str, kind: type[ClientConfig]) -> str:
    """The client's words with the names of options as Spark has them: max_request_size is kafka.max.request.size."""
    names = kind.__dataclass_fields__
    return re.sub(r"[a-z]+(?:_[a-z0-9]+)+", lambda m: PREFIX + m[0].replace("_", ".") if m[0] in names else m[0], text)
