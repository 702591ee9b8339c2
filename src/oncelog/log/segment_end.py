"""What a start does to segments that it does not read: where their batches end; an empty one has no index."""

from __future__ import annotations

from oncelog.errors import DamagedLog
from oncelog.log.batch_header import WALK_SIZE_BYTES, batch_at
from oncelog.log.files import Files
from oncelog.log.offset_index import ENTRY_SIZE_BYTES, entry_from_bytes
from oncelog.log.open_files import OpenFiles
from oncelog.log.segment import Segment


def read_end_offset(segment: Segment, open_files: OpenFiles) -> int:
    """By its headers from the last index entry on. Raises DamagedLog."""
    position, files = 0, open_files.files
    size_bytes = files.size_of(segment.index_path) if files.exists(segment.index_path) else 0
    if size_bytes >= ENTRY_SIZE_BYTES:
        last = size_bytes // ENTRY_SIZE_BYTES * ENTRY_SIZE_BYTES - ENTRY_SIZE_BYTES
        relative_offset, at = entry_from_bytes(open_files.get(segment.index_path).read_at(last, ENTRY_SIZE_BYTES))
        is_inside = 0 < at < segment.size_bytes
        log = open_files.get(segment.log_path, create=False)
        found = batch_at(log.read_at(at, WALK_SIZE_BYTES), 0, at) if is_inside else None
        if found is not None and found.last_offset == segment.base_offset + relative_offset:
            position = at
    end_offset = segment.base_offset
    for batch in (scan := segment.scan(position, check_crc=False)):
        end_offset = batch.end_offset
    if scan.problem is not None:
        raise DamagedLog(f"{segment.log_path}: position {scan.position}, offset {end_offset}: {scan.problem}")
    return end_offset


def clear_indexes(segment: Segment, files: Files) -> bool:
    """Empty the index files of an empty segment, should a crash have left them content; True when it had."""
    stale = [path for path in segment.paths[1:] if files.exists(path) and files.size_of(path)]
    for path in stale:
        files.remove(path)
    return bool(stale)
