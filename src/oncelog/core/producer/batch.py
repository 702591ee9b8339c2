"""One batch on the producer's side: what it holds, who it is on the wire, and how it ended.

Rule: once a batch has a sequence, its identity, sequence and bytes never change, whatever happens to it. What cannot be
resolved under that sequence fails; nothing is ever rewritten (a rewritten batch could be stored twice).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from oncelog.errors import KafkaError
from oncelog.types import NO_SEQUENCE, ProducerIdAndEpoch, TopicPartition

ProducedRecord = tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]
"""timestamp_ms, key, value, headers."""

BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 21  # length, attributes, deltas, lengths of key, value and headers at their longest


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How a batch succeeded; `base_offset` is -1 where the broker no longer knows it (a very late duplicate)."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1


class EncodedRecords(Protocol):
    """Records that know how to become one batch: a list of records, or a slice of Arrow columns."""

    def encode(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> bytearray | bytes:
        """The whole record batch."""
        ...


class ProducerBatch:
    """Records of one partition that are sent together. `outcome` is None until it ended."""

    __slots__ = (
        "attempt_count",
        "created_ms",
        "encoded",
        "identity",
        "is_closed",
        "last_error",
        "not_before_ms",
        "on_done",
        "outcome",
        "record_count",
        "records",
        "sequence",
        "size_bytes",
        "source",
        "topic_partition",
        "was_first_when_sent",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: float) -> None:
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.records: list[ProducedRecord] = []
        self.source: EncodedRecords | None = None
        self.record_count = 0
        self.size_bytes = BATCH_OVERHEAD_BYTES
        self.is_closed = False
        self.identity = ProducerIdAndEpoch()
        self.sequence = NO_SEQUENCE
        self.encoded: bytearray | bytes | None = None
        self.attempt_count = 0
        self.not_before_ms = 0.0
        self.was_first_when_sent = False
        self.last_error: KafkaError | None = None  # of an attempt that was repeated
        self.outcome: Acknowledged | KafkaError | None = None
        self.on_done: list[Callable[[ProducerBatch], None]] = []

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic_partition}, {self.record_count} records, {self.identity}, {self.sequence})"

    def add(self, record: ProducedRecord, size_bytes: int) -> int:
        """Take one more record; gives its index in the batch."""
        assert not self.is_closed
        self.records.append(record)
        self.size_bytes += size_bytes
        self.record_count += 1
        return self.record_count - 1

    @property
    def has_sequence(self) -> bool:
        """Whether the batch was given its permanent sequence."""
        return self.sequence != NO_SEQUENCE

    def end(self, outcome: Acknowledged | KafkaError) -> None:
        """The batch is done; the first outcome stays."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        callbacks, self.on_done = self.on_done, []
        for callback in callbacks:
            callback(self)


def record_size_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """An upper bound of what a record takes in a batch before compression."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + len(name) * 4 + (len(content) if content else 0)
    return size
