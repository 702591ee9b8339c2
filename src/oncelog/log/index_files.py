"""Both indexes of a segment as they lie on disk."""

from __future__ import annotations

from oncelog.errors import CorruptIndex
from oncelog.log import offset_index, time_index
from oncelog.log.files import Files
from oncelog.log.offset_index import OffsetIndex
from oncelog.log.time_index import TimeIndex


def read_indexes(
    files: Files, index_path: str, time_index_path: str, base_offset: int, size_bytes: int
) -> tuple[OffsetIndex, TimeIndex, bool]:
    """They, and whether their files hold more. Raises CorruptIndex, StorageError."""
    if not (files.exists(index_path) and files.exists(time_index_path)):
        raise CorruptIndex("an index is missing")
    data, time_data = files.read_whole(index_path), files.read_whole(time_index_path)
    index = OffsetIndex.from_bytes(base_offset, data, size_bytes)
    times = TimeIndex.from_bytes(base_offset, time_data)
    known_size_bytes = len(index) * offset_index.ENTRY_SIZE_BYTES + len(times) * time_index.ENTRY_SIZE_BYTES
    return index, times, len(data) + len(time_data) != known_size_bytes
