"""Offsets by timestamp: from a segment's time index to the batch, and from the batch to the record."""

from __future__ import annotations

from typing import NamedTuple

from oncelog.log.batch_scan import Scan
from oncelog.log.open_files import OpenFiles
from oncelog.log.segment import Segment


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in ms, its offset, and the leader epoch that wrote it."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segment: Segment, open_files: OpenFiles, timestamp: int, log_start_offset: int
) -> TimestampAndOffset | None:
    """The first record of the segment at or above `log_start_offset` that is as late as `timestamp`."""
    from_offset = max(segment.time_index.offset_before(timestamp), log_start_offset, segment.base_offset)
    position = segment.position_of(from_offset)
    for batch in Scan(open_files.get(segment.log_path), position, segment.size_bytes, check_crc=False):
        if batch.max_timestamp >= timestamp and batch.last_offset >= log_start_offset:
            for record in batch.records():
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return TimestampAndOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
    return None


def of_max_timestamp(segment: Segment, open_files: OpenFiles) -> TimestampAndOffset | None:
    """The first record of the segment with its largest timestamp."""
    position = segment.position_of(segment.offset_of_max_timestamp)
    for batch in Scan(open_files.get(segment.log_path), position, segment.size_bytes, check_crc=False):
        for record in batch.records():
            if record.timestamp == batch.max_timestamp:
                return TimestampAndOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
        return TimestampAndOffset(batch.max_timestamp, batch.last_offset, batch.partition_leader_epoch)
    return None
