"""The options of `oncelog.process`: what is its own, and which of the others go to the consumer, the producer, or both."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction, signature
from typing import Any

from oncelog.client import arguments
from oncelog.client.config import (
    ALIASES,
    HAS_NO_MEANING,
    ClientConfig,
    ConsumerConfig,
    ProducerConfig,
    check_known,
)
from oncelog.client.consumer.deserializing import decoder_of
from oncelog.client.processing.results import Results
from oncelog.client.processing.transforming import Reading
from oncelog.core.processing.steps import Limits
from oncelog.errors import ConfigurationError, InvalidArgument
from oncelog.host.randomness import Random, random_uuid
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.uuids import uuid_text

TRANSACTION_TIMEOUT_MS = 10_000
TRANSFORM_TIMEOUT_MS = 60_000
STOP_TIMEOUT_MS = 30_000

_BOTH = frozenset(field.name for field in dataclasses.fields(ClientConfig))
_CONSUMERS = frozenset(field.name for field in dataclasses.fields(ConsumerConfig))
_PRODUCERS = frozenset(field.name for field in dataclasses.fields(ProducerConfig))
_OURS = {
    "enable_auto_commit": "positions are committed in the transactions",
    "isolation_level": "the input is read_committed",
    "order": "the input is read in the order of its offsets",
    "acks": "transactions need acks=all",
    "enable_idempotence": "transactions need it",
    "transaction_two_phase_commit_enable": "give a DualWriter as `writer`",
    "keep_prepared_txn": "give a DualWriter as `writer`",
    "interceptor_classes": "nothing stands between the records and the transform",
}
_CODING = ("key_serializer", "value_serializer", "key_deserializer", "value_deserializer")


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """The keyword arguments of both clients, and what is taken out of them."""

    consumer: dict[str, Any]
    producer: dict[str, Any]
    coding: dict[str, Any]
    chooses_id: bool  # nobody named a transactional id: it is new, and nobody else's
    max_poll_interval_ms: int


def client_options(group_id: str, config: Mapping[str, Any], random: Random) -> ClientOptions:
    """Which option goes where. Raises ConfigurationError for what nobody knows, or what is decided here."""
    consumer: dict[str, Any] = {"group_id": arguments.text("group_id", group_id)}
    producer: dict[str, Any] = {}
    coding: dict[str, Any] = {}
    for given, value in config.items():
        name = ALIASES.get(given, given)
        if name in _OURS:
            raise ConfigurationError(f"process: {name} is not taken: {_OURS[name]}")
        if name in _CODING:
            if value is not None and not callable(value):
                raise ConfigurationError(f"process: {name}={value!r}: expected a function")
            coding[name] = value
            continue
        if name not in HAS_NO_MEANING:
            check_known("process", name, _CONSUMERS | _PRODUCERS)
        if name in _CONSUMERS:
            consumer[given] = value
        if name in _PRODUCERS or name in HAS_NO_MEANING:
            producer[given] = value
    consumer |= {"enable_auto_commit": False, "isolation_level": "read_committed"}
    consumer.setdefault("auto_offset_reset", "earliest")
    if consumer.get("group_protocol", "classic") == "classic":
        consumer.setdefault("partition_assignment_strategy", "cooperative-sticky")
    producer.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    chooses_id = producer.get("transactional_id") is None and consumer.get("group_instance_id") is None
    if producer.get("transactional_id") is None:
        producer["transactional_id"] = transactional_id(group_id, consumer.get("group_instance_id"), random)
    checked = ConsumerConfig.of(consumer)  # also so that a wrong one is told here, before anything is opened
    ProducerConfig.of(producer)
    return ClientOptions(consumer, producer, coding, chooses_id, checked.max_poll_interval_ms)


def transactional_id(group_id: str, group_instance_id: str | None, random: Random) -> str:
    """Of one member: nobody else alive may have it, or each start would fence the other.

    What fences a member that lost its partitions is the group (KIP-447), so the id need not outlive the process. Where the
    member has a name of its own (`group_instance_id`, which the group keeps unique) it is made of that: its next life ends
    at once what the last one left open. Else it is new, and the transaction timeout ends that.
    """
    if group_instance_id is not None:
        return f"{group_id}-{group_instance_id}"
    return f"{group_id}-{uuid_text(random_uuid(random))}"


def check_writer(writer: Any, config: Mapping[str, Any], *, is_async: bool) -> None:
    """Raise InvalidArgument for what is no dual writer of this kind, ConfigurationError for what it decides itself."""
    if not all(hasattr(writer, name) for name in ("transaction", "recover", "transactional_id")):
        raise arguments.refuse("writer", writer, "a started oncelog.recipes.DualWriter")
    if iscoroutinefunction(writer.recover) is not is_async:
        hint = "oncelog.recipes.DualWriter" if is_async else "oncelog.recipes.sync.DualWriter"
        raise arguments.refuse("writer", writer, "a writer of the same kind, with or without asyncio", f"here {hint}")
    for given in config:
        name = ALIASES.get(given, given)
        if name in _PRODUCERS and name not in _CONSUMERS and name not in _CODING:
            raise ConfigurationError(f"process: {given} is the writer's to decide: give it to the DualWriter")


def one_function(transform: Any, transform_batch: Any, writer: Any) -> Callable[..., Any]:
    """What is called. Raises InvalidArgument."""
    if (transform is None) == (transform_batch is None):
        raise InvalidArgument(
            "give one of transform and transform_batch: what is called with a record, or with several"
        )
    if writer is not None and transform_batch is not None:
        raise InvalidArgument("a writer takes `transform`: its rows are rolled back record by record")
    function = transform if transform is not None else transform_batch
    if not callable(function):
        raise arguments.refuse("transform", function, "a function")
    what = "the records" if transform is None else "a record" if writer is None else "a record, the database's handle"
    _check_signature(function, what)
    found: Callable[..., Any] = function
    return found


def _check_signature(function: Callable[..., Any], what: str) -> None:
    """Raise InvalidArgument for a function that cannot be called so: every record would fail, and be a dead letter."""
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # of a builtin nobody knows
        return
    try:
        parameters.bind(*what.split(", "))
    except TypeError as error:
        raise InvalidArgument(f"the transform is called with ({what}): {error}") from None


def dead_letter_of(topic: Any, topics: Sequence[str]) -> str | None:
    """Where dead letters go. Raises InvalidArgument."""
    return _written("dead_letter_topic", topic, topics, "each dead letter would fail again, for ever")


def into_of(into: Any, topics: Sequence[str]) -> str | None:
    """Where records go that name no topic. Raises InvalidArgument."""
    return _written(
        "into", into, topics, "what is written there comes back, for ever (a record that should names it itself)"
    )


def how_to_read(options: ClientOptions, permanent_errors: Any) -> Reading:
    """Deserializers, and what of a transform's errors is final."""
    coding = {name: each for name, each in options.coding.items() if name.endswith("_deserializer")}
    given = (permanent_errors,) if isinstance(permanent_errors, type) else permanent_errors
    classes = tuple(arguments.items("permanent_errors", given))
    for each in classes:
        if not (isinstance(each, type) and issubclass(each, BaseException)):
            raise arguments.refuse("permanent_errors", each, "classes of exceptions")
    return Reading(decoder_of(ConsumerConfig.of(coding)), classes)


def how_to_write(options: ClientOptions, into: str | None, transaction_bytes_max: int) -> Results:
    """Serializers, and where records go."""
    serializers = options.coding.get("key_serializer"), options.coding.get("value_serializer")
    return Results(into, transaction_bytes_max, *serializers)


def _written(option: str, name: Any, read: Sequence[str], why_not: str) -> str | None:
    """Told before anything is read: a dead letter may be the first that goes there, hours later."""
    if name is None:
        return None
    if arguments.topic_name(option, name) in read:
        raise InvalidArgument(f"{option}={name!r} is read, too: {why_not}")
    return str(name)


def checked_limits(limits: Limits) -> Limits:
    """Raises InvalidArgument for a bound that is none."""
    for name in (
        "transaction_interval_ms",
        "transform_retries",
        "transform_backoff_ms",
        "transform_backoff_max_ms",
        "outage_timeout_ms",
    ):
        arguments.integer(name, getattr(limits, name))
    for name in ("transaction_records_max", "transaction_bytes_max"):
        arguments.integer(name, getattr(limits, name), low=1)
    arguments.integer_or_none("max_records", limits.max_records, high=arguments.INT64_MAX)
    arguments.boolean("until_end", limits.until_end)
    return limits
