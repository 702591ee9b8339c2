"""The keyword arguments of a broker and of its subscribers that are oncelog's, and which of them are decided elsewhere."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from oncelog.client.config import ALIASES, AdminConfig, ClientConfig, ProducerConfig
from oncelog.client.metrics import ProcessMetrics
from oncelog.client.option_types import ProcessClientOptions, SendingOptions
from oncelog.client.processing.processor import Processor
from oncelog.errors import ConfigurationError

_CODING = ("key_serializer", "value_serializer", "key_deserializer", "value_deserializer")
_SUBSCRIBERS = ("transactional_id", "transaction_timeout_ms")


_DECIDED = {
    "into": "what a handler returns goes where @broker.publisher(TOPIC) says",
    "transform": "the handler is it",
    "transform_batch": "the handler is it, with batch=True",
    "writer": "a DualWriter works with oncelog.process",
    "concurrency": "it is called max_workers here",
    "stop_timeout_ms": "it is the broker's: OncelogBroker(..., graceful_timeout=SECONDS)",
    "handle_sigterm": "signals are the application's",
    "until_end": "an application reads on; oncelog.process(..., until_end=True) does not",
    "max_records": "an application reads on; oncelog.process(..., max_records=N) does not",
    "host": "it is for the tests of clients",
}
_CONNECTION = ("bootstrap_", "security_", "sasl_", "ssl_")


class BrokerOptions(SendingOptions, total=False):
    """Of the broker: the way to the cluster, for all of its clients, and how records are sent."""


class SubscriberOptions(ProcessClientOptions, total=False):
    """Of a subscriber: those of `oncelog.process`, which see, and of its clients."""

    dead_letter_topic: str | None
    permanent_errors: type[BaseException] | Iterable[type[BaseException]]
    transform_timeout_ms: int
    transform_retries: int
    transform_backoff_ms: int
    transform_backoff_max_ms: int
    transaction_records_max: int
    transaction_bytes_max: int
    transaction_interval_ms: int
    outage_timeout_ms: int
    restart_when_fenced: bool | None
    stats_cb: Callable[[ProcessMetrics], None] | None
    statistics_interval_ms: int


def checked_broker_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ConfigurationError for what no client knows, or what is a subscriber's."""
    for given in options:
        name = ALIASES.get(given, given)
        _refuse_coding("OncelogBroker", name)
        if name in _SUBSCRIBERS:
            raise ConfigurationError(
                f"OncelogBroker: {name} is each subscriber's own: @broker.subscriber(..., {name}=...)"
            )
    if ProducerConfig.of(dict(options)).acks not in ("all", -1, "-1"):
        raise ConfigurationError("OncelogBroker: what is published is acknowledged by all replicas: leave acks out")
    return dict(options)


def checked_subscriber_options(topics: Sequence[str], group_id: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Raises ConfigurationError, InvalidArgument for what is the broker's or FastStream's, unknown, or out of bounds."""
    known = (*SubscriberOptions.__annotations__, *ALIASES)
    for given in options:
        name = ALIASES.get(given, given)
        _refuse_coding("subscriber", name)
        if name in _DECIDED:
            raise ConfigurationError(f"subscriber: {given} is not taken: {_DECIDED[name]}")
        if name.startswith(_CONNECTION):
            raise ConfigurationError(f"subscriber: {given} is the broker's: OncelogBroker(..., {given}=...)")
        if given not in known:
            near = difflib.get_close_matches(given, known, 1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"subscriber: unknown option {given!r}{hint}")
    Processor(topics, group_id=group_id, transform=_nothing, **options)
    return dict(options)


def _nothing(_: object) -> None:
    """In place of a handler: only the options are judged."""


def admin_options(options: Mapping[str, Any], timeout_ms: int) -> dict[str, Any]:
    """Of a broker's options those that are any client's; with a shorter patience."""
    known = ClientConfig.__dataclass_fields__
    found = {given: value for given, value in options.items() if ALIASES.get(given, given) in known}
    patience_ms = min(AdminConfig.of(found).default_api_timeout_ms, timeout_ms)
    return {**found, "default_api_timeout_ms": patience_ms}


def _refuse_coding(kind: str, name: str) -> None:
    if name in _CODING:
        raise ConfigurationError(
            f"{kind}: {name} is not taken: bodies are FastStream's; give a codec, a parser or a decoder"
        )
