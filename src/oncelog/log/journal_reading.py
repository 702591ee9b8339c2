"""Reading the journal that a broker left behind: which entries there are, and where they end.

Whether there must be one says a file of its own (`BEGUN_FILE`). An entry is whole or absent. Where the entries end, what
follows is what a power cut tore, and is said in one line; unless a later entry says that the one that is missing had been
synced: then the journal is damaged, and nothing may be served.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog.errors import StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.log.files import Files
from oncelog.log.journal import BEGUN_FILE, CLOSED_FILE, FILE_PREFIX
from oncelog.log.journal_entries import (
    SEGMENT_HEADER_BYTES,
    UNKNOWN_BOOT,
    Entry,
    SegmentHeader,
    UnknownJournal,
    begins_entry,
    entries_behind,
    entry_from_bytes,
    segment_header_from_bytes,
)

RESTORE = "restore the journal with the rest of the directory; `oncelog dump-log --journal` shows what can be read"


class DamagedJournal(StorageError):
    """An entry that was synced cannot be read: what it held was acknowledged. `boot`: of the system's boot in which the journal
    was begun."""

    def __init__(self, message: str, boot: bytes = UNKNOWN_BOOT) -> None:
        super().__init__(message)
        self.boot = boot


class MissingJournal(DamagedJournal):
    """A journal was begun, and is not there. `instead`: what lies in its place, for a person."""

    def __init__(self, message: str, boot: bytes = UNKNOWN_BOOT, instead: str = "") -> None:
        super().__init__(message, boot)
        self.instead = instead


@dataclass(frozen=True)
class _File:
    path: str
    header: SegmentHeader


@dataclass(frozen=True)
class JournalFound:
    """A journal; `entries` reads it. `boot` is of the system's boot in which it was written, `last_sequence` its last whole
    entry's (0: none); `torn` says where it ends, if anything follows."""

    files: Files
    segments: tuple[_File, ...]
    directory: bytes
    boot: bytes
    generation: int
    needed_from: int
    last_sequence: int
    torn: str

    def entries(self) -> Iterator[Entry]:
        """Those that a start needs, in order."""
        sequence = self.needed_from
        for segment in self.segments:
            for entry in _entries(self.files.read_whole(segment.path), segment.header):
                if entry.sequence == sequence:
                    yield entry
                    sequence += 1


def read_journal(files: Files, data_directory: str, directory: bytes | None = None) -> JournalFound | None:
    """The journal in `data_directory`, None where there is none. With `directory` it must be this directory's.

    Raises MissingJournal, DamagedJournal, UnknownJournal, StorageError.
    """
    names = [name for name in files.list(data_directory) if name.startswith(FILE_PREFIX)]
    if CLOSED_FILE in names:
        return None
    segments, headless = _segments(files, data_directory, names)
    begun_path = f"{data_directory}/{BEGUN_FILE}"
    begun = _header(files, begun_path) if files.exists(begun_path) else None
    if not segments:
        for path in headless:  # the first header is synced before anything but zeros is written behind it
            if any(files.read_whole(path)[SEGMENT_HEADER_BYTES:]):
                raise DamagedJournal(f"{path}: position 0: the header cannot be read, and more follows: {RESTORE}")
        if files.exists(begun_path):
            instead = f" ({headless[0]} lies there, and is no file of a journal)" if headless else ""
            raise MissingJournal(
                f"the journal of {data_directory} is missing{instead or f' ({FILE_PREFIX}0 and so on)'}: restore it with the rest"
                f" of the directory, or remove {begun_path} to start with what the logs have; what it alone held is lost then",
                UNKNOWN_BOOT if begun is None else begun.boot,
                instead,
            )
        return None
    newest = segments[-1].header
    if begun is not None and begun.generation != newest.generation:
        raise DamagedJournal(f"{segments[-1].path} is of another start than {begun_path}: {RESTORE}")
    if begun is not None and begun.first_sequence > newest.first_sequence:
        raise MissingJournal(
            f"the newest file of the journal of {data_directory} is missing or has no header, entries from {begun.first_sequence}"
            f" on: restore it with the rest of the directory, or remove {begun_path} and the files {FILE_PREFIX}* to start with"
            " what the logs have; what they alone held is lost then",
            begun.boot,
        )
    for segment in segments:
        if directory is not None and segment.header.directory != directory:
            raise UnknownJournal(
                f"{segment.path} belongs to another data directory than {data_directory}/meta.properties names: put right "
                "which of the two is damaged or from elsewhere (cluster.id is in the line `ready` of each start before); remove "
                "the journal only where it is from elsewhere, as what it alone holds was acknowledged"
            )
        if segment.header.generation != newest.generation:
            raise DamagedJournal(f"{segment.path} is of another start than {segments[-1].path}")
    return _looked_through(files, tuple(segments), headless, newest)


def _segments(files: Files, data_directory: str, names: list[str]) -> tuple[list[_File], list[str]]:
    """The segments in the order of their entries, and the files without a whole header."""
    found: list[_File] = []
    headless: list[str] = []
    for name in names:
        path = f"{data_directory}/{name}"
        header = _header(files, path)
        if header is not None:
            found.append(_File(path, header))
        else:
            headless.append(path)
    return sorted(found, key=lambda each: each.header.first_sequence), headless


def _header(files: Files, path: str) -> SegmentHeader | None:
    """What stands at the beginning of a file, None where nothing whole does."""
    file = files.open(path, create=False)
    try:
        return segment_header_from_bytes(file.read_at(0, SEGMENT_HEADER_BYTES))
    except UnknownJournal as error:
        raise UnknownJournal(f"{path}: {error}") from None
    finally:
        file.close()


def _looked_through(
    files: Files, segments: tuple[_File, ...], headless: list[str], newest: SegmentHeader
) -> JournalFound:
    """Find the last entry of the run without a gap, and whether something synced lies behind it."""
    needed_from, synced_sequence = newest.needed_from, 0
    present: set[int] = set()
    place, torn = segments[-1].path, ""
    for segment in segments:
        data, header = files.read_whole(segment.path), segment.header
        position, last_sequence = SEGMENT_HEADER_BYTES, header.first_sequence - 1
        for entry in _entries(data, header):
            position, last_sequence = entry.end_position, entry.sequence
            present.add(entry.sequence)
            needed_from = max(needed_from, entry.needed_from)
            synced_sequence = max(synced_sequence, entry.synced_sequence)
        for _, entry in entries_behind(data, position, header.generation, last_sequence):
            synced_sequence = max(synced_sequence, entry.synced_sequence)
        place = f"{segment.path}: position {position}"
        if begins_entry(data, position, header.generation, last_sequence + 1):
            torn = f"{place}: entry {last_sequence + 1} was not synced and is torn; it is left out"
    for path in headless:  # one that was never synced, or a damaged one: its entries tell
        for _, entry in entries_behind(files.read_whole(path), SEGMENT_HEADER_BYTES, newest.generation, 0):
            synced_sequence = max(synced_sequence, entry.synced_sequence)
    last_sequence = needed_from - 1
    while last_sequence + 1 in present:
        last_sequence += 1
    if last_sequence < synced_sequence:
        raise DamagedJournal(
            f"{place}: entry {last_sequence + 1} cannot be read, and entry {synced_sequence} was synced: {RESTORE}",
            newest.boot,
        )
    return JournalFound(
        files, segments, newest.directory, newest.boot, newest.generation, needed_from, last_sequence, torn
    )


def _entries(data: bytes, header: SegmentHeader) -> Iterator[Entry]:
    """The entries of one segment from its beginning; older ones, of before it was used again, do not follow each other."""
    position, sequence = SEGMENT_HEADER_BYTES, header.first_sequence
    while (entry := entry_from_bytes(data, position, header.generation)) is not None and entry.sequence == sequence:
        yield entry
        position, sequence = entry.end_position, sequence + 1
