"""Which segments a lookup by time would have to read whole, because their indexes lie: they can be read in another thread before.

Reading a gigabyte takes seconds. A small segment, and the last one, to which is appended, are read where they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.log.segment import Segment

AT_ONCE_SIZE_BYTES = 4 << 20  # some milliseconds


def segment_to_mend(segments: Sequence[Segment], log_start_offset: int, timestamp: int | None) -> Segment | None:
    """The next large one, in the order in which a lookup goes through the log. `timestamp`: where the lookup ends; None: it asks
    all for their largest timestamp. Raises StorageError."""
    for segment in segments[:-1]:
        if segment.end_offset <= log_start_offset:
            continue
        if segment.size_bytes > AT_ONCE_SIZE_BYTES and segment.time_problem(timestamp) is not None:
            return segment
        if timestamp is not None and segment.largest_timestamp >= timestamp:
            return None
    return None
