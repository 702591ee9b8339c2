"""The journal's bytes: what a segment and an entry of it look like (`journal.py` writes them, `journal_reading.py` reads).

A segment is a header of 512 bytes and then entries, one after the other; what follows the last one is zeros, or older
entries of a segment that is used again. Numbers are big endian.

| segment header | |
|---|---|
| magic | 8 bytes `oncelogJ` |
| version | uint16 = 1 |
| directory | 16 bytes: of the cluster id, so that a journal is never replayed into another directory |
| boot | 16 bytes: of the system's boot; zeros where it cannot be known |
| generation | uint64, drawn at each start |
| first sequence | uint64, of the first entry |
| needed from | uint64: entries below it are in the data files, behind stored recovery points |
| checksum | CRC-32C of the above |

| entry | |
|---|---|
| magic | 4 bytes `JENT` |
| checksum | CRC-32C of all that follows |
| generation | uint64, the segment's |
| sequence | uint64, one more than the entry before |
| synced sequence | uint64: up to there all entries were synced when this one was written |
| needed from | uint64, as above |
| size | uint32, of the pieces |
| count | uint32, of the pieces |

A piece is one appended batch: topic id (16 bytes), partition int32, base offset of the segment int64, position in it int64,
end offset int64 (exclusive), size uint32, kept size uint32, then as many bytes. Where fewer are kept than the batch
has (its header), the rest was synced in the segment's file before the entry was written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from oncelog.errors import StorageError
from oncelog.log.files import Buffer
from oncelog.wire.crc32c import crc32c

VERSION = 1
SEGMENT_HEADER_BYTES = 512
SEGMENT_MAGIC, ENTRY_MAGIC = b"oncelogJ", b"JENT"
UNKNOWN_BOOT = bytes(16)
_SEGMENT = Struct(">8sH16s16sQQQ")
_ENTRY_HEAD = Struct(">4sI")
_ENTRY_REST = Struct(">QQQQII")
_PIECE = Struct(">16siqqqII")
_CRC = Struct(">I")
ENTRY_HEADER_BYTES = _ENTRY_HEAD.size + _ENTRY_REST.size
PIECE_HEADER_BYTES = _PIECE.size
pack_piece = _PIECE.pack


class UnknownJournal(StorageError):
    """A journal of a newer format or of another directory: nothing of it may be replayed."""


class SegmentHeader(NamedTuple):
    """Whose entries a segment holds."""

    directory: bytes
    boot: bytes
    generation: int
    first_sequence: int
    needed_from: int


class Piece(NamedTuple):
    """One appended batch: its place, and its bytes or only the first of them. `end_offset` is exclusive."""

    topic_id: bytes
    partition: int
    segment_base_offset: int
    position: int
    end_offset: int
    size_bytes: int
    kept: memoryview


class Entry(NamedTuple):
    """A whole entry; `end_position` in its segment."""

    sequence: int
    synced_sequence: int
    needed_from: int
    end_position: int
    pieces: Sequence[Piece]


def sixteen_bytes_of(name: str) -> bytes:
    """What stands for a cluster id or a boot id; zeros for an empty one."""
    return sha256(name.encode()).digest()[:16] if name else UNKNOWN_BOOT


def segment_header_to_bytes(header: SegmentHeader) -> bytes:
    """All 512 bytes."""
    data = _SEGMENT.pack(SEGMENT_MAGIC, VERSION, *header)
    return (data + _CRC.pack(crc32c(data))).ljust(SEGMENT_HEADER_BYTES, b"\0")


def segment_header_from_bytes(data: Buffer) -> SegmentHeader | None:
    """None where nothing whole stands: a file that was made and not begun, or a header torn. Raises UnknownJournal."""
    if len(data) < _SEGMENT.size + _CRC.size or bytes(data[:8]) != SEGMENT_MAGIC:
        return None
    (checksum,) = _CRC.unpack_from(data, _SEGMENT.size)
    if crc32c(bytes(data[: _SEGMENT.size])) != checksum:
        return None
    _, version, *fields = _SEGMENT.unpack_from(data)
    if version != VERSION:
        raise UnknownJournal(f"a journal of format {version}; this version reads {VERSION}")
    return SegmentHeader(*fields)


def entry_to_bytes(
    parts: Sequence[Buffer], piece_count: int, *, generation: int, sequence: int, synced_sequence: int, needed_from: int
) -> bytes:
    """An entry of these pieces: each its header (`pack_piece`), then what is kept of it."""
    body = b"".join(parts)
    rest = _ENTRY_REST.pack(generation, sequence, synced_sequence, needed_from, len(body), piece_count)
    return b"".join((_ENTRY_HEAD.pack(ENTRY_MAGIC, crc32c(body, crc32c(rest))), rest, body))


def entry_from_bytes(data: Buffer, position: int, generation: int) -> Entry | None:
    """The whole entry of this generation at `data[position]`; None where there is none."""
    view = memoryview(data)
    if len(view) - position < ENTRY_HEADER_BYTES:
        return None
    magic, checksum = _ENTRY_HEAD.unpack_from(view, position)
    if magic != ENTRY_MAGIC:
        return None
    rest_position = position + _ENTRY_HEAD.size
    found_generation, sequence, synced_sequence, needed_from, size_bytes, count = _ENTRY_REST.unpack_from(
        view, rest_position
    )
    end_position = position + ENTRY_HEADER_BYTES + size_bytes
    if found_generation != generation or end_position > len(view):
        return None
    if crc32c(bytes(view[rest_position:end_position])) != checksum:
        return None
    pieces = tuple(_pieces(view[position + ENTRY_HEADER_BYTES : end_position]))
    assert len(pieces) == count, "the checksum fits, so this is what was written"
    return Entry(sequence, synced_sequence, needed_from, end_position, pieces)


def _pieces(body: memoryview) -> Iterator[Piece]:
    position = 0
    while position < len(body):
        fields = _PIECE.unpack_from(body, position)
        position += PIECE_HEADER_BYTES
        end_position = position + fields[6]
        yield Piece._make((*fields[:6], body[position:end_position]))
        position = end_position


def begins_entry(data: Buffer, position: int, generation: int, sequence: int) -> bool:
    """Whether the header of that entry stands there, whole or not."""
    if len(data) - position < ENTRY_HEADER_BYTES or bytes(data[position : position + 4]) != ENTRY_MAGIC:
        return False
    found = _ENTRY_REST.unpack_from(data, position + _ENTRY_HEAD.size)
    return bool(found[:2] == (generation, sequence))


def generation_at(data: Buffer, position: int) -> int:
    """What the header of an entry there says, whole or not; 0 where there is no room for one."""
    if len(data) - position < ENTRY_HEADER_BYTES:
        return 0
    return int(_ENTRY_REST.unpack_from(data, position + _ENTRY_HEAD.size)[0])


def entries_behind(data: bytes, position: int, generation: int, sequence: int) -> Iterator[tuple[int, Entry]]:
    """Whole entries of this generation anywhere behind `position` whose sequence is above `sequence`, with their positions."""
    while (position := data.find(ENTRY_MAGIC, position)) >= 0:
        entry = entry_from_bytes(data, position, generation)
        if entry is not None and entry.sequence > sequence:
            yield position, entry
            position = entry.end_position
        else:
            position += 1
