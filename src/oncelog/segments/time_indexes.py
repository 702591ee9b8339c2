"""A segment's `.timeindex` held against the columns of its batches, chunk by chunk; the first thing that is wrong is kept."""

from __future__ import annotations

import numpy as np

from oncelog.log.time_index import ENTRY_SIZE_BYTES, NO_TIMESTAMP, TimeIndex
from oncelog.segments.headers import Batches


class TimeIndexCheck:
    """Of one segment. `problem`: what is wrong, and at which offset; None so far."""

    def __init__(self, base_offset: int, data: bytes) -> None:
        """Raises CorruptIndex."""
        used = len(data.rstrip(b"\0"))
        if len(data) % ENTRY_SIZE_BYTES == 0:  # Apache Kafka allocates it ahead
            data = data[: -(-used // ENTRY_SIZE_BYTES) * ENTRY_SIZE_BYTES]
        self._index = TimeIndex.from_bytes(base_offset, data)
        self._number = 0
        self._latest = NO_TIMESTAMP
        self.problem: tuple[str, int] | None = None

    def take(self, batches: Batches) -> None:
        """The next batches of the segment, which are whole."""
        index, last_offsets = self._index, batches.last_offset
        timestamps = batches.header["max_timestamp"].astype(np.int64)
        has_records = batches.header["record_count"] > 0
        latest = np.maximum.accumulate(np.where(has_records, timestamps, NO_TIMESTAMP))
        while self.problem is None and self._number < len(index):
            timestamp, offset = index.entry(self._number)
            row = int(np.searchsorted(last_offsets, offset))
            if row == len(last_offsets):
                break
            before = max(self._latest, int(latest[row - 1]) if row else NO_TIMESTAMP)
            if int(batches.base_offset[row]) > offset or int(timestamps[row]) != timestamp:
                self.problem = f"it names timestamp {timestamp} of offset {offset}, which the log does not", offset
            elif before > timestamp:
                self.problem = f"it names timestamp {timestamp} of offset {offset}; one before it has {before}", offset
            self._number += 1
        self._latest = max(self._latest, int(latest[-1]))

    def end(self, end_offset: int) -> tuple[str, int] | None:
        """All were given, of a segment that was rolled or closed: what is wrong."""
        if self.problem is None and self._number < len(self._index):
            offset = self._index.entry(self._number)[1]
            self.problem = f"it names offset {offset}; the segment ends at {end_offset}", offset
        if self.problem is None and self._latest > self._index.last[0]:
            text = f"the segment's largest timestamp, {self._latest}, is missing: it ends at {self._index.last[0]}"
            self.problem = text, end_offset - 1
        return self.problem
