"""The journal: one file for all partitions, so that one sync makes everything durable that was appended.

Data files are written first (page cache), then the bytes come here; `take` and `write` put all of it into one entry, and one
`fdatasync` of the segment makes it durable. What survives a power cut is always a prefix of what was appended, over all
partitions: a start replays the entries in order and cuts every log where the journal ends (`journal_replay.py`). Segments
are filled with zeros before they are written, so a sync writes no metadata, and used again once the data files are synced
and their recovery points stored (`checkpointed`). Batches above 64 KiB are not copied: their file is synced before
the entry that names them.

It decides nothing about who waits; `broker/partitions/journal_flusher.py` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import field

from oncelog.errors import StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.log.batch_header import HEADER_SIZE_BYTES
from oncelog.log.files import Buffer, DirectoryNames, File, Files, Syncable
from oncelog.log.journal_entries import (
    ENTRY_HEADER_BYTES,
    PIECE_HEADER_BYTES,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    entry_to_bytes,
    pack_piece,
    segment_header_to_bytes,
)

FILE_PREFIX = "oncelog.journal."
CLOSED_FILE = f"{FILE_PREFIX}closed"
BEGUN_FILE = ".oncelog_journal"  # the newest segment's header alone: while it is there, a start must find this journal
SEGMENT_SIZE_BYTES = 64 << 20
SEGMENTS_KEPT = 4  # free ones beyond are removed
SEGMENTS_LEAST = 4  # whatever `size_bytes_max`: one is written, one waits, one is being freed, one is ready
FILL_SIZE_BYTES = 1 << 20  # zeros written ahead in one step
COPIED_BYTES_MAX = 65_536  # of a batch; a larger one is named by its place


@dataclass(eq=False)
class _Segment:
    """One file. `last_sequence` of the entries in it; `filled_bytes`: up to there it has room that needs no metadata."""

    path: str
    file: File
    last_sequence: int
    position: int
    filled_bytes: int


@dataclass
class Taken:
    """What goes into the next entries. `references` are synced before `Journal.write`, `files` after it."""

    parts: list[Buffer] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)  # of each piece in bytes, its header included; none once written
    references: list[Syncable] = field(default_factory=list)
    files: list[Syncable] = field(default_factory=list)
    sequence: int = 0  # the last entry's
    needed_from: int = 0  # what the entries say of it; 0 where none was written


class Journal:
    """The journal of one data directory; `begin` before anything is appended, `close` at the end."""

    def __init__(self, files: Files, data_directory: str, *, size_bytes_max: int) -> None:
        """`size_bytes_max`: of the segments that wait for the data files' sync; then appends are refused, since the disk takes
        the journal and not the data files."""
        self._segments_max = max(size_bytes_max // SEGMENT_SIZE_BYTES, SEGMENTS_LEAST)
        self._files = files
        self._data_directory = data_directory
        self._header = SegmentHeader(b"", b"", 0, 1, 1)
        self._durable_header = self._told_header = self._header  # of the newest segment that is synced, that was told
        self._begun_file: File | None = None
        self._segments: list[_Segment] = []  # in the order of their entries; the last one is being written
        self._free: list[_Segment] = []
        self._taking = Taken()
        self._pending_bytes = 0  # of pieces that no entry has yet, as they will be written
        self._written_sequence = self._synced_sequence = 0
        self._next_number = 0
        self._has_new_names = False
        self._is_pinned = False
        self._references_under_way: list[Syncable] = []  # of what was taken and is not durable
        self.failure: StorageError | None = None
        self.bytes_since_data_sync = 0

    # its life

    def begin(self, directory: bytes, boot: bytes, generation: int) -> None:
        """Begin the first segment, durably, and then say so in a file of its own: a journal that is not there when a start needs
        it would be taken for one that never was. What an earlier life left is removed (`remove_journal`). Raises StorageError.
        """
        self._header = SegmentHeader(directory, boot, generation, 1, 1)
        self._make_free_segment(SEGMENT_HEADER_BYTES + 1)
        self._next_segment(Taken())
        self._segments[-1].file.sync()
        # Of the one before: a sync of its removal may have failed. Were it to come back, this journal would count as over.
        closed = f"{self._data_directory}/{CLOSED_FILE}"
        self._files.open(closed).close()
        self._files.remove(closed)
        self._files.sync_directory(self._data_directory)
        self._has_new_names = False
        path = f"{self._data_directory}/{BEGUN_FILE}"
        self._files.replace_whole(path, segment_header_to_bytes(self._header))
        self._begun_file = self._files.open(path, create=False)
        self._durable_header = self._told_header = self._header

    def close(self) -> None:
        """Close the files: the next start replays them, unless `remove_journal` comes first."""
        for segment in [*self._segments, *self._free]:
            segment.file.close()
        if self._begun_file is not None:
            self._begun_file.close()

    # adding

    @property
    def pending_size_bytes(self) -> int:
        """What was added and is in no entry yet."""
        return self._pending_bytes

    @property
    def segment_count(self) -> int:
        """Files, free ones included."""
        return len(self._segments) + len(self._free)

    @property
    def segments_in_use(self) -> int:
        """Files whose entries a start may need, the one that is being written included."""
        return len(self._segments)

    @property
    def is_nearly_full(self) -> bool:
        """Whether appends will soon be refused, unless the data files are synced."""
        return len(self._segments) > self._segments_max // 2

    def reserve(self, size_bytes: int) -> None:
        """Make sure that a batch of `size_bytes` can be journaled; before it is appended. Raises StorageError."""
        if self.failure is not None:
            raise self.failure
        overhead = PIECE_HEADER_BYTES + ENTRY_HEADER_BYTES
        needed = self._pending_bytes + min(size_bytes, COPIED_BYTES_MAX) + overhead
        active = self._segments[-1]
        if active.position + needed <= active.filled_bytes:
            return
        if active.position + needed <= SEGMENT_SIZE_BYTES:
            self._fill(active, active.position + needed)
            return
        # More than one segment may be on its way while the disk takes long: each gets its zeros.
        # One above the bound takes the entry that lets others be used again: without it they never were.
        segments_max = self._segments_max + (self._segments[0].last_sequence < self._header.needed_from)
        largest = max(SEGMENT_SIZE_BYTES, SEGMENT_HEADER_BYTES + COPIED_BYTES_MAX + overhead)
        for index in range(-(-needed // (largest - SEGMENT_HEADER_BYTES))):
            least = min(SEGMENT_HEADER_BYTES + needed, largest)
            if index < len(self._free):
                self._fill(self._free[index], least)
            elif self.segment_count < segments_max:
                self._make_free_segment(least)
            else:
                raise StorageError(
                    f"the journal has {self._segments_max} segments that wait for the data files' sync, and"
                    " oncelog.journal.max.bytes allows no more"
                )
            needed -= least - SEGMENT_HEADER_BYTES

    @staticmethod
    def copies(size_bytes: int) -> bool:
        """Whether a batch of this size is copied into the journal."""
        return size_bytes <= COPIED_BYTES_MAX

    def add(
        self,
        topic_id: bytes,
        partition: int,
        *,
        segment_base_offset: int,
        position: int,
        end_offset: int,
        batch: Buffer,
        references: Sequence[Syncable] = (),
    ) -> None:
        """A batch was appended at `position`: it belongs to the next entry. Its bytes must not change. `references` are synced
        before that: for one that is not copied (`copies`) what makes it durable in its own file, names included."""
        size_bytes = len(batch)
        kept = batch if self.copies(size_bytes) else batch[:HEADER_SIZE_BYTES]
        taking = self._taking
        taking.references += references
        taking.parts += (
            pack_piece(topic_id, partition, segment_base_offset, position, end_offset, size_bytes, len(kept)),
            kept,
        )
        taking.sizes.append(PIECE_HEADER_BYTES + len(kept))
        self._pending_bytes += PIECE_HEADER_BYTES + len(kept)
        self.bytes_since_data_sync += size_bytes

    # writing

    @property
    def written_sequence(self) -> int:
        """The last entry: nothing that is added from now on is in it."""
        return self._written_sequence

    @property
    def synced_sequence(self) -> int:
        """Every entry up to this is durable."""
        return self._synced_sequence

    def take(self) -> Taken:
        """What was added so far; the rest of it goes into later entries. Sync its `references`, then `write` it."""
        taken, self._taking = self._taking, Taken()
        taken.references = self._references_under_way = list(dict.fromkeys(taken.references))
        self._pending_bytes += ENTRY_HEADER_BYTES if taken.sizes else 0
        return taken

    def rests_on(self, syncables: Iterable[Syncable]) -> bool:
        """Whether an entry that is not durable yet needs one of these to be synced before it is written. Where such a sync has
        failed, elsewhere, no later one would tell the truth: the entry would name bytes that are not on the disk."""
        needed = (*self._taking.references, *self._references_under_way)
        return not {getattr(each, "path", each) for each in needed}.isdisjoint(
            getattr(each, "path", each) for each in syncables
        )

    def give_back(self, taken: Taken) -> None:
        """Its commit was cut short, perhaps between `write` and the sync: all of it belongs to the next one."""
        newer, self._taking, self._references_under_way = self._taking, taken, []
        self._pending_bytes -= ENTRY_HEADER_BYTES if taken.sizes else 0
        for name in ("parts", "sizes", "references", "files"):
            getattr(taken, name).extend(getattr(newer, name))

    def write(self, taken: Taken) -> None:
        """Write entries; sync `taken.files`, then call `synced`. One at a time. Raises StorageError, for good."""
        if self.failure is not None:
            raise self.failure
        try:
            self._tell_newest(taken)
            first = 0
            while first < len(taken.sizes):
                first = self._write_entry(taken, first)
        except StorageError as error:
            self.fail(error)
            raise
        if taken.sizes:
            self._pending_bytes -= sum(taken.sizes) + ENTRY_HEADER_BYTES
            taken.parts, taken.sizes = [], []
            taken.needed_from = self._header.needed_from
        taken.sequence = self._written_sequence

    def _tell_newest(self, taken: Taken) -> None:
        """Say that a segment was begun, once it is durable: were it missing at a start, its entries would not be missed. A header
        lies in one sector, which reaches the disk whole or not at all."""
        if self._begun_file is not None and self._durable_header.first_sequence > self._told_header.first_sequence:
            self._begun_file.write_at(0, segment_header_to_bytes(self._durable_header))
            self._told_header = self._durable_header
            taken.files.append(self._begun_file)

    def _write_entry(self, taken: Taken, first: int) -> int:
        """Write the pieces from `first` on, as many as the segment has room for; the first that is left."""
        active = self._segments[-1]
        room = SEGMENT_SIZE_BYTES - active.position - ENTRY_HEADER_BYTES
        end, size_bytes = first, 0
        while end < len(taken.sizes) and size_bytes + taken.sizes[end] <= room:
            size_bytes += taken.sizes[end]
            end += 1
        if end == first:
            if (
                active.position == SEGMENT_HEADER_BYTES
            ):  # a segment of its own is too small for it: it gets one that grows
                end, size_bytes = first + 1, taken.sizes[first]
            else:
                self._next_segment(taken)
                return first
        data = entry_to_bytes(
            taken.parts[2 * first : 2 * end],
            end - first,
            generation=self._header.generation,
            sequence=self._written_sequence + 1,
            synced_sequence=self._synced_sequence,
            needed_from=self._header.needed_from,
        )
        active.file.write_at(active.position, data)
        self._written_sequence += 1
        active.position += len(data)
        active.filled_bytes = max(active.filled_bytes, active.position)
        active.last_sequence = self._written_sequence
        if active.file not in taken.files:
            taken.files.append(active.file)
        return end

    def _next_segment(self, taken: Taken) -> None:
        """Begin the oldest free segment: those that are left hold entries without a gap."""
        if not self._free:
            self._make_free_segment(SEGMENT_HEADER_BYTES + 1)
        self._header = self._header._replace(first_sequence=self._written_sequence + 1)
        segment = self._free.pop(0)
        segment.file.write_at(0, segment_header_to_bytes(self._header))
        segment.last_sequence, segment.position = 0, SEGMENT_HEADER_BYTES
        self._segments.append(segment)  # (its file is synced with the entry that comes into it next)
        if self._has_new_names:
            self._has_new_names = False
            taken.files.append(DirectoryNames(self._files, self._data_directory))

    def _make_free_segment(self, least_bytes: int) -> None:
        path = f"{self._data_directory}/{FILE_PREFIX}{self._next_number}"
        self._next_number += 1
        segment = _Segment(path, self._files.open(path), 0, SEGMENT_HEADER_BYTES, 0)
        try:
            self._fill(segment, least_bytes)
        except StorageError:  # a full disk: what was filled is given back to it
            segment.file.close()
            with contextlib.suppress(StorageError):
                self._files.remove(path)
            raise
        self._free.append(segment)
        self._has_new_names = True

    @staticmethod
    def _fill(segment: _Segment, least: int) -> None:
        """Write zeros ahead: a full disk shows here, before anything is appended."""
        while segment.filled_bytes < least:
            size_bytes = min(FILL_SIZE_BYTES, max(SEGMENT_SIZE_BYTES, least) - segment.filled_bytes)
            segment.file.write_at(segment.filled_bytes, bytes(size_bytes))
            segment.filled_bytes += size_bytes

    def synced(self, taken: Taken) -> None:
        """`taken.files` are synced. What they say is not needed any more can be written over: not before, or a start would look
        for it."""
        self._references_under_way = []
        self._synced_sequence = max(self._synced_sequence, taken.sequence)
        self._durable_header = self._header
        while len(self._segments) > 1 and self._segments[0].last_sequence < taken.needed_from:
            self._free.append(self._segments.pop(0))

    def fail(self, error: StorageError) -> None:
        """A write or sync failed: what the segment holds is not known any more, and nothing is journaled until a restart."""
        self.failure = self.failure or error

    # using segments again

    def pin(self) -> None:
        """Data files could not be synced: their bytes are here, and stay until a restart."""
        self._is_pinned = True

    def has_segment_to_free(self, sequence: int) -> bool:
        """Whether `checkpointed(sequence)` would let a segment be used again."""
        oldest = self._segments[0]
        is_needed = self._header.needed_from <= oldest.last_sequence <= sequence
        return is_needed and len(self._segments) > 1 and not self._is_pinned

    def checkpointed(self, sequence: int) -> None:
        """Data files and stored recovery points hold everything up to entry `sequence`. Raises StorageError."""
        if self._is_pinned:
            return
        self._header = self._header._replace(needed_from=sequence + 1)
        while len(self._free) > 1 and self.segment_count > SEGMENTS_KEPT:  # the first may be reserved
            segment = self._free.pop()
            segment.file.close()
            self._files.remove(segment.path)


def _is_of_journal(name: str) -> bool:
    return name == BEGUN_FILE or (name.startswith(FILE_PREFIX) and "/" not in name)


def has_journal(files: Files, data_directory: str) -> bool:
    """Whether a start finds one there, whole or not."""
    names = files.list(data_directory)
    return CLOSED_FILE not in names and any(map(_is_of_journal, names))


def remove_journal(files: Files, data_directory: str) -> None:
    """Remove a journal that no start needs any more; durable on return. Raises StorageError.

    First a file says that it is over, and what goes: of segments that go one by one a power cut may leave any. Where that file is
    there already, an earlier attempt did not come to its end. If a sync of it failed, what it had removed may come back with a
    power cut, whatever a later sync of the directory says; so that is made and removed once more.
    """
    there = [name for name in files.list(data_directory) if _is_of_journal(name)]
    if not there:
        return
    closed = f"{data_directory}/{CLOSED_FILE}"
    before = files.read_whole(closed).decode("ascii", "replace").split() if CLOSED_FILE in there else []
    names = [name for name in dict.fromkeys((*there, *before)) if _is_of_journal(name) and name != CLOSED_FILE]
    files.replace_whole(closed, "\n".join(names).encode())
    for name in names:
        path = f"{data_directory}/{name}"
        if name not in there:
            files.open(path).close()
        files.remove(path)
    files.sync_directory(data_directory)
    files.remove(closed)
    files.sync_directory(data_directory)
