"""The journal's segments as items: each entry and the batches in it, and whether a start needs them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from oncelog.cli.dump_log.files import Item, Wanted, problem, unread
from oncelog.errors import CorruptIndex, StorageError
from oncelog.log.checkpoint_files import PARTITION_METADATA, partition_metadata_from_bytes
from oncelog.log.journal import CLOSED_FILE, FILE_PREFIX
from oncelog.log.journal_entries import (
    ENTRY_MAGIC,
    SEGMENT_HEADER_BYTES,
    Entry,
    Piece,
    begins_entry,
    entries_behind,
    entry_from_bytes,
    generation_at,
    segment_header_from_bytes,
)


def is_journal_file(path: str) -> bool:
    """Whether the name is a journal's."""
    return os.path.basename(path).startswith(FILE_PREFIX)


def journal_items(path: str, wanted: Wanted) -> Iterator[Item]:
    """The entries of one segment; `wanted` are offsets of the batches in them."""
    if os.path.basename(path) == CLOSED_FILE:
        yield Item({"kind": "journal_closed", "file": path}, "the journal is over: a start removes what is left of it")
        return
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        yield unread(error, path)
        return
    try:
        header = segment_header_from_bytes(data)
    except StorageError as error:
        yield problem(path, str(error), 0)
        return
    if header is None and not any(data):
        yield Item({"kind": "journal_free", "file": path}, "nothing was written here yet")
        return
    topics = _topics_beside(path)
    if header is None:
        yield problem(path, "the header cannot be read", 0)
        yield from _behind(path, data, SEGMENT_HEADER_BYTES, _some_generation(data), 0, topics, wanted)
        return
    row: dict[str, Any] = {
        "kind": "journal_segment",
        "file": path,
        "generation": header.generation,
        "first_sequence": header.first_sequence,
        "needed_from": header.needed_from,
    }
    yield Item(row, f"generation {header.generation:016x}  from entry {header.first_sequence}")
    position, sequence = SEGMENT_HEADER_BYTES, header.first_sequence
    while (entry := entry_from_bytes(data, position, header.generation)) is not None and entry.sequence == sequence:
        yield from _entry_items(path, position, entry, topics, wanted)
        position, sequence = entry.end_position, sequence + 1
    behind = list(_behind(path, data, position, header.generation, sequence - 1, topics, wanted))
    synced_sequence = max((item.row.get("synced_sequence", 0) for item in behind), default=0)
    if synced_sequence >= sequence:
        text = (
            f"entry {sequence} cannot be read, and was synced before entry {behind[0].row['sequence']}, which follows"
        )
        yield problem(path, text, position)
    elif begins_entry(data, position, header.generation, sequence):
        torn = f"entry {sequence} at byte {position} is torn: it was being written, a start leaves it out"
        yield Item({"kind": "journal_torn", "file": path, "position": position, "sequence": sequence}, torn)
    yield from behind


def _some_generation(data: bytes) -> int:
    """Of the first entry that is whole, whatever its generation; 0 where there is none."""
    position = -1
    while (position := data.find(ENTRY_MAGIC, position + 1)) >= 0:
        generation = generation_at(data, position)
        if entry_from_bytes(data, position, generation) is not None:
            return generation
    return 0


def _behind(
    path: str, data: bytes, position: int, generation: int, sequence: int, topics: dict[bytes, str], wanted: Wanted
) -> Iterator[Item]:
    """Entries of this start behind a place where none can be read."""
    for place, entry in entries_behind(data, position, generation, sequence):
        yield from _entry_items(path, place, entry, topics, wanted)


def _entry_items(path: str, position: int, entry: Entry, topics: dict[bytes, str], wanted: Wanted) -> Iterator[Item]:
    row = {
        "kind": "journal_entry",
        "file": path,
        "position": position,
        "sequence": entry.sequence,
        "synced_sequence": entry.synced_sequence,
        "needed_from": entry.needed_from,
        "size_bytes": entry.end_position - position,
    }
    yield Item(row, f"entry {entry.sequence} at byte {position}  {entry.end_position - position} bytes")
    for piece in entry.pieces:
        if wanted.first_offset < piece.end_offset <= wanted.end_offset:
            yield _piece_item(path, entry.sequence, piece, topics)


def _piece_item(path: str, sequence: int, piece: Piece, topics: dict[bytes, str]) -> Item:
    topic = topics.get(piece.topic_id, piece.topic_id.hex())
    row = {
        "kind": "journal_batch",
        "file": path,
        "sequence": sequence,
        "topic": topic,
        "partition": piece.partition,
        "segment_base_offset": piece.segment_base_offset,
        "position": piece.position,
        "end_offset": piece.end_offset,
        "size_bytes": piece.size_bytes,
        "is_copied": len(piece.kept) == piece.size_bytes,
    }
    copied = "" if row["is_copied"] else "  (its place only)"
    place = f"segment {piece.segment_base_offset} at byte {piece.position}"
    return Item(
        row,
        f"  {topic}-{piece.partition}  up to offset {piece.end_offset}  {piece.size_bytes} bytes of {place}{copied}",
    )


def _topics_beside(path: str) -> dict[bytes, str]:
    """Topic ids and names of the partitions in the same data directory."""
    found: dict[bytes, str] = {}
    directory = os.path.dirname(os.path.abspath(path))
    for name in os.listdir(directory):
        topic, hyphen, _ = name.rpartition("-")
        metadata = os.path.join(directory, name, PARTITION_METADATA)
        if hyphen and os.path.exists(metadata):
            try:
                with open(metadata, "rb") as file:
                    found[partition_metadata_from_bytes(file.read())] = topic
            except (CorruptIndex, OSError):
                continue  # the file has an item of its own
    return found
