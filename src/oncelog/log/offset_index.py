"""`.index`: where in the segment a batch with a given offset starts, one entry for about every 4096 bytes of log.

An entry is relative offset int32 (the batch's last offset minus the segment's base offset) and position int32, big
endian. Lookups bisect two arrays in memory. New entries wait in memory for `flush`: below the recovery point the file
is complete and synced, above it recovery builds the index anew, so writing it earlier would buy nothing.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from operator import lt
from struct import Struct

from oncelog.errors import CorruptIndex
from oncelog.log.ascending import first_that_does_not_follow

ENTRY_SIZE_BYTES = 8
_ENTRY = Struct(">ii")


def entry_from_bytes(data: bytes) -> tuple[int, int]:
    """One entry: relative offset, position. Of eight bytes."""
    relative_offset, position = _ENTRY.unpack(data)
    return relative_offset, position


class OffsetIndex:
    """The offset index of one segment, in memory; `flushed_count` entries of it are in the file."""

    __slots__ = ("base_offset", "flushed_count", "offsets", "positions")

    def __init__(self, base_offset: int) -> None:
        self.base_offset = base_offset
        self.offsets = array("i")  # relative, ascending
        self.positions = array("i")  # ascending
        self.flushed_count = 0

    @classmethod
    def from_bytes(cls, base_offset: int, data: bytes, log_size_bytes: int) -> OffsetIndex:
        """Read an index file. Raises CorruptIndex when it cannot belong to a log of that size.

        Kafka allocates index files ahead: zeros behind the last entry are what a crash leaves of that, and are dropped.
        """
        if len(data) % ENTRY_SIZE_BYTES:
            raise CorruptIndex(f"offset index of {base_offset}: {len(data)} bytes are no whole entries")
        index = cls(base_offset)
        both = array("i", data)
        if sys.byteorder == "little":
            both.byteswap()
        index.offsets, index.positions = both[0::2], both[1::2]
        while index.offsets and index.offsets[-1] == 0 and index.positions[-1] == 0:
            index.offsets.pop()
            index.positions.pop()
        index.flushed_count = len(index.offsets)
        index._check(log_size_bytes)
        return index

    def _check(self, log_size_bytes: int) -> None:
        offsets, positions = self.offsets, self.positions
        if offsets and (offsets[0] < 0 or positions[0] <= 0 or positions[-1] >= log_size_bytes):
            raise CorruptIndex(f"offset index of {self.base_offset}: entries outside the log")
        for numbers in (offsets, positions):
            if (wrong := first_that_does_not_follow(numbers, lt)) is not None:
                raise CorruptIndex(f"offset index of {self.base_offset}: entry {wrong} does not ascend")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def last_position(self) -> int:
        """The position of the last entry; 0 without entries."""
        return self.positions[-1] if self.positions else 0

    def add(self, last_offset: int, position: int) -> None:
        """Note that the batch ending with `last_offset` starts at `position`."""
        self.offsets.append(last_offset - self.base_offset)
        self.positions.append(position)

    def entry_before(self, offset: int) -> tuple[int, int]:
        """The last entry whose offset is at most `offset`, as (last offset, position); (base offset, 0) without one."""
        found = bisect_right(self.offsets, min(offset - self.base_offset, 2**31 - 1))
        return (
            (self.offsets[found - 1] + self.base_offset, self.positions[found - 1]) if found else (self.base_offset, 0)
        )

    def entry_at_most(self, position: int) -> tuple[int, int]:
        """The last entry whose position is at most `position`, as (last offset, position); (base offset, 0) if none."""
        found = bisect_right(self.positions, min(position, 2**31 - 1))
        return (
            (self.offsets[found - 1] + self.base_offset, self.positions[found - 1]) if found else (self.base_offset, 0)
        )

    def upper_bound_offset(self, end_position: int) -> int | None:
        """The offset of the first entry at or after `end_position`: what was read before it ends below that offset.

        This is Kafka's bound for the aborted transactions of a fetch (`OffsetIndex.fetchUpperBoundOffset`).
        """
        found = bisect_left(self.positions, min(end_position, 2**31 - 1))
        return self.offsets[found] + self.base_offset if found < len(self.offsets) else None

    def truncate(self, end_offset: int) -> int:
        """Drop entries at or above `end_offset`; returns how many."""
        count = len(self)
        keep = bisect_left(self.offsets, min(end_offset - self.base_offset, 2**31 - 1))
        del self.offsets[keep:]
        del self.positions[keep:]
        self.flushed_count = min(self.flushed_count, keep)
        return count - keep

    def to_bytes(self, first_index: int = 0) -> bytes:
        """The file's bytes from entry `first_index` on."""
        pairs = zip(self.offsets[first_index:], self.positions[first_index:], strict=True)
        return b"".join(_ENTRY.pack(offset, position) for offset, position in pairs)
