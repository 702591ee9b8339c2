"""ListOffsets: what each timestamp means by version, and how far each isolation level may see (docs/kafka-notes.md F6).

The special timestamps are answered from the partition's offsets at once; a real one (and the largest) is looked up in
the log, and the log's answer counts only below the reader's bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import IntEnum

from oncelog.core.leader.partition import IsolationLevel, Partition
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

NO_TIMESTAMP = -1
NO_OFFSET = -1
NO_LEADER_EPOCH = -1


class SpecialTimestamp(IntEnum):
    """Timestamps that ask for a place in the log instead of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


_SINCE_VERSION = {
    SpecialTimestamp.LATEST: 1,
    SpecialTimestamp.EARLIEST: 1,
    SpecialTimestamp.MAX_TIMESTAMP: 7,
    SpecialTimestamp.EARLIEST_LOCAL: 8,
    SpecialTimestamp.LATEST_TIERED: 9,
    SpecialTimestamp.EARLIEST_PENDING_UPLOAD: 11,
}


@dataclass(frozen=True, slots=True)
class FoundOffset:
    """The answer for one partition; -1 in each field is nothing found (no error)."""

    offset: int = NO_OFFSET
    timestamp: int = NO_TIMESTAMP
    leader_epoch: int = NO_LEADER_EPOCH


@dataclass(frozen=True, slots=True)
class SearchTimestamp:
    """Look up the first record at or after `timestamp` (ms); None: the record with the largest timestamp.

    Then pass what was found to `below`: a record at or past `end_offset` is not to be seen yet.
    """

    timestamp: int | None
    end_offset: int


def look_up(
    partition: Partition,
    timestamp: int,
    isolation_level: IsolationLevel,
    *,
    version: int,
    current_leader_epoch: int = NO_LEADER_EPOCH,
    earliest_leader_epoch: int = NO_LEADER_EPOCH,
) -> FoundOffset | SearchTimestamp | Refuse:
    """One partition of a consumer's ListOffsets request, in the request's version.

    `earliest_leader_epoch` is that of the log start, as the log's leader epochs have it.
    """
    refusal = partition.check_leader_epoch(current_leader_epoch)
    if refusal is not None:
        return refusal
    end_offset = partition.readable_to(isolation_level)
    if timestamp >= 0:
        return SearchTimestamp(timestamp, end_offset)
    if timestamp not in _SINCE_VERSION or version < _SINCE_VERSION[SpecialTimestamp(timestamp)]:
        return Refuse(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp} in ListOffsets version {version}")
    match SpecialTimestamp(timestamp):
        case SpecialTimestamp.LATEST:
            return FoundOffset(end_offset, NO_TIMESTAMP, partition.leader_epoch)
        case SpecialTimestamp.EARLIEST | SpecialTimestamp.EARLIEST_LOCAL:
            return FoundOffset(partition.log_start_offset, NO_TIMESTAMP, earliest_leader_epoch)
        case SpecialTimestamp.MAX_TIMESTAMP:
            return SearchTimestamp(None, end_offset)
        case SpecialTimestamp.LATEST_TIERED | SpecialTimestamp.EARLIEST_PENDING_UPLOAD:
            return FoundOffset()  # nothing is tiered here


def below(found: FoundOffset | None, search: SearchTimestamp) -> FoundOffset:
    """What the log found, unless it lies at or past the reader's bound."""
    if found is None or found.offset >= search.end_offset:
        return FoundOffset()
    return found


def named_twice(partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Partitions that a request names more than once: each gets one answer, INVALID_REQUEST."""
    return {partition for partition, count in Counter(partitions).items() if count > 1}
