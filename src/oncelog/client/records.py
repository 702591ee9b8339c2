"""Where a record was stored, and a record that was read."""

from __future__ import annotations

from typing import Any, NamedTuple

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

CREATE_TIME, LOG_APPEND_TIME = 0, 1


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where a record was stored. `offset` is -1 where no broker told it (acks=0, a very late duplicate).

    `timestamp_ms` is the record's own, or the broker's for topics with LogAppendTime.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int = CREATE_TIME

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class ShareRecord(NamedTuple):
    """A record that a share consumer has for a time; `delivery_count` is 1 where nobody of the group had it before.

    `topic_id` tells a topic from one that was deleted and made again under its name.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int
    topic_id: bytes = b""

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)


class ConsumerRecord(NamedTuple):
    """A record read from a partition. `timestamp_ms` is -1 where there is none; `headers` may repeat a name.

    `key` and `value` are bytes or None, or what the consumer's deserializers make of them.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic and partition."""
        return TopicPartition(self.topic, self.partition)
