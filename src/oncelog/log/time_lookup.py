"""Offsets by timestamp: from a segment's time index to the batch, and from the batch to the record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from oncelog.errors import CorruptBatch, DamagedLog
from oncelog.log.batch_scan import Scan
from oncelog.log.open_files import OpenFiles
from oncelog.log.segment import Segment
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch


class TimestampAndOffset(NamedTuple):
    """A record's timestamp in ms, its offset, and the leader epoch that wrote it."""

    timestamp: int
    offset: int
    leader_epoch: int


def first_at_or_after(
    segments: Sequence[Segment], open_files: OpenFiles, timestamp: int, log_start_offset: int
) -> TimestampAndOffset | None:
    """The first record at or above `log_start_offset` that is as late as `timestamp`. Raises DamagedLog."""
    for segment in segments:
        is_late_enough = segment.largest_timestamp >= timestamp or segment.ends_in_damage
        if is_late_enough and segment.end_offset > log_start_offset:
            found = _first_in(segment, open_files, timestamp, log_start_offset)
            if found is not None:
                return found
    return None


def _first_in(
    segment: Segment, open_files: OpenFiles, timestamp: int, log_start_offset: int
) -> TimestampAndOffset | None:
    from_offset = max(segment.offset_before(timestamp), log_start_offset, segment.base_offset)
    for batch in _batches(segment, open_files, segment.position_of(from_offset)):
        if batch.max_timestamp >= timestamp and batch.last_offset >= log_start_offset:
            for record in _records(segment, batch):
                if record.timestamp >= timestamp and record.offset >= log_start_offset:
                    return TimestampAndOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
    return None


def of_max_timestamp(segment: Segment, open_files: OpenFiles) -> TimestampAndOffset | None:
    """The first record of the segment with its largest timestamp. Raises DamagedLog."""
    for batch in _batches(segment, open_files, segment.position_of(segment.offset_of_max_timestamp)):
        for record in _records(segment, batch):
            if record.timestamp == batch.max_timestamp:
                return TimestampAndOffset(record.timestamp, record.offset, batch.partition_leader_epoch)
        return TimestampAndOffset(batch.max_timestamp, batch.last_offset, batch.partition_leader_epoch)
    return None


def _batches(segment: Segment, open_files: OpenFiles, position: int) -> Iterator[RecordBatch]:
    """From `position` on. Raises DamagedLog: an answer from behind what cannot be read would have a reader begin there."""
    scan = Scan(open_files.get(segment.log_path), position, segment.size_bytes, check_crc=False)
    yield from scan
    if scan.problem is not None:
        raise DamagedLog(f"{segment.log_path}: position {scan.position}: {scan.problem}")


def _records(segment: Segment, batch: RecordBatch) -> list[Record]:
    try:
        return batch.records()
    except CorruptBatch as error:
        raise DamagedLog(f"{segment.log_path}: offset {batch.base_offset}: {error}") from error
