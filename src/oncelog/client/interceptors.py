"""Kafka's interceptors (`interceptor.classes`) as Python objects: they see, and may change, what is sent and what is read.

Records of `send_arrow` and `poll_arrow` do not pass them: there is no object per record there.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from oncelog.client import arguments
from oncelog.client.records import ConsumerRecord, RecordMetadata
from oncelog.errors import ConfigurationError, IllegalState, InvalidArgument, KafkaError
from oncelog.types import OffsetAndMetadata, TopicPartition

T = TypeVar("T")


class ProducerRecord(NamedTuple):
    """A record as it was given to `send`, before serializers and the partitioner; `timestamp_ms` None: now."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Any = None
    partition: int | None = None
    timestamp_ms: int | None = None


class ProducerInterceptor:
    """Override what you need. Interceptors are called in the order of the list, each with what the one before gave."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Each record before it is serialized; what this gives is sent. What it raises goes to the caller of `send`."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata, error: KafkaError | None) -> None:
        """A buffered record was acknowledged, or failed with `error` (its offset is -1 then). From the event loop, which
        also takes what this raises, when the others are called; it must not block."""

    def close(self) -> None:
        """The producer was stopped."""


def as_sent(interceptors: tuple[ProducerInterceptor, ...], record: ProducerRecord) -> ProducerRecord:
    """What is to be sent in place of `record`. Raises InvalidArgument where an interceptor gives something else."""
    for interceptor in interceptors:
        record = interceptor.on_send(record)
        if not isinstance(record, ProducerRecord):
            raise _wrong(interceptor.on_send, record, "a ProducerRecord (record._replace(...) makes another one)")
    return record


class ConsumerInterceptor:
    """Override what you need. Interceptors are called in the order of the list, each with what the one before gave."""

    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        """Records that are about to be handed out, deserialized; may change them or leave some out, not add any. What it
        raises goes to the caller of `poll`, and the positions stay where they were."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """Offsets were committed. From the event loop, which also takes what this raises; it must not block."""

    def close(self) -> None:
        """The consumer was stopped."""


def as_handed_out(interceptors: tuple[ConsumerInterceptor, ...], records: list[ConsumerRecord]) -> list[ConsumerRecord]:
    """What is to be handed out in place of `records`. Raises InvalidArgument where an interceptor gives something else."""
    for interceptor in interceptors:
        count = len(records)
        records = interceptor.on_consume(records)
        if not isinstance(records, list) or not {*map(type, records)} <= {ConsumerRecord}:
            raise _wrong(interceptor.on_consume, records, "a list of ConsumerRecord")
        if len(records) > count:
            raise IllegalState("an interceptor's on_consume added records")
    return records


def call_each(calls: Sequence[Callable[[], object]]) -> None:
    """In order, also where one before raises: that comes out when all were called."""
    with contextlib.ExitStack() as stack:
        for each in reversed(calls):
            stack.callback(each)


def _wrong(method: Callable[..., Any], given: Any, must_give: str) -> InvalidArgument:
    name = method.__qualname__
    if inspect.isawaitable(given):
        if inspect.iscoroutine(given):
            given.close()  # nobody will await it: that is what the error says
        return InvalidArgument(f"{name} must not be async: it is called from the event loop, and gives {must_give}")
    return InvalidArgument(f"{name} must give {must_give}, not {arguments.shown(given)}")


def interceptors_of(given: Any, kind: type[T]) -> tuple[T, ...]:
    """The objects that a configuration names; a class is called without arguments. Raises ConfigurationError."""
    found = given if isinstance(given, list | tuple) else [given]
    made = tuple(each() if isinstance(each, type) else each for each in found)
    for each in made:
        if not isinstance(each, kind):
            raise ConfigurationError(f"interceptor_classes: expected a list of {kind.__name__}, not {each!r}")
    return made
