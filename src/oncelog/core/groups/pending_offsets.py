"""Transactional offsets between their append and their transaction's marker (KIP-98, KIP-447).

They are kept per producer id with the position at which the log has them: when the marker commits them, the log's order
decides against plain commits of the same partition (docs/kafka-notes.md G4). Whoever reads with `requireStable` is told
to wait while one is here.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import OffsetCommit


class OffsetKey(NamedTuple):
    """What one offset belongs to."""

    group_id: str
    topic_partition: TopicPartition


def key_of(record: OffsetCommit) -> OffsetKey:
    """The key under which the log and the tables keep this commit."""
    return OffsetKey(record.group_id, TopicPartition(record.topic, record.partition))


@dataclass(frozen=True, slots=True)
class PositionedOffset:
    """An offset commit and its place in the order of applied records."""

    record: OffsetCommit
    position: int


class PendingOffsets:
    """All undecided transactional offsets of one `__consumer_offsets` partition."""

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetKey, PositionedOffset]] = {}
        self._counts: dict[str, Counter[TopicPartition]] = {}

    def put(self, record: OffsetCommit, position: int) -> None:
        """The newest offset of this producer for the record's key."""
        entries = self._by_producer.setdefault(record.producer_id, {})
        key = key_of(record)
        if key not in entries:
            self._counts.setdefault(key.group_id, Counter())[key.topic_partition] += 1
        entries[key] = PositionedOffset(record, position)

    def take(self, producer_id: int, producer_epoch: int) -> list[PositionedOffset]:
        """Removes and returns what a marker of this producer decides.

        A marker never decides about offsets of a newer producer epoch (KIP-890: its own epoch is at least theirs).
        """
        entries = self._by_producer.get(producer_id, {})
        taken = [each for each in entries.values() if each.record.producer_epoch <= producer_epoch]
        for each in taken:
            self._remove(producer_id, key_of(each.record))
        return taken

    def drop(self, key: OffsetKey) -> None:
        """The key was deleted: a later marker shows nothing of it (docs/kafka-notes.md G5)."""
        for producer_id in [each for each, entries in self._by_producer.items() if key in entries]:
            self._remove(producer_id, key)

    def has(self, key: OffsetKey) -> bool:
        """Whether a transaction has still to decide about this key."""
        counts = self._counts.get(key.group_id)
        return counts is not None and counts[key.topic_partition] > 0

    @property
    def count(self) -> int:
        """Offsets that wait for a marker."""
        return sum(map(len, self._by_producer.values()))

    def partitions_of(self, group_id: str) -> set[TopicPartition]:
        """The partitions of a group that wait for a marker."""
        return set(self._counts.get(group_id, ()))

    def entries(self) -> dict[int, dict[OffsetKey, PositionedOffset]]:
        """A copy of everything, by producer id."""
        return {producer_id: dict(entries) for producer_id, entries in self._by_producer.items()}

    def _remove(self, producer_id: int, key: OffsetKey) -> None:
        entries = self._by_producer[producer_id]
        del entries[key]
        if not entries:
            del self._by_producer[producer_id]
        counts = self._counts[key.group_id]
        counts[key.topic_partition] -= 1
        if not counts[key.topic_partition]:
            del counts[key.topic_partition]
        if not counts:
            del self._counts[key.group_id]
