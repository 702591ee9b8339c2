"""Putting the journal's entries back into the data files, at a start that no clean stop came before.

Each batch goes to the very place where it was appended, so doing it twice, or over what is there already, changes nothing.
What lies behind a stored recovery point is left alone: it was synced, and may have been cleaned or removed since. Where the
logs end is for recovery to cut (`recovery.recover`, `journal_end_offset`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import NamedTuple

from oncelog.log.files import DirectoryNames, Files, Syncable
from oncelog.log.journal_reading import JournalFound
from oncelog.log.open_files import OpenFiles


class PutBack(NamedTuple):
    """What was written and is to be synced: the partitions' directories, and their files and names."""

    directories: list[str]
    files: list[Syncable]


class LogPlace(NamedTuple):
    """Where a partition's log lies, and up to where it was synced in its own files."""

    directory: str
    recovery_point: int


WRITTEN_MAX = 256  # files, before they are synced: fewer than may be open
PartitionKey = tuple[bytes, int]  # topic id, partition
Places = Callable[[PartitionKey], LogPlace | None]


def keys_of(found: JournalFound) -> set[PartitionKey]:
    """The partitions that it has something of. Raises StorageError."""
    return {(piece.topic_id, piece.partition) for entry in found.entries() for piece in entry.pieces}


def put_back(files: Files, found: JournalFound, place_of: Places, ends: dict[PartitionKey, int]) -> Iterator[PutBack]:
    """Write what the journal has and the data files may lack. What is given must be synced before the next is asked for; in the
    end `ends` has the end offset of each partition that the journal names.

    `place_of` gives None for a topic that was deleted. Raises StorageError.
    """
    places: dict[PartitionKey, LogPlace | None] = {}
    written: dict[str, str] = {}
    newest: dict[PartitionKey, tuple[str, int]] = {}  # the segment that is being written, and where its batches end
    # Of its own: recovery may put other files in the place of these, and a handle that stayed open would be of the old one.
    with closing(OpenFiles(files)) as open_files:
        for piece in (each for entry in found.entries() for each in entry.pieces):
            key = piece.topic_id, piece.partition
            if key not in places:
                places[key] = place_of(key)
            place = places[key]
            if place is None:
                continue
            ends[key] = max(ends.get(key, 0), piece.end_offset)
            if piece.end_offset <= place.recovery_point:
                continue
            path = f"{place.directory}/{piece.segment_base_offset:020d}.log"
            # Also where the same bytes stand there: the page cache alone may have them.
            open_files.pin(path).write_at(piece.position, piece.kept)
            written[path] = place.directory
            if len(written) > WRITTEN_MAX:  # a handle must stay open from the write to its sync
                yield _taken(files, open_files, written)
                _release(open_files, written)
            before, end_position = newest.get(key, (path, 0))
            if before != path and open_files.get(before).size() > end_position:
                open_files.pin(before).truncate(end_position)  # what the power left there was never part of it
                written[before] = place.directory
            newest[key] = path, piece.position + piece.size_bytes
        yield _taken(files, open_files, written)


def _taken(files: Files, open_files: OpenFiles, written: dict[str, str]) -> PutBack:
    directories = list(dict.fromkeys(written.values()))
    names = [DirectoryNames(files, each) for each in directories]
    return PutBack(directories, [*map(open_files.pin, written), *names])


def _release(open_files: OpenFiles, written: dict[str, str]) -> None:
    for path in written:
        open_files.unpin(path)
    written.clear()
