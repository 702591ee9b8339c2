"""Promises of the journal: what must be durable before it is written, before it is written over, and before it goes.

Asked like `rules.Rules`, of what a power cut at this moment would leave. None of them is asked where `journal` is off,
but that there is none then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from evidence.syscalls.journal import is_segment
from evidence.syscalls.logs import METADATA, Logs, base_offset_of, end_offset_of, partition_of, whole_batches
from evidence.syscalls.recorder import BEGIN, END, Call
from evidence.syscalls.world import Node, World
from oncelog.errors import CorruptIndex
from oncelog.log.checkpoint_files import CLEAN_SHUTDOWN, LOG_START_OFFSETS, RECOVERY_POINTS, offsets_from_bytes
from oncelog.log.failed_sync import MARKER
from oncelog.log.journal import BEGUN_FILE, CLOSED_FILE
from oncelog.log.journal_entries import (
    SEGMENT_HEADER_BYTES,
    Entry,
    Piece,
    SegmentHeader,
    entry_from_bytes,
    segment_header_from_bytes,
)
from oncelog.types import TopicPartition


class JournalRules:
    """Show it every call before the world takes it over."""

    def __init__(self, world: World, logs: Logs) -> None:
        self._world, self._logs, self._journal = world, logs, logs.journal
        self.problems: list[str] = []
        self.judged: Counter[str] = Counter()
        self._call: Call
        self.process_begins(has_journal=False)

    def process_begins(self, *, has_journal: bool) -> None:
        """Another broker on the same directory, with a journal of its own or without."""
        self._has_journal = has_journal
        self._has_answered = False
        self._header: SegmentHeader | None = None  # the newest that this process has written
        self._written: dict[int, Entry] = {}  # by sequence, as long as they are not durable
        self._needed_from = 0  # what was said last
        self._last_sequence = 0
        self._told_with: int | None = (
            None  # the first entry that was written behind what the newest segment's file was told
        )
        # What was appended since the journal began and may not be durable yet, in order; end offsets.
        self._appended: list[tuple[TopicPartition, int]] = []

    def before(self, call: Call) -> None:
        """Ask the rules for what begins here (for a write: what was done)."""
        self._call = call
        prefix = f"{self._logs.directory}/"
        path = self._world.paths(call)[0] if call.name in ("rename", "unlink", "write") else ""
        if not path.startswith(prefix):
            return
        below = path.removeprefix(prefix)
        if call.name == "write" and call.phase == END:
            self._writes(below, call)
        elif call.name == "unlink" and call.phase == BEGIN:
            self._unlinks(below)
        elif call.name == "rename" and call.phase == BEGIN:
            self._renames(below, self._world.paths(call)[1].removeprefix(prefix))

    def must(self, is_so: bool, rule: str, what: object = "") -> None:
        """Note whether a rule holds."""
        self.judged[rule] += 1
        if not is_so:
            self.problems.append(f"{self._call}: {rule}: {what}")

    # writing

    def _writes(self, path: str, call: Call) -> None:
        if is_segment(path):
            self._writes_journal(call)
            return
        if path == BEGUN_FILE:
            self._told_with = self._last_sequence_written() + 1
            return
        folder, _, name = path.rpartition("/")
        partition = partition_of(folder)
        is_of_log = name == f"{base_offset_of(name):020d}.log" and self._header is not None
        if is_of_log and partition is not None and partition.topic != METADATA:
            self._appended += [(partition, each.end_offset) for each in whole_batches(call.data)]

    def _writes_journal(self, call: Call) -> None:
        node = self._world.node_of(call)
        assert node is not None, call
        before = self._journal.segment(node)
        if before.entries and call.offset < before.end_position:
            self._gives_up(before.entries)
        header = segment_header_from_bytes(call.data[:SEGMENT_HEADER_BYTES]) if call.offset == 0 else None
        if header is not None:
            self._says(header.needed_from)
            self._header = header
        elif self._header is not None:
            for entry in self._entries(call.data, self._header.generation):
                self._writes_entry(entry)

    @staticmethod
    def _entries(data: bytes, generation: int) -> Iterator[Entry]:
        position = 0
        while (entry := entry_from_bytes(data, position, generation)) is not None:
            yield entry
            position = entry.end_position

    def _writes_entry(self, entry: Entry) -> None:
        found = self._journal.found()
        if self._told_with is not None and self._told_with <= found.last_sequence:  # a round of syncs is over since
            told = self._world.find(self._logs.path(BEGUN_FILE))
            is_so = told is not None and told.is_durable
            self.must(is_so, "which segment is the newest is durable with the next entry", found)
            self._told_with = None
        self._last_sequence = entry.sequence
        self._written = {key: each for key, each in self._written.items() if key > found.last_sequence}
        self._written[entry.sequence] = entry
        is_so = entry.synced_sequence <= found.last_sequence
        self.must(is_so, "an entry calls synced what is durable", (entry.synced_sequence, found.last_sequence))
        self._says(entry.needed_from)
        names = self._names()
        for piece in entry.pieces:
            if len(piece.kept) < piece.size_bytes and piece.topic_id in names:
                self._is_in_its_file(TopicPartition(names[piece.topic_id], piece.partition), piece)

    def _last_sequence_written(self) -> int:
        return max(self._last_sequence, self._journal.found().last_sequence)

    def _names(self) -> dict[bytes, str]:
        return {topic_id: name for name, topic_id in self._logs.topic_ids().items()}

    def _is_in_its_file(self, partition: TopicPartition, piece: Piece) -> None:
        """A batch of which the journal has the header alone."""
        path = self._logs.path(str(partition), f"{piece.segment_base_offset:020d}.log")
        seen, durable = self._world.find(path), self._world.find(path, durable=True)
        span = slice(piece.position, piece.position + piece.size_bytes)
        is_there = seen is not None and durable is seen and bytes(seen.data[span]) == durable.durable_data[span]
        rule = "a big batch is durable in its own file before the journal names it"
        self.must(is_there and len(seen.data[span]) == piece.size_bytes, rule, (partition, piece.end_offset))

    def _says(self, needed_from: int) -> None:
        """From here on entries below this may be written over, and are left out by a start."""
        if needed_from <= self._needed_from:
            return
        self._needed_from = needed_from
        entries = [
            entry
            for node in self._journal.names(durable=True).values()
            for entry in self._journal.segment(node).entries
            if entry.sequence < needed_from
        ]
        found = self._lost(entries)
        self.must(not found, "what a start need not read lies behind stored recovery points", found)

    # using segments again, removing them

    def _lost(self, entries: list[Entry]) -> list[object]:
        """What of these durable entries neither recovery points, log starts nor deletions make needless."""
        names = self._names()
        stored, starts = self._logs.checkpoint(RECOVERY_POINTS), self._logs.checkpoint(LOG_START_OFFSETS)
        lost: list[object] = []
        for piece in (piece for entry in entries for piece in entry.pieces):
            if piece.topic_id in names:
                partition = TopicPartition(names[piece.topic_id], piece.partition)
                if piece.end_offset > max(stored.get(partition, 0), starts.get(partition, 0)):
                    lost.append((partition, piece.end_offset, stored.get(partition)))
        return lost

    def _gives_up(self, entries: list[Entry]) -> None:
        """A segment goes, or is begun anew."""
        found = self._journal.found()
        if entries[0].sequence > found.last_sequence or not found.is_there:
            return
        lost = self._lost(entries)
        self.must(not lost, "a segment of the journal goes when recovery points are stored behind it", lost)
        is_said = found.needed_from > entries[-1].sequence
        self.must(is_said, "that a segment is not needed is durable before it goes", (found, entries[-1].sequence))

    def _unlinks(self, path: str) -> None:
        if path == CLOSED_FILE:
            left = sorted(name for name in self._journal.names(durable=True) if is_segment(name))
            self.must(not left, "the journal is durably gone before the file that says so is removed", left)
        elif is_segment(path):
            node = self._world.find(self._logs.path(path))
            assert node is not None, path
            entries = self._journal.segment(node).entries
            if self._header is None:  # not of this process: a start or a clean end has done with all of it
                is_closed = CLOSED_FILE in self._journal.names(durable=True)
                self.must(is_closed, "a journal is durably over before its segments go", path)
            elif entries:
                self._gives_up(entries)

    # names

    def _renames(self, old: str, new: str) -> None:
        if new == CLOSED_FILE:
            self._is_over()
        elif new == BEGUN_FILE:
            durable = self._journal.names(durable=True)
            missing = sorted(name for name in self._journal.names(durable=False) if name not in durable)
            self.must(
                not missing,
                "a journal's first segment has its name durably before a file says that it was begun",
                missing,
            )
        elif new == CLEAN_SHUTDOWN:
            left = sorted({*self._journal.names(durable=True), *self._journal.names(durable=False)})
            self.must(not left, "a clean end leaves no journal", left)
        elif new == RECOVERY_POINTS:
            node = self._world.find(self._logs.path(old))
            if node is not None:
                self._stores_recovery_points(bytes(node.data))

    def _is_over(self) -> None:
        """From here on the data files are all there is: they are durable, and so is where they lie."""
        self._header = None
        top, starts = self._world.find(self._logs.directory), self._logs.checkpoint(LOG_START_OFFSETS)
        assert top is not None
        for partition, directory in self._logs.partitions().items():
            missing = sorted(self._undurable_logs(directory, starts.get(partition, 0)))
            if top.durable_names.get(str(partition)) is not directory:
                missing.append("its directory")
            self.must(not missing, "data files are durable before the journal is over", (partition, missing))

    @staticmethod
    def _undurable_logs(directory: Node, log_start_offset: int) -> Iterator[str]:
        """But for those that were removed below a stored log start: they are removed again."""
        for name in directory.names.keys() | directory.durable_names.keys():
            if name.endswith(".log"):
                node = directory.names.get(name)
                if node is None and (base_offset_of(name) or 0) < log_start_offset:
                    continue
                if node is None or directory.durable_names.get(name) is not node or not node.is_durable:
                    yield name

    def _stores_recovery_points(self, data: bytes) -> None:
        """Below its recovery point a log is not cut: so all that was appended before that, anywhere, must survive by what is
        durable already, and the log itself in the journal."""
        try:
            offsets = offsets_from_bytes(data)
        except CorruptIndex:
            return  # another rule says so
        if self._header is None:
            return
        reached = [index for index, (name, end) in enumerate(self._appended) if end <= offsets.get(name, 0)]
        below = self._appended[: reached[-1] + 1] if reached else []
        lost = [each for each in below if not self._survives(*each)]
        self.must(not lost, "a recovery point never lies ahead of the journal", lost[:3])

    def _survives(self, partition: TopicPartition, end_offset: int) -> bool:
        if partition.topic not in self._logs.topic_ids():
            return True  # deleted: nobody depends on it
        start = self._logs.checkpoint(LOG_START_OFFSETS).get(partition, 0)
        return max(end_offset_of(list(self._logs.batches(partition, durable=True))), start) >= end_offset

    # moments

    def answers(self, call: Call) -> None:
        """A reply begins; with the first one of a process its journal is there."""
        self._call = call
        found = self._journal.found()
        if not self._has_answered:
            self._has_answered = True
            if self._has_journal:
                begun = None if self._header is None else self._header.generation
                is_own = found.is_there and found.generation == begun
                self.must(is_own, "the journal's beginning is durable before the first answer", found)
            else:
                left = sorted({*self._journal.names(durable=True), *self._journal.names(durable=False)})
                self.must(not left, "without a journal there is none", left)
        if self._has_journal:
            self.must(not found.damage, "a power cut leaves a journal that a start can read", found.damage)
            self._leaves_a_beginning()

    def _leaves_a_beginning(self) -> None:
        """What survives over all partitions is a beginning of what was appended."""
        while self._appended and self._survives(*self._appended[0]):
            self._appended.pop(0)
        behind = [each for each in self._appended if self._survives(*each)]
        self.must(not behind, "what a power cut leaves is a beginning of all that was appended", behind[:3])

    def answers_after_failure(self, call: Call, path: str) -> None:
        """A sync of the journal failed: whose batches it was to commit is marked before anybody hears of it."""
        self._call = call
        if not is_segment(path.rpartition("/")[2]):
            return
        names = self._names()
        last_sequence = self._journal.found().last_sequence
        for entry in (each for sequence, each in self._written.items() if sequence > last_sequence):
            for piece in entry.pieces:
                name = self._logs.path(f"{names[piece.topic_id]}-{piece.partition}")
                directory = self._world.find(name)
                is_marked = directory is not None and MARKER in directory.names
                self.must(is_marked, "a failed sync of the journal leaves its marks before the answer", name)
