"""Committed offsets: which stand, and where they point."""

from __future__ import annotations

from oncelog.core.reconciliation.findings import NOTE, OFFSET_NOWHERE
from oncelog.core.reconciliation.group_offsets import Bounds, CommittedOffset, GroupOffsets, judge_offsets
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import OffsetCommit, OffsetDeleted


def test_a_transactions_offsets_stand_once_it_is_committed() -> None:
    offsets = GroupOffsets()
    offsets.take(0, 0, OffsetCommit("g", "t", 0, 5))
    offsets.take(0, 1, OffsetCommit("g", "t", 0, 9, producer_id=7))
    assert [each.offset for each in offsets.committed.values()] == [5]
    offsets.take_marker(0, 7, commit=False)
    offsets.take(0, 3, OffsetCommit("g", "t", 0, 8, producer_id=7))
    offsets.take_marker(0, 7, commit=True)
    assert [each.offset for each in offsets.committed.values()] == [8]
    offsets.take(0, 5, OffsetDeleted("g", "t", 0))
    assert offsets.committed == {}


def test_where_they_point() -> None:
    logs = {TopicPartition("t", 0): Bounds(10, 20)}
    kinds = {}
    for topic, partition, offset in [("t", 0, 20), ("t", 0, 21), ("t", 0, 9), ("t", 1, 0), ("gone", 0, 0)]:
        committed = [CommittedOffset("g", topic, partition, offset, 0, 3)]
        found = list(judge_offsets(committed, logs, directory="/data", has_every_partition=True))
        kinds[(topic, partition, offset)] = [each.kind for each in found]
    assert kinds == {
        ("t", 0, 20): [],
        ("t", 0, 21): [OFFSET_NOWHERE],
        ("t", 0, 9): [NOTE],
        ("t", 1, 0): [OFFSET_NOWHERE],
        ("gone", 0, 0): [],  # the topic was deleted
    }


def test_a_migrations_state_has_offsets_of_another_broker() -> None:
    logs = {TopicPartition("t", 0): Bounds(10, 20)}
    for partition, offset in [(0, 500), (0, 3), (7, 0)]:
        committed = [CommittedOffset("__oncelog-migration-abc", "t", partition, offset, 0, 3)]
        assert not list(judge_offsets(committed, logs, directory="/data", has_every_partition=True))


def test_a_partition_that_could_not_be_read_says_nothing() -> None:
    logs = {TopicPartition("t", 0): Bounds(0, 0)}
    committed = [CommittedOffset("g", "t", 0, 2007, 42, 3), CommittedOffset("g", "t", 1, 9, 42, 4)]
    for unread in ({TopicPartition("t", 0), TopicPartition("t", 1)}, {TopicPartition("__consumer_offsets", 42)}):
        assert not list(judge_offsets(committed, logs, directory="/", has_every_partition=True, unread=unread))
