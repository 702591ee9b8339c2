"""The offsets of all groups of one coordinator: committed, pending in a transaction, or on their way to the log.

Only `apply` and `apply_marker` change what readers see, in the log's order, live and in recovery alike. `appended`
notes what is in the log but not yet committed there: a deletion covers it, and `requireStable` readers already wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from oncelog.core.groups.pending_offsets import OffsetKey, PendingOffsets, PositionedOffset, key_of
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import OffsetCommit, OffsetDeleted


class CommittedOffsets:
    """Group -> partition -> the last committed offset, with the pending ones beside it."""

    def __init__(self) -> None:
        self.pending = PendingOffsets()
        self._committed: dict[str, dict[TopicPartition, PositionedOffset]] = {}
        self._unapplied: dict[str, Counter[tuple[TopicPartition, bool]]] = {}
        self._position = 0

    # -- what changes ----------------------------------------------------------------------------------------------

    def appended(self, record: OffsetCommit | OffsetDeleted) -> None:
        """The record is in the log, but may still be lost with it."""
        if isinstance(record, OffsetCommit):
            key = TopicPartition(record.topic, record.partition), record.is_transactional
            self._unapplied.setdefault(record.group_id, Counter())[key] += 1

    def resolved(self, record: OffsetCommit | OffsetDeleted) -> None:
        """Undoes `appended`: the record has been applied, or is lost."""
        counts = self._unapplied.get(record.group_id)
        if counts is None or isinstance(record, OffsetDeleted):
            return
        key = TopicPartition(record.topic, record.partition), record.is_transactional
        counts[key] -= 1
        if counts[key] <= 0:
            del counts[key]
        if not counts:
            del self._unapplied[record.group_id]

    def apply(self, record: OffsetCommit | OffsetDeleted) -> None:
        """One record of the log, in the log's order."""
        self.resolved(record)
        self._position += 1
        if isinstance(record, OffsetDeleted):
            topic_partition = TopicPartition(record.topic, record.partition)
            self.pending.drop(OffsetKey(record.group_id, topic_partition))
            partitions = self._committed.get(record.group_id, {})
            partitions.pop(topic_partition, None)
            if not partitions:
                self._committed.pop(record.group_id, None)
        elif record.is_transactional:
            self.pending.put(record, self._position)
        else:
            self._commit(PositionedOffset(record, self._position))

    def apply_marker(self, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        """The transaction's end: what it committed shows unless the log has something newer (docs/kafka-notes.md G4)."""
        for entry in self.pending.take(producer_id, producer_epoch):
            key = key_of(entry.record)
            existing = self._committed.get(key.group_id, {}).get(key.topic_partition)
            if commit and (existing is None or existing.position < entry.position):
                self._commit(entry)

    def _commit(self, entry: PositionedOffset) -> None:
        key = key_of(entry.record)
        self._committed.setdefault(key.group_id, {})[key.topic_partition] = entry

    # -- what is seen ----------------------------------------------------------------------------------------------

    def get(self, group_id: str, topic_partition: TopicPartition) -> OffsetCommit | None:
        """The committed offset, None where there is none."""
        entry = self._committed.get(group_id, {}).get(topic_partition)
        return None if entry is None else entry.record

    def of_group(self, group_id: str) -> dict[TopicPartition, OffsetCommit]:
        """All committed offsets of a group."""
        return {each: entry.record for each, entry in self._committed.get(group_id, {}).items()}

    @property
    def count(self) -> int:
        """Offsets of all groups, committed and pending."""
        return sum(map(len, self._committed.values())) + self.pending.count

    def groups(self) -> Iterable[str]:
        """The groups that have a committed offset."""
        return self._committed.keys()

    def is_unstable(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether a transaction may still change this offset (UNSTABLE_OFFSET_COMMIT)."""
        counts = self._unapplied.get(group_id)
        if counts is not None and counts[topic_partition, True] > 0:
            return True
        return self.pending.has(OffsetKey(group_id, topic_partition))

    def is_on_its_way(self, group_id: str, topic_partition: TopicPartition) -> bool:
        """Whether a commit of this offset is in the log but not applied."""
        counts = self._unapplied.get(group_id)
        return counts is not None and counts[topic_partition, True] + counts[topic_partition, False] > 0

    def all_partitions(self, group_id: str) -> set[TopicPartition]:
        """Every partition for which the log holds something of the group: what its deletion has to cover."""
        unapplied = {topic_partition for topic_partition, _ in self._unapplied.get(group_id, ())}
        return {*self._committed.get(group_id, ()), *self.pending.partitions_of(group_id), *unapplied}

    def has_any(self, group_id: str) -> bool:
        """Whether the group has an offset of any kind."""
        return bool(group_id in self._committed or group_id in self._unapplied or self.pending.partitions_of(group_id))
