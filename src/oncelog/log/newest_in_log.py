"""What a log says last of each key, for who loads a state from it: most of it is read without an object for each batch."""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.errors import DamagedLog
from oncelog.log.batch_scan import Newest
from oncelog.log.partition_log import PartitionLog
from oncelog.log.segment import Segment
from oncelog.wire.record_batch import RecordBatch


def newest_in_log(log: PartitionLog) -> Iterator[Newest | RecordBatch]:
    """Everything from the log start on, in order, each batch checked; nothing may be appended or removed meanwhile.

    Plain batches that follow one another come together, as the last value of each key in the order of those; all others
    (compressed, transactional, markers) one by one. Raises DamagedLog (the log is failed from then on) when what lies there
    is not what was written.
    """
    try:
        for segment in log.segments:
            if segment.base_offset >= log.log_start_offset:
                yield from _runs(segment)
            elif segment.end_offset > log.log_start_offset:
                yield from (batch for batch in segment.checked() if batch.end_offset > log.log_start_offset)
    except DamagedLog as error:
        log.fail(error)
        raise


def _runs(segment: Segment) -> Iterator[Newest | RecordBatch]:
    scan = segment.scan(0)
    yield from scan.runs(segment.base_offset)
    if scan.problem is not None:
        raise DamagedLog(f"{segment.log_path}: position {scan.position}, offset {scan.due_offset}: {scan.problem}")
    if scan.due_offset > segment.end_offset:
        raise DamagedLog(f"{segment.log_path}: offsets up to {scan.due_offset} where {segment.end_offset} follows")
    segment.unchecked_end_position = 0
