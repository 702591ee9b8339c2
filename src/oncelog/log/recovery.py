"""Opening a partition's log: whole after a clean shutdown, made whole again after a crash.

Order: leftovers; segments; the newest producer snapshot at or below the recovery point; then every batch from there on
is checked, indexed and replayed through the very code that runs live. A bad batch below the recovery point is damage:
DamagedLog, nothing is changed. Above it, it is what a power cut leaves: cut there, the bytes kept, the cut reported.
What was not known to be synced is written again, byte for byte: the page cache alone may hold it (`failed_sync.write_again`).
Where all is known to be synced, and little of it had to be read, nothing is written: indexes and producers wait in memory for
the next checkpoint, as they do live: else a start of many partitions takes thrice as long. Twice gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Protocol

from oncelog.errors import CorruptBatch, CorruptIndex, DamagedLog, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.log import producer_snapshot
from oncelog.log.aborted_checksums import Checksums, checksum_of, checksums_of_beginnings, snapshot_key
from oncelog.log.batch_scan import Scan
from oncelog.log.config import INT32_MAX, LogConfig
from oncelog.log.failed_sync import note_failed_sync, rewrite_after_failed_sync, write_again
from oncelog.log.files import Files
from oncelog.log.leader_epoch_file import FILE_NAME as LEADER_EPOCH_FILE
from oncelog.log.leader_epoch_file import LeaderEpochs
from oncelog.log.leftovers import base_offset_of, put_right
from oncelog.log.offset_index import ENTRY_SIZE_BYTES as OFFSET_ENTRY_BYTES
from oncelog.log.open_files import OpenFiles
from oncelog.log.partition_log import PartitionLog
from oncelog.log.producer_windows import Windows, completed
from oncelog.log.segment import Segment, timestamp_of
from oncelog.log.segment_end import clear_indexes, read_end_offset
from oncelog.log.time_index import ENTRY_SIZE_BYTES as TIME_ENTRY_BYTES
from oncelog.log.torn_tail import SUFFIX as TORN_SUFFIX
from oncelog.log.torn_tail import Cut, forget_oldest, keep_tail, valid_batches
from oncelog.types import AbortedTransaction, ProducerSnapshotEntry
from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import RecordBatch

INT64_MAX = 2**63 - 1
READ_AGAIN_SIZE_BYTES_MAX = 16_384  # of a log, by each start until its next checkpoint: less than its files are worth
BEHIND_THE_JOURNAL = "it lies behind the end of the journal"


class Observer(Protocol):
    """The partition's state machine (core): recovery tells it what it would have seen live."""

    def load_snapshot(self, entries: Sequence[ProducerSnapshotEntry]) -> None:
        """Start from these producers; called once, before the first `replay`."""
        ...

    def replay(self, batch: RecordBatch) -> AbortedTransaction | None:
        """The next batch of the log; an ABORT marker that ends a transaction gives its transaction index entry."""
        ...

    def snapshot_entries(self) -> Sequence[ProducerSnapshotEntry]:
        """The producers' state now."""
        ...


@dataclass
class RecoveryReport:
    """The opened log and what was done to open it. `notes` are lines for the operator."""

    log: PartitionLog
    replayed_from_offset: int
    replayed_batch_count: int = 0
    replayed_size_bytes: int = 0
    cut: Cut | None = None
    notes: list[str] = field(default_factory=list)


def recover(
    files: OpenFiles | Files,
    directory: str,
    config: LogConfig,
    observer: Observer,
    *,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    is_clean: bool = False,
    sync: bool = True,
    windows: Mapping[int, Windows] | None = None,
    journal_end_offset: int = 0,
    is_cut: bool = False,
    aborted: Checksums | None = None,
) -> RecoveryReport:
    """Open the log in `directory` (made by `checkpoint_files.create_partition_directory`, or empty).

    `recovery_point` and `log_start_offset` come from the checkpoints of the data directory (0 where they name none);
    `is_clean` says that the clean shutdown marker was there: then nothing is torn, and what is bad is damage. `windows`, by
    the offset of a snapshot, is what was known of its producers beyond it. `journal_end_offset` is where a replayed
    journal ends, which was synced: what is bad below it is damage. With `is_cut`, after a power cut, the log is cut there: what
    lies behind may depend on what was lost elsewhere. `aborted` is what the last clean stop noted of the transaction indexes: one
    that differs is built anew.
    With `sync` off the caller syncs `report.log.files_to_sync(checkpoint=True)` (many logs in one go) before anything is
    served. Pass the broker's `OpenFiles` to share its bound on open files. Raises DamagedLog and StorageError.
    """
    open_files = files if isinstance(files, OpenFiles) else OpenFiles(files)
    opening = _Opening(
        open_files,
        directory,
        config,
        observer,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
        is_clean=is_clean,
        windows=windows,
        journal_end_offset=journal_end_offset,
        is_cut=is_cut,
        aborted=aborted,
    )
    try:
        report = opening.run()
    except DamagedLog:
        raise
    except StorageError:
        note_failed_sync(open_files.files, directory)
        raise
    log = report.log
    if sync and log.has_unsynced:
        log.sync_now(checkpoint=True)
    if sync and remove_below_start(log):
        log.sync_now()
    return report


def remove_below_start(log: PartitionLog) -> bool:
    """Remove what lies below the log start of a log that was just recovered and synced: nobody reads it any more.

    True when there was something; the names want a sync then. Raises StorageError.
    """
    removed = log.delete_records_before(log.log_start_offset)
    log.remove_deleted()
    return bool(removed)


class _Opening:
    """The steps of one recovery and what they share."""

    def __init__(
        self,
        open_files: OpenFiles,
        directory: str,
        config: LogConfig,
        observer: Observer,
        *,
        recovery_point: int,
        log_start_offset: int,
        is_clean: bool,
        windows: Mapping[int, Windows] | None,
        journal_end_offset: int,
        is_cut: bool,
        aborted: Checksums | None,
    ) -> None:
        self.aborted = aborted
        self.end_offset_max = max(journal_end_offset, recovery_point) if is_cut else INT64_MAX
        self.windows = windows or {}
        self.open_files = open_files
        self.files = open_files.files
        self.directory = directory
        self.config = config
        self.observer = observer
        self.log_start_offset = log_start_offset
        self.is_clean = is_clean
        self.recovery_point = INT64_MAX if is_clean else recovery_point
        # Everything below it is synced, with its indexes. A log start never lies above what was synced.
        self.known_synced_offset = max(recovery_point, log_start_offset)
        self.synced_offset = INT64_MAX if is_clean else self.known_synced_offset
        # What is bad below it is damage: what the journal had was put back and synced, without its indexes.
        self.whole_offset = max(self.synced_offset, journal_end_offset)
        self.notes: list[str] = []
        self.unsynced: list[str] = []
        self.names_are_unsynced = False
        self.has_written_again = False
        self.has_unwritten = False  # indexes, and producers, of what is whole and synced
        self.cut: Cut | None = None
        self.batch_count = self.size_bytes = 0
        self.read_snapshot_offset = -1

    def run(self) -> RecoveryReport:
        if rewrite_after_failed_sync(self.files, self.directory, self.known_synced_offset):
            self.notes.append(
                f"{self.directory}: a sync failed before, or was cut short; what may not be on the disk was written anew"
            )
        self.names_are_unsynced = put_right(
            self.files, self.directory, range(self.log_start_offset, self.known_synced_offset)
        )
        names = self.files.list(self.directory)
        segments = self._segments(names)
        from_offset, entries, snapshot_offsets = self._newest_snapshot(segments, names)
        leader_epochs, epochs_on_disk = self._leader_epochs(segments, names, from_offset)
        self.observer.load_snapshot(entries)
        segments = self._replay(segments, from_offset, leader_epochs)
        end_offset = segments[-1].end_offset
        known_end_offset = max(self.known_synced_offset, from_offset, 0 if self.is_clean else self.whole_offset)
        if end_offset < known_end_offset:
            raise DamagedLog(
                f"{self.directory}: ends at offset {end_offset}, but it was synced up to {known_end_offset}"
            )
        for offset in [offset for offset in snapshot_offsets if offset > end_offset or self._is_unreadable(offset)]:
            self._remove_snapshot(offset, snapshot_offsets)
        # Written at a roll, perhaps by a process that was killed before its sync: segments are removed in reliance on them. A
        # journal's data sync may have had the recovery point there before the roll.
        rolled = {segment.base_offset for segment in segments}
        for offset in snapshot_offsets:
            if offset > self.recovery_point or (offset == self.recovery_point and offset in rolled):
                write_again(self.open_files.get(self._snapshot_path(offset)))
                self.unsynced.append(self._snapshot_path(offset))
        for segment in segments:
            segment.mends_indexes = True
            self._mend_torn_indexes(segment)
        log = PartitionLog(
            self.open_files,
            self.directory,
            self.config,
            self.observer,
            segments=segments,
            log_start_offset=max(self.log_start_offset, segments[0].base_offset),
            recovery_point=min(self.whole_offset if self.has_unwritten else self.synced_offset, end_offset),
            leader_epochs=leader_epochs,
            snapshot_offsets=snapshot_offsets,
        )
        log.adopt_recovered(
            self.unsynced,
            names_are_unsynced=self.names_are_unsynced,
            leader_epochs_changed=leader_epochs.entries != epochs_on_disk or self.has_written_again,
            read_size_bytes=self.size_bytes if self.has_unwritten else 0,
        )
        return RecoveryReport(log, from_offset, self.batch_count, self.size_bytes, self.cut, self.notes)

    # What is there

    def _segments(self, names: list[str]) -> list[Segment]:
        segments = []
        for name in names:
            base_offset = base_offset_of(name)
            if base_offset is not None and name == f"{base_offset:020d}.log":
                size_bytes = self.files.size_of(f"{self.directory}/{name}")
                segment = Segment(self.open_files, self.directory, base_offset, self.config, size_bytes=size_bytes)
                segment.unchecked_end_position = size_bytes
                segments.append(segment)
        if not segments and self.log_start_offset < self.known_synced_offset:
            raise DamagedLog(f"{self.directory}: has no segment, but it was synced up to {self.known_synced_offset}")
        if not segments:
            # The first segment's name is durable before anything is written: only later ones can be lost in a crash,
            # and that shows at their borders.
            segments.append(Segment(self.open_files, self.directory, self.log_start_offset, self.config))
            segments[0].create()
            self.files.sync_directory(self.directory)
        for segment, successor in pairwise(segments):
            segment.end_offset = successor.base_offset
        return segments

    def _newest_snapshot(
        self, segments: list[Segment], names: list[str]
    ) -> tuple[int, list[ProducerSnapshotEntry], list[int]]:
        """Where to replay from, with which producers, and the offsets of all snapshots that are left."""
        limit = self._replay_limit(segments)
        offsets = [
            offset
            for name in names
            if (offset := base_offset_of(name)) is not None and name == producer_snapshot.file_name(offset)
        ]
        for offset in sorted(offsets, reverse=True):
            if offset <= limit:
                path = self._snapshot_path(offset)
                try:
                    entries = self._snapshot(self.files.read_whole(path), offset)
                    entries = completed(entries, self.windows.get(offset, {}))
                    self.read_snapshot_offset = offset
                    return max(offset, segments[0].base_offset), entries, offsets
                except CorruptIndex as error:
                    self.notes.append(f"{path}: {error}; removed, an older one is tried")
                    self._remove_snapshot(offset, offsets)
        return segments[0].base_offset, [], offsets

    def _snapshot(self, data: bytes, offset: int) -> list[ProducerSnapshotEntry]:
        """Raises CorruptIndex, also for another log's."""
        entries = producer_snapshot.snapshot_from_bytes(data)
        noted = self.aborted.get(snapshot_key(offset)) if self.is_clean and self.aborted is not None else None
        if noted is not None and noted != crc32c(data):
            raise CorruptIndex("not what the clean stop left")
        if (last_offset := max((each.last_offset for each in entries), default=-1)) >= offset:
            raise CorruptIndex(f"a producer's last offset, {last_offset}, lies above it")
        return entries

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{producer_snapshot.file_name(offset)}"

    def _is_unreadable(self, offset: int) -> bool:
        """Of one that this recovery does not need: a later one may, and it is no damage of the log. A clean stop leaves none."""
        if self.is_clean or offset == self.read_snapshot_offset:
            return False
        path = self._snapshot_path(offset)
        try:
            producer_snapshot.snapshot_from_bytes(self.files.read_whole(path))
        except CorruptIndex as error:
            self.notes.append(f"{path}: {error}; removed, this start does not need it")
            return True
        return False

    def _remove_snapshot(self, offset: int, offsets: list[int]) -> None:
        self.files.remove(self._snapshot_path(offset))
        offsets.remove(offset)
        self.names_are_unsynced = True

    def _replay_limit(self, segments: list[Segment]) -> int:
        # A transaction index can only be rebuilt by replaying its whole segment, so a broken one moves the start down.
        for segment in segments:
            if segment.base_offset >= self.synced_offset:
                break
            if segment is not segments[-1] and segment.end_offset <= self.log_start_offset:
                continue  # (how far the last one reaches is not known yet)
            try:
                found = segment.read_aborted()
                if self.aborted is not None:
                    self._compare(found, self.aborted.get(segment.base_offset))
            except CorruptIndex as error:
                self.notes.append(f"{segment.transaction_index_path}: {error}; rebuilt")
                return segment.base_offset
        return self.synced_offset

    def _compare(self, found: list[AbortedTransaction], noted: int | None) -> None:
        """With what the last clean stop noted of the file: since a crash more may have been added. Raises CorruptIndex."""
        if self.is_clean and noted != (checksum_of(found) if found else None):
            raise CorruptIndex("not what the clean stop left")
        # (a cleaning since then has written it anew)
        if noted is not None and not self.config.may_have_gaps and noted not in checksums_of_beginnings(found):
            raise CorruptIndex("not what the last clean stop left, and more")

    def _leader_epochs(
        self, segments: list[Segment], names: list[str], from_offset: int
    ) -> tuple[LeaderEpochs, list[tuple[int, int]]]:
        """The leader epochs below `from_offset`, and all that the file has."""
        if LEADER_EPOCH_FILE in names:
            try:
                leader_epochs = LeaderEpochs.from_bytes(self.files.read_whole(f"{self.directory}/{LEADER_EPOCH_FILE}"))
                on_disk = list(leader_epochs.entries)
                leader_epochs.truncate_end(from_offset)
                return leader_epochs, on_disk
            except CorruptIndex as error:
                self.notes.append(f"{error}; rebuilt from the log")
        leader_epochs = LeaderEpochs()
        for segment in segments:
            if segment.base_offset < from_offset and segment.size_bytes:
                for batch in segment.scan(0, check_crc=False):
                    if batch.base_offset < from_offset:
                        leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
        return leader_epochs, []

    # Replaying

    def _replay(self, segments: list[Segment], from_offset: int, leader_epochs: LeaderEpochs) -> list[Segment]:
        """Check, index and replay everything from `from_offset` on; returns the segments that are left."""
        first = next(
            (i for i, segment in enumerate(segments[:-1]) if segment.end_offset > from_offset), len(segments) - 1
        )
        if not self.config.may_have_gaps:
            self._check_borders(segments[: first + 1])
        for index in range(first, len(segments)):
            segment = segments[index]
            if index > first:
                before = segments[index - 1]
                problem = self._border_problem(before.end_offset, segment.base_offset)
                if problem is not None:
                    return self._cut(segments, index - 1, before.size_bytes, problem)
                before.finish()
                before.end_offset = segment.base_offset
            if segment.size_bytes == 0:
                segment.end_offset = segment.base_offset
                if (
                    segment.base_offset >= self.known_synced_offset
                ):  # else it is damaged, and its indexes are needed again
                    self.names_are_unsynced |= clear_indexes(segment, self.files)
                continue
            scan = self._replay_segment(segment, from_offset, leader_epochs, is_last=segment is segments[-1])
            if scan.problem is not None:
                return self._cut(segments, index, scan.position, scan.problem)
        return segments

    def _check_borders(self, segments: list[Segment]) -> None:
        """Of segments that are not read, and their successor: what is missing between them was lost. Raises DamagedLog."""
        for before, segment in pairwise(segments):
            if (
                segment.base_offset > self.log_start_offset
                and (end_offset := read_end_offset(before, self.open_files)) != segment.base_offset
            ):
                lacks = (
                    "what lies between is missing" if end_offset < segment.base_offset else "one of them is too much"
                )
                raise DamagedLog(
                    f"{before.log_path}: ends at offset {end_offset}, and the next segment begins at {segment.base_offset}: "
                    + lacks
                )

    def _border_problem(self, end_offset: int, base_offset: int) -> str | None:
        # Compaction leaves gaps below the recovery point, an interrupted removal below the log start. Anywhere else a gap
        # is a lost end of the segment before: what comes behind was never acknowledged, as a sync covers all segments.
        is_compacted_here = self.config.may_have_gaps and end_offset < self.synced_offset
        is_gap_allowed = is_compacted_here or base_offset <= self.log_start_offset
        if base_offset == end_offset or (base_offset > end_offset and is_gap_allowed):
            return None
        return f"the next segment begins at {base_offset} where {end_offset} is due"

    def _replay_segment(
        self, segment: Segment, from_offset: int, leader_epochs: LeaderEpochs, *, is_last: bool
    ) -> Scan:
        position = self._prepare(segment, from_offset)
        aborted_before = [] if from_offset <= segment.base_offset else segment.aborted
        aborted = [entry for entry in aborted_before if entry.last_offset < from_offset]
        due_offset = max(segment.base_offset, from_offset)
        unsynced_position: int | None = None
        if 0 < position == segment.size_bytes:
            segment.check_end()  # it was closed, or a checkpoint: nobody writes what is wrong there
        scan = segment.scan(position)
        for batch in scan:
            # Offsets lie outside the checksum. Gaps are left by compaction, which stays below the recovery point.
            may_gap = self.config.may_have_gaps and due_offset < self.known_synced_offset
            if batch.base_offset < due_offset or (batch.base_offset > due_offset and not may_gap):
                scan.problem = f"offset {batch.base_offset} where {due_offset} is due"
                break
            if batch.last_offset - segment.base_offset > INT32_MAX:
                scan.problem = f"offset {batch.last_offset} in segment {segment.base_offset}"
                break
            if batch.end_offset > self.end_offset_max:
                scan.problem = BEHIND_THE_JOURNAL
                break
            if unsynced_position is None and batch.last_offset >= self.synced_offset:
                unsynced_position = scan.position
            segment.note_batch(batch.last_offset, timestamp_of(batch), scan.position)
            segment.end_offset = due_offset = batch.end_offset
            try:
                entry = self.observer.replay(batch)
            except CorruptBatch as error:  # the checksum fits, so no crash did this: do not cut it
                raise DamagedLog(f"{segment.log_path}: position {scan.position}: {error}") from error
            if entry is not None:
                aborted.append(entry)
            if batch.partition_leader_epoch != leader_epochs.latest:
                leader_epochs.assign(batch.partition_leader_epoch, batch.base_offset)
            self.batch_count += 1
            self.size_bytes += batch.size_bytes
        if scan.problem is not None and scan.position == position > 0:
            self._check_below(segment, position)
        segment.unchecked_end_position = min(segment.unchecked_end_position, position)
        if is_last and aborted == aborted_before and self._may_read_again(segment, scan, aborted):
            self.has_unwritten = True
            return scan
        if unsynced_position is not None:
            write_again(self.open_files.get(segment.log_path), unsynced_position, scan.position)
            self.has_written_again = True
        is_stale = position < segment.size_bytes or segment.indexes_differ or aborted != aborted_before
        if is_stale and (scan.problem is None or segment.end_offset >= self.whole_offset):
            segment.set_aborted(aborted)
            segment.flush_indexes()
            self.unsynced += [*segment.paths[:3], *([segment.transaction_index_path] if aborted else [])]
            # What wrote these batches may have been killed before it synced the names of their files; once the recovery
            # point is behind them nobody makes those files again.
            self.names_are_unsynced = True
        return scan

    def _may_read_again(self, segment: Segment, scan: Scan, aborted: list[AbortedTransaction]) -> bool:
        """Whether the next start can as well do all of this once more: nothing but what it does anew is wrong on the disk."""
        is_synced = not self.is_clean and scan.problem is None and segment.end_offset <= self.whole_offset
        if not is_synced or segment.has_rebuilt_indexes or self.size_bytes > READ_AGAIN_SIZE_BYTES_MAX or self.unsynced:
            return False
        try:
            return segment.read_aborted() == aborted
        except CorruptIndex:
            return False

    def _check_below(self, segment: Segment, position: int) -> None:
        """Nothing fits where batches that were not checked lead to: were one of them damaged, all that is whole behind it
        would be cut in its place. Raises DamagedLog."""
        below = segment.scan(0)
        for _ in below:
            if below.position >= position:
                return
        if below.problem is not None and below.position < position:
            raise DamagedLog(
                f"{segment.log_path}: position {below.position}: {below.problem}; it was synced, nothing is cut"
            )

    @staticmethod
    def _prepare(segment: Segment, from_offset: int) -> int:
        """Make the indexes and `end_offset` those of everything below `from_offset`; where its batch begins."""
        if from_offset > segment.base_offset:
            return segment.cut_indexes(from_offset)
        segment.reset_indexes()
        segment.end_offset = segment.base_offset
        return 0

    def _cut(self, segments: list[Segment], index: int, position: int, problem: str) -> list[Segment]:
        """Cut segment `index` at `position` and everything behind it, or raise DamagedLog."""
        segment, later = segments[index], segments[index + 1 :]
        offset = segment.end_offset
        where = f"{segment.log_path}: position {position}, offset {offset}: {problem}"
        if offset < self.whole_offset:
            known = "the end" if self.whole_offset == INT64_MAX else self.whole_offset
            raise DamagedLog(f"{where}; everything below {known} was synced, nothing is cut")
        name, data = keep_tail(self.files, self.directory, segment.log_path, position, offset)
        behind = valid_batches(data, offset)
        names = [name] if name else []
        size_bytes = segment.size_bytes - position
        for dropped in reversed(later):
            size_bytes += dropped.size_bytes
            behind += [(batch.base_offset, batch.last_offset) for batch in dropped.scan(0)]
            names += self._drop(dropped)
        segment.cut_log(position)
        self.unsynced.append(segment.log_path)
        self.names_are_unsynced = True
        forget_oldest(self.files, self.directory, self.config.torn_files_max, tuple(names))
        self.cut = Cut(offset, segment.base_offset, position, size_bytes, problem, tuple(names), tuple(sorted(behind)))
        self.notes.append(f"{where}; {self.cut}")
        return segments[: index + 1]

    def _mend_torn_indexes(self, segment: Segment) -> None:
        """Those that end in the middle of an entry; what else is wrong with one shows when it is used."""
        for path, entry_bytes in zip(segment.paths[1:3], (OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES), strict=True):
            if self.files.exists(path) and self.files.size_of(path) % entry_bytes:
                _ = segment.offset_index  # read, and built anew

    def _drop(self, segment: Segment) -> list[str]:
        segment.release()
        names = []
        if segment.size_bytes:
            names = [f"{segment.base_offset:020d}.log{TORN_SUFFIX}"]
            kept_path = f"{self.directory}/{names[0]}"
            self.files.rename(segment.log_path, kept_path)
            self.unsynced.append(kept_path)
        segment.remove()
        return names
