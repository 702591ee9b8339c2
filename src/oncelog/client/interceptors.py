"""Kafka's interceptors (`interceptor.classes`) as Python objects: they see, and may change, what is sent and what is read.

Records of `send_arrow` and `poll_arrow` do not pass them: there is no object per record there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from oncelog.client.records import ConsumerRecord, RecordMetadata
from oncelog.errors import ConfigurationError, KafkaError
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
        also takes what this raises; it must not block."""

    def close(self) -> None:
        """The producer was stopped."""


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


def interceptors_of(given: Any, kind: type[T]) -> tuple[T, ...]:
    """The objects that a configuration names; a class is called without arguments. Raises ConfigurationError."""
    found = given if isinstance(given, list | tuple) else [given]
    made = tuple(each() if isinstance(each, type) else each for each in found)
    for each in made:
        if not isinstance(each, kind):
            raise ConfigurationError(f"interceptor_classes: expected a list of {kind.__name__}, not {each!r}")
    return made
