"""Transactional offsets between append and marker."""

from __future__ import annotations

from oncelog.core.groups.pending_offsets import OffsetKey, PendingOffsets, key_of
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import OffsetCommit


def offset(value: int, producer_id: int = 1, partition: int = 0, group_id: str = "g") -> OffsetCommit:
    return OffsetCommit(group_id, "t", partition, value, producer_id=producer_id, producer_epoch=0)


KEY = OffsetKey("g", TopicPartition("t", 0))


def test_a_marker_takes_everything_of_its_producer_once():
    pending = PendingOffsets()
    pending.put(offset(1), 1)
    pending.put(offset(2, partition=1), 2)
    pending.put(offset(3, producer_id=2), 3)
    assert [each.record.offset for each in pending.take(1, 0)] == [1, 2]
    assert pending.take(1, 0) == []
    assert pending.has(KEY)


def test_the_newest_offset_of_a_producer_replaces_the_older():
    pending = PendingOffsets()
    pending.put(offset(1), 1)
    pending.put(offset(9), 2)
    assert [(each.record.offset, each.position) for each in pending.take(1, 0)] == [(9, 2)]
    assert not pending.has(KEY)


def test_a_dropped_key_is_gone_for_all_producers():
    pending = PendingOffsets()
    pending.put(offset(1, producer_id=1), 1)
    pending.put(offset(2, producer_id=2), 2)
    pending.put(offset(3, producer_id=2, partition=1), 3)
    pending.drop(KEY)
    assert not pending.has(KEY)
    assert pending.take(1, 0) == []
    assert [each.record.offset for each in pending.take(2, 0)] == [3]


def test_partitions_are_listed_by_group():
    pending = PendingOffsets()
    pending.put(offset(1), 1)
    pending.put(offset(1, group_id="h", partition=4), 2)
    assert pending.partitions_of("g") == {TopicPartition("t", 0)}
    assert pending.partitions_of("h") == {TopicPartition("t", 4)}
    assert pending.partitions_of("none") == set()


def test_nothing_is_left_of_what_was_taken():
    pending = PendingOffsets()
    record = offset(1)
    pending.put(record, 1)
    assert list(pending.entries()) == [1]
    assert key_of(record) in pending.entries()[1]
    pending.take(1, 0)
    assert pending.entries() == {}
    assert pending.partitions_of("g") == set()
