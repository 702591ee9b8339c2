"""Walking over batches by their headers alone: what reads and index scans need, without building batch objects.

Record batch v2 (KIP-98): base offset int64, length int32 (of what follows), ..., last offset delta int32 at 23,
base timestamp at 27, max timestamp int64 at 35; 61 bytes before the records.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from oncelog.log.files import Buffer

HEADER_SIZE_BYTES = 61
LENGTH_END = 12  # base offset and length: the bytes that `length` does not count
_HEADER = Struct(">qi11xi8xq")
unpack_header = _HEADER.unpack_from
WALK_SIZE_BYTES = _HEADER.size


class BatchAt(NamedTuple):
    """One batch's place: `position` in the file, inclusive `last_offset`, whole `size_bytes`."""

    position: int
    base_offset: int
    last_offset: int
    size_bytes: int
    max_timestamp: int


def batch_at(data: Buffer, index: int, position: int) -> BatchAt | None:
    """The batch whose header starts at `data[index]`, or None where the header is cut or impossible.

    `position` is where `data[index]` lies in the file. The batch's end may lie outside `data`.
    """
    if index + WALK_SIZE_BYTES > len(data):
        return None
    base_offset, length, last_offset_delta, max_timestamp = unpack_header(data, index)
    if length < HEADER_SIZE_BYTES - LENGTH_END or last_offset_delta < 0:
        return None
    return BatchAt(position, base_offset, base_offset + last_offset_delta, length + LENGTH_END, max_timestamp)
