"""ListOffsets: special timestamps by version, isolation levels (docs/kafka-notes.md F6)."""

from __future__ import annotations

import pytest
from evidence.world.partition_leader import READ_COMMITTED, READ_UNCOMMITTED, Leader

from oncelog.core.leader.offset_lookup import FoundOffset, SearchTimestamp, below, look_up, named_twice
from oncelog.core.leader.partition import Refuse
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition


@pytest.fixture
def partition():
    """Log start 1, last stable offset 2, high watermark 3, log end 4."""
    leader = Leader()
    leader.plain(2)
    leader.produce(1, 0, 0)
    leader.plain(1, sync=False)
    leader.partition.delete_records_to(1)
    return leader.partition


@pytest.mark.parametrize(
    ("timestamp", "isolation_level", "expected"),
    [
        (-1, READ_COMMITTED, FoundOffset(2, -1, 0)),
        (-1, READ_UNCOMMITTED, FoundOffset(3, -1, 0)),
        (-2, READ_COMMITTED, FoundOffset(1, -1, 7)),
        (-4, READ_UNCOMMITTED, FoundOffset(1, -1, 7)),
        (-3, READ_COMMITTED, SearchTimestamp(None, 2)),
        (-3, READ_UNCOMMITTED, SearchTimestamp(None, 3)),
        (-5, READ_COMMITTED, FoundOffset()),
        (-6, READ_COMMITTED, FoundOffset()),
        (0, READ_COMMITTED, SearchTimestamp(0, 2)),
        (55, READ_UNCOMMITTED, SearchTimestamp(55, 3)),
    ],
)
def test_every_timestamp_in_the_newest_version(partition, timestamp, isolation_level, expected):
    assert look_up(partition, timestamp, isolation_level, version=11, earliest_leader_epoch=7) == expected


@pytest.mark.parametrize(("timestamp", "since"), [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)])
def test_special_timestamps_begin_with_a_version(partition, timestamp, since):
    assert not isinstance(look_up(partition, timestamp, READ_COMMITTED, version=since), Refuse)
    refused = look_up(partition, timestamp, READ_COMMITTED, version=since - 1)
    assert isinstance(refused, Refuse)
    assert refused.error_code is ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("timestamp", [-7, -100, -(2**63)])
def test_unknown_negative_timestamps(partition, timestamp):
    refused = look_up(partition, timestamp, READ_COMMITTED, version=11)
    assert isinstance(refused, Refuse)
    assert refused.error_code is ErrorCode.UNSUPPORTED_VERSION


def test_leader_epoch_is_checked_first(partition):
    refused = look_up(partition, -1, READ_COMMITTED, version=11, current_leader_epoch=1)
    assert isinstance(refused, Refuse)
    assert refused.error_code is ErrorCode.UNKNOWN_LEADER_EPOCH


def test_what_is_not_stable_yet_is_not_found():
    """Redpanda 3161: a lookup by time ignored the isolation level."""
    search = SearchTimestamp(55, 2)
    assert below(FoundOffset(1, 60, 0), search) == FoundOffset(1, 60, 0)
    assert below(FoundOffset(2, 60, 0), search) == FoundOffset(-1, -1, -1)
    assert below(None, search) == FoundOffset(-1, -1, -1)


def test_partitions_named_twice():
    one, two = TopicPartition("t", 0), TopicPartition("t", 1)
    assert named_twice([one, two, one]) == {one}
    assert named_twice([]) == set()
