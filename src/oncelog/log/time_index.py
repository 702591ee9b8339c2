"""`.timeindex`: from which offset on a segment holds timestamps as late as a given one.

An entry is timestamp int64 and relative offset int32, big endian: "the largest timestamp up to here, and the last
offset of the batch that holds it". Both ascend. When a segment is rolled, the last entry names its largest timestamp.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from operator import le, lt
from struct import Struct

from oncelog.errors import CorruptIndex
from oncelog.log.ascending import first_that_does_not_follow

ENTRY_SIZE_BYTES = 12
NO_TIMESTAMP = -1
_ENTRY = Struct(">qi")


def _columns(data: bytes) -> tuple[array[int], array[int]]:
    """Timestamps and offsets; an entry is three words, of which two are a timestamp."""
    words, is_little = array("i", data), sys.byteorder == "little"
    if is_little:
        words.byteswap()
    halves = array("i", bytes(len(words) // 3 * 8))
    halves[is_little::2], halves[not is_little :: 2] = words[0::3], words[1::3]
    return array("q", halves.tobytes()), words[2::3]


class TimeIndex:
    """The time index of one segment, in memory; `flushed_count` entries of it are in the file."""

    __slots__ = ("base_offset", "flushed_count", "offsets", "timestamps")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.timestamps = array("q")  # strictly ascending
        self.offsets = array("i")  # relative, ascending
        self.flushed_count = 0

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes) -> TimeIndex:
        """Read a time index file. Raises CorruptIndex. Zeros that Kafka allocated ahead are dropped."""
        if len(data) % ENTRY_SIZE_BYTES:
            raise CorruptIndex(f"time index of {base_offset}: {len(data)} bytes are no whole entries")
        index = cls(base_offset)
        timestamps, offsets = _columns(data)
        # Of a segment of a gigabyte there are 262,144, and the loop waits.
        for end in (i for i, timestamp in enumerate(timestamps) if timestamp == 0) if 0 in timestamps else ():
            if end and offsets[end] == 0 and timestamps[end - 1] > 0:
                del timestamps[end:], offsets[end:]
                break
        index.timestamps, index.offsets, index.flushed_count = timestamps, offsets, len(timestamps)
        if timestamps and (timestamps[0] <= NO_TIMESTAMP or offsets[0] < 0):
            raise CorruptIndex(f"time index of {base_offset}: entry 0 does not ascend")
        for numbers, follows in ((timestamps, lt), (offsets, le)):
            if (wrong := first_that_does_not_follow(numbers, follows)) is not None:
                raise CorruptIndex(f"time index of {base_offset}: entry {wrong} does not ascend")
        return index

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def last(self) -> tuple[int, int]:
        """The last entry as (timestamp, offset); (-1, base offset) without entries."""
        if not self.timestamps:
            return NO_TIMESTAMP, self.base_offset
        return self.timestamps[-1], self.offsets[-1] + self.base_offset

    def entry(self, number: int) -> tuple[int, int]:
        """One entry as (timestamp, offset)."""
        return self.timestamps[number], self.offsets[number] + self.base_offset

    def maybe_add(self, timestamp: int, offset: int) -> None:
        """Add an entry when `timestamp` is later than the last one's: entries never go back."""
        if timestamp > (self.timestamps[-1] if self.timestamps else NO_TIMESTAMP):
            self.timestamps.append(timestamp)
            self.offsets.append(offset - self.base_offset)

    def number_before(self, timestamp: int) -> int:
        """The number of the last entry before `timestamp`; -1 without one."""
        # The entry with exactly this timestamp names the batch that holds it: only earlier ones are skipped.
        return bisect_left(self.timestamps, timestamp) - 1

    def offset_before(self, timestamp: int) -> int:
        """An offset before which no record is as late as `timestamp`."""
        found = self.number_before(timestamp)
        return self.offsets[found] + self.base_offset if found >= 0 else self.base_offset

    def truncate(self, end_offset: int) -> int:
        """Drop entries at or above `end_offset`; returns how many."""
        count = len(self)
        keep = bisect_left(self.offsets, min(end_offset - self.base_offset, 2**31 - 1))
        del self.timestamps[keep:]
        del self.offsets[keep:]
        self.flushed_count = min(self.flushed_count, keep)
        return count - keep

    def to_bytes(self, first_index: int = 0) -> bytes:
        """The file's bytes from entry `first_index` on."""
        pairs = zip(self.timestamps[first_index:], self.offsets[first_index:], strict=True)
        return b"".join(_ENTRY.pack(timestamp, offset) for timestamp, offset in pairs)
