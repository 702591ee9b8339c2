"""One partition's log: appends at the end, reads anywhere, rolls, cuts, and says what must be synced.

It decides nothing about producers or transactions: offsets come in already assigned, and the owner says how far
readers may see. Rules: one write call per append; what `mark_synced` was told is durable, what came after may be lost;
after a failed write or sync nothing is appended until recovery has opened the log again, while reads go on.
`recovery.recover` is the only way to open one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from operator import attrgetter
from typing import Protocol

from oncelog.errors import DamagedLog, OffsetOutOfRange, StorageError
from oncelog.log import producer_snapshot
from oncelog.log.aborted_checksums import checksums_left
from oncelog.log.config import LogConfig
from oncelog.log.failed_sync import note_failed_sync
from oncelog.log.files import Buffer, DirectoryNames, Syncable, sync_all
from oncelog.log.later_writes import Writes
from oncelog.log.leader_epoch_file import FILE_NAME as LEADER_EPOCH_FILE
from oncelog.log.leader_epoch_file import LeaderEpochs
from oncelog.log.log_read import LogRead
from oncelog.log.open_files import OpenFiles
from oncelog.log.retention import count_past_retention
from oncelog.log.segment import Segment
from oncelog.log.time_lookup import TimestampAndOffset, first_at_or_after, of_max_timestamp
from oncelog.log.transaction_index import collect_aborted
from oncelog.types import AbortedTransaction, ProducerSnapshotEntry
from oncelog.wire.record_batch import RecordBatch

SNAPSHOTS_KEPT = 2  # at or below the recovery point: should the newest be unreadable, the one before it serves
SECTOR_SIZE_BYTES = 512
WRITTEN_LATER_SIZE_BYTES_MIN = 32_768  # of a batch; to hand a smaller one to a thread costs as much as to write it
DELETED_SUFFIX = ".deleted"
_base_offset = attrgetter("base_offset")


class SnapshotSource(Protocol):
    """Who knows the partition's producers: the core's partition."""

    def snapshot_entries(self) -> Sequence[ProducerSnapshotEntry]:
        """The producers' state after everything that was appended."""
        ...


class PartitionLog:
    """The log in `directory`. Offsets: `log_start_offset` first kept, `log_end_offset` next to be written."""

    def __init__(
        self,
        open_files: OpenFiles,
        directory: str,
        config: LogConfig,
        producers: SnapshotSource,
        *,
        segments: list[Segment],
        log_start_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochs,
        snapshot_offsets: list[int],
    ) -> None:
        self.directory = directory
        self._config = config
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.leader_epochs = leader_epochs
        self.failure: StorageError | None = None  # the one place that says so: set by `fail` alone
        self.when_failed: Callable[[], None] = lambda: None  # the owner is told once, in the same step
        self._has_failed_sync = False
        self.synced_end_offset = recovery_point
        self._open_files = open_files
        self._files = open_files.files
        self._producers = producers
        self._snapshot_offsets = snapshot_offsets
        self._active = segments[-1]
        self._unsynced: dict[str, None] = {}  # paths with bytes that no sync has covered, in order
        self._syncing: tuple[list[str], int] | None = None  # handed out: paths, the recovery point once they are synced
        self._names_are_unsynced = False
        self._leader_epochs_changed = False
        self._bytes_since_recovery_point = 0
        self._stored_recovery_point = 0
        self._deleted: list[str] = []
        self._replaced: list[str] = []  # by cleaned segments, which are not known to be durable in their place yet
        self._is_being_cleaned = False
        self.to_prove: Segment | None = None  # too old by its time index, which nothing is deleted by

    def adopt_recovered(
        self, unsynced: list[str], *, names_are_unsynced: bool, leader_epochs_changed: bool, read_size_bytes: int = 0
    ) -> None:
        """What recovery wrote or found, perhaps not synced; how much it read that no checkpoint has. Only recovery calls this."""
        self._bytes_since_recovery_point = read_size_bytes
        for path in unsynced:
            self._mark_unsynced(path)
        self._names_are_unsynced = names_are_unsynced
        self._leader_epochs_changed = leader_epochs_changed

    # What it holds

    @property
    def config(self) -> LogConfig:
        """The configuration in force; setting it takes effect with the next append."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        for segment in self.segments:
            segment.config = config

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self._active.end_offset

    @property
    def size_bytes(self) -> int:
        """Bytes in all segments' log files."""
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def leader_epoch(self) -> int:
        """The newest leader epoch that wrote here; -1 in a new log."""
        return self.leader_epochs.latest

    def _segment_index(self, offset: int) -> int:
        return max(bisect_right(self.segments, offset, key=_base_offset) - 1, 0)

    # Appending

    def append(
        self,
        batch: Buffer,
        *,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        now_ms: int,
        leader_epoch: int = 0,
        may_be_later: bool = False,
    ) -> None:
        """Append one batch whose offsets and leader epoch are set. `max_timestamp` in ms, -1 for none.

        `may_be_later`: a large one need not be in its file when this returns (`has_later_writes`), and must not change before.
        Raises StorageError, and is failed from then on, when the disk refuses. A roll happens before the batch is
        written, with a snapshot of the producers as they are then.
        """
        if self.failure is not None:
            raise self.failure
        active = self._active
        assert active.end_offset <= base_offset <= last_offset, (active.end_offset, base_offset, last_offset)
        try:
            if active.must_roll_for(len(batch), last_offset, max_timestamp, now_ms):
                self.roll()
                active = self._active
                active.created_ms = now_ms
            if active.log_path not in self._unsynced:
                self._mark_unsynced(active.log_path, is_new=active.size_bytes == 0)
            if may_be_later and (len(batch) >= WRITTEN_LATER_SIZE_BYTES_MIN or self.has_later_writes):
                active.append_later(batch, last_offset, max_timestamp)
            else:
                active.append(batch, last_offset, max_timestamp)
        except StorageError as error:
            self.fail(error)
            raise
        if leader_epoch != self.leader_epochs.latest:
            self._leader_epochs_changed |= self.leader_epochs.assign(leader_epoch, base_offset)
        self._bytes_since_recovery_point += len(batch)

    @property
    def has_later_writes(self) -> bool:
        """Whether something that was appended is not in its file yet: nobody may count on it."""
        return self._open_files.later(self._active.log_path) is not None

    def begin_writes(self) -> Writes | None:
        """What is to be written now by another thread, which `writes_ended` or `fail` is to be told of; None where that has begun
        already, or nothing is left (`has_later_writes`)."""
        later = self._open_files.later(self._active.log_path)
        return later.begin(self.log_end_offset) if later is not None else None

    def writes_ended(self, writes: Writes) -> None:
        """They are in the file."""
        path = self._active.log_path
        later = self._open_files.later(path)
        if later is not None and later.ended(writes):
            self._open_files.forget_later(path)

    def add_aborted(self, entry: AbortedTransaction) -> None:
        """Index an aborted transaction whose marker was the last thing appended. Raises StorageError as `append`."""
        if self.failure is not None:
            raise self.failure
        assert self._active.base_offset <= entry.last_offset < self.log_end_offset, entry
        try:
            self._active.add_aborted(entry)
        except StorageError as error:
            self.fail(error)
            raise

    def roll(self) -> None:
        """Begin a new segment at the log's end; nothing happens when the active one is empty. Raises StorageError."""
        active = self._active
        if active.size_bytes == 0:
            return
        try:
            active.finish()
            for path in active.paths[:3]:
                self._mark_unsynced(path)
            if active.aborted:
                self._mark_unsynced(active.transaction_index_path)
            self._sync_together(self.files_before_snapshot())
            self._write_snapshot()
            successor = Segment(self._open_files, self.directory, active.end_offset, self._config)
            successor.create()
        except StorageError as error:
            self.fail(error)
            raise
        self.segments.append(successor)
        self._active = successor
        self._names_are_unsynced = True

    def fail(self, error: StorageError, *, is_sync: bool = False) -> None:
        """A write or sync of this log failed: nothing more is appended until recovery opens it again. `is_sync`: it was a sync
        of its names, by somebody else than who was handed `files_to_sync`; others' new names went with it."""
        is_first, self.failure = self.failure is None, self.failure or error
        self._active.forget_later()
        self._has_failed_sync |= is_sync
        if is_sync or self._syncing is not None:  # handed out and not marked: it may have been the sync
            note_failed_sync(self._files, self.directory)
        if is_first:
            self.when_failed()

    def _mark_unsynced(self, path: str, *, is_new: bool = False) -> None:
        self._open_files.pin(path)
        self._unsynced[path] = None
        self._names_are_unsynced |= is_new

    def _snapshot_path(self, offset: int) -> str:
        return f"{self.directory}/{producer_snapshot.file_name(offset)}"

    def _write_snapshot(self) -> None:
        end_offset = self.log_end_offset
        path = self._snapshot_path(end_offset)
        data = producer_snapshot.snapshot_to_bytes(self._producers.snapshot_entries())
        file = self._open_files.get(path)
        file.write_at(0, data)
        file.truncate(len(data))
        self._mark_unsynced(path, is_new=True)
        if end_offset not in self._snapshot_offsets:
            self._snapshot_offsets.append(end_offset)

    # Making durable

    @property
    def has_unsynced(self) -> bool:
        """True when `files_to_sync` would give something."""
        return bool(self._unsynced) or self._names_are_unsynced or self._leader_epochs_changed

    @property
    def is_syncing(self) -> bool:
        """True between `files_to_sync` and `mark_synced`."""
        return self._syncing is not None

    @property
    def is_at_rest(self) -> bool:
        """True when a checkpoint of exactly this state is durable: a clean end needs to write nothing."""
        end_offset = self.log_end_offset
        is_stored = self.recovery_point == end_offset and (end_offset in self._snapshot_offsets or end_offset == 0)
        return is_stored and not self.has_unsynced

    def files_to_sync(self, *, checkpoint: bool = False, moves_to_end: bool = False) -> list[Syncable]:
        """What must be synced so that everything appended so far is durable; then call `mark_synced(end_offset)`
        with the log end offset of *this* moment, or `fail(error)`. One at a time for each log; any thread, any order.

        After more than `recovery_bytes_max`, or when `checkpoint` asks for it (before a clean shutdown), the indexes
        and a producer snapshot are written and are part of it, and the recovery point moves to the log's end. `moves_to_end`
        moves it without them: what a journal replays over the log must not lie below what was synced.
        """
        if self.failure is not None:
            raise self.failure
        assert self._syncing is None, "the last sync was neither marked nor failed"
        recovery_point = self.log_end_offset if moves_to_end else max(self.recovery_point, self._active.base_offset)
        try:
            if checkpoint or self._bytes_since_recovery_point > self._config.recovery_bytes_max:
                recovery_point = self.log_end_offset
                self._write_checkpoint()
            if self._leader_epochs_changed and (checkpoint or recovery_point > self.recovery_point):
                self._write_leader_epochs()
        except StorageError as error:
            self.fail(error)
            raise
        return self._handed_out(recovery_point)

    def _handed_out(self, recovery_point: int) -> list[Syncable]:
        syncables: list[Syncable] = [self._open_files.pin(path) for path in self._unsynced]
        if self._names_are_unsynced:
            syncables.append(DirectoryNames(self._files, self.directory))
        self._syncing = (list(self._unsynced), recovery_point)
        self._unsynced = {}
        self._names_are_unsynced = False
        return syncables

    def files_to_salvage(self, end_offset: int) -> list[Syncable]:
        """As `files_to_sync`, of a log that takes nothing more: what it holds below `end_offset` is whole, and the recovery point
        moves there. Raises StorageError where a sync has failed: no later one would tell the truth."""
        if self._has_failed_sync or self._syncing is not None:
            raise self.failure or StorageError(f"{self.directory}: a sync of it is under way")
        return self._handed_out(end_offset)

    def newest_batch_files(self) -> list[Syncable]:
        """What must be synced for the newest batch alone, the names that its file may still lack included."""
        lacks_names = self._names_are_unsynced or self._syncing is not None
        names = [DirectoryNames(self._files, self.directory)] if lacks_names else []
        return [self._open_files.pin(self._active.log_path), *names]

    def files_before_snapshot(self) -> list[Syncable]:
        """What must be synced before a snapshot is written at the log's end: the indexes, where the recovery point is there
        already (a journal's data sync moves it without them). A start that found the snapshot would not rebuild them."""
        end_offset = self.log_end_offset
        reached = max(self.recovery_point, self._syncing[1] if self._syncing is not None else 0)
        if reached < end_offset or end_offset == 0 or end_offset in self._snapshot_offsets:
            return []
        active = self._active
        active.finish()
        paths = [*active.paths[1:3], *([active.transaction_index_path] if active.aborted else [])]
        return [*map(self._open_files.get, paths), DirectoryNames(self._files, self.directory)]

    def _write_checkpoint(self) -> None:
        active = self._active
        active.finish()  # with the largest timestamp: what comes to be below the recovery point is never read again
        for path in active.paths[:3]:
            self._mark_unsynced(path, is_new=True)
        if active.aborted:
            self._mark_unsynced(active.transaction_index_path)
        self._write_snapshot()
        self._bytes_since_recovery_point = 0

    def _write_leader_epochs(self) -> None:
        path, data = f"{self.directory}/{LEADER_EPOCH_FILE}", self.leader_epochs.to_bytes()
        size_bytes = self._files.size_of(path) if self._files.exists(path) else 0
        if size_bytes <= len(data) <= SECTOR_SIZE_BYTES:
            # One sector reaches the disk whole or not at all, and a file that did not is rebuilt: so this one can wait
            # for the sync of the rest.
            self._open_files.get(path).write_at(0, data)
            self._mark_unsynced(path, is_new=True)
        else:
            self._unsynced.pop(path, None)
            self._open_files.forget(path)
            try:
                self._files.replace_whole(path, data)
            except StorageError as error:  # at its last step, the sync of the directory, perhaps
                self.fail(error, is_sync=True)
                raise
        self._leader_epochs_changed = False

    def names_changed(self) -> None:
        """A file that is no part of the log came or went: the next sync makes that durable too."""
        self._names_are_unsynced = True

    def sync_now(self, *, checkpoint: bool = False) -> None:
        """Sync in this thread: recovery and clean shutdown have nobody to overlap with. Raises StorageError."""
        end_offset = self.log_end_offset
        if checkpoint:
            self._sync_together(self.files_before_snapshot())
        self._sync_together(self.files_to_sync(checkpoint=checkpoint))
        self.mark_synced(end_offset)

    def _sync_together(self, files: list[Syncable]) -> None:
        try:
            sync_all(files)
        except StorageError as error:
            self.fail(error, is_sync=True)
            raise

    def mark_synced(self, end_offset: int) -> None:
        """Everything below `end_offset`, and all that `files_to_sync` gave, is durable. May move `recovery_point`."""
        assert self._syncing is not None, "nothing was handed out"
        paths, recovery_point = self._syncing
        self._syncing = None
        for path in paths:
            if path not in self._unsynced:
                self._open_files.unpin(path)
        self.synced_end_offset = max(self.synced_end_offset, end_offset)
        self.recovery_point = max(self.recovery_point, recovery_point)

    def recovery_point_stored(self, recovery_point: int) -> None:
        """The checkpoint file durably names `recovery_point`: removes snapshots that no recovery can need now, and
        segments below the log start that waited for it. Raises StorageError."""
        self._stored_recovery_point = recovery_point
        durable = [offset for offset in self._durable_snapshots() if offset <= recovery_point]
        for offset in durable[:-SNAPSHOTS_KEPT]:
            with suppress(StorageError):  # one too many harms nobody, and the next time tries it again
                self._remove_snapshot(offset)
        self._remove_segments()

    def _durable_snapshots(self) -> list[int]:
        # A roll's may not be yet, also at the recovery point: a journal's data sync had moved that there.
        unsynced = {*self._unsynced, *(self._syncing[0] if self._syncing is not None else ())}
        return sorted(offset for offset in self._snapshot_offsets if self._snapshot_path(offset) not in unsynced)

    def _remove_snapshot(self, offset: int) -> None:
        self._open_files.forget(self._snapshot_path(offset))
        self._files.remove(self._snapshot_path(offset))
        self._snapshot_offsets.remove(offset)

    def aborted_checksums(self) -> dict[int, int]:
        """Of the transaction indexes, and of the snapshot at the end. Raises DamagedLog, StorageError."""
        end_offset = self.log_end_offset
        snapshot = self._snapshot_path(end_offset) if end_offset in self._snapshot_offsets else None
        return checksums_left(self._files, self.segments, snapshot, end_offset)

    def close(self, *, clean: bool = True) -> None:
        """Close all files. `clean` first makes everything durable, snapshot and indexes included, and moves the
        recovery point to the log's end (nothing is written when a checkpoint was synced just before).
        A failed log is only closed. Raises StorageError."""
        if clean and self.failure is None and not self.is_at_rest:
            self.sync_now(checkpoint=True)
        for segment in self.segments:
            segment.release()
        self._open_files.forget(f"{self.directory}/{LEADER_EPOCH_FILE}")
        for offset in self._snapshot_offsets:
            self._open_files.forget(self._snapshot_path(offset))

    # Reading

    def read(self, offset: int, size_bytes_max: int, end_offset: int, *, at_least_one: bool = True) -> LogRead | None:
        """Whole batches from the one that holds `offset`, none that reaches `end_offset`, all of one segment.

        At most `size_bytes_max`; `at_least_one` gives the first batch even when it alone is larger. None when nothing
        lies between. Raises OffsetOutOfRange outside [log_start_offset, log_end_offset], and DamagedLog (the log is
        failed from then on) when what lies there is not what was written.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(f"offset {offset} outside {self.log_start_offset}..{self.log_end_offset}")
        if offset >= end_offset:
            return None
        segments = self.segments
        try:
            for index in range(self._segment_index(offset), len(segments)):
                segment = segments[index]
                if segment.base_offset >= end_offset:
                    return None
                found = segment.read(offset, size_bytes_max, end_offset, at_least_one=at_least_one)
                if found is None and segment.end_offset > offset and segment.locate(offset) is not None:
                    return None
                if found is not None:
                    bound = segment.upper_bound_offset(found.end_position)
                    if bound is None:
                        bound = segments[index + 1].base_offset if index + 1 < len(segments) else self.log_end_offset
                    return LogRead(found.data, found.base_offset, found.end_offset, max(bound, found.end_offset))
        except DamagedLog as error:
            self.fail(error)
            raise
        return None

    def all_batches(self) -> Iterator[RecordBatch]:
        """Every batch from the log start on, in order, each checked; nothing may be appended or removed meanwhile.

        Raises DamagedLog (the log is failed from then on) when what lies there is not what was written.
        """
        with self._failing_where_damaged():
            for segment in self.segments:
                if segment.base_offset >= self.log_start_offset:
                    yield from segment.checked()
                elif segment.end_offset > self.log_start_offset:
                    yield from (batch for batch in segment.checked() if batch.end_offset > self.log_start_offset)

    def aborted_between(self, fetch_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions that overlap [fetch_offset, upper_bound_offset), in the order of their markers.

        Raises DamagedLog (the log is failed from then on) when a transaction index cannot be read.
        """
        found: list[AbortedTransaction] = []
        with self._failing_where_damaged():
            for index in range(self._segment_index(fetch_offset), len(self.segments)):
                more, is_complete = collect_aborted(self.segments[index].aborted, fetch_offset, upper_bound_offset)
                found += more
                if is_complete:
                    break
        return found

    @contextmanager
    def _failing_where_damaged(self) -> Iterator[None]:
        try:
            yield
        except DamagedLog as error:
            self.fail(error)
            raise

    def offset_for_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record at or above the log start whose timestamp (ms) is at least `timestamp`; it can be a marker.

        None where there is none. Raises DamagedLog (the log is failed from then on) when what lies there cannot be read.
        """
        with self._failing_where_damaged():
            return first_at_or_after(self.segments, self._open_files, timestamp, self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimestampAndOffset | None:
        """The record with the largest timestamp (the first of several); None without any. Raises DamagedLog as above."""
        kept = [segment for segment in self.segments if segment.end_offset > self.log_start_offset] or [self._active]
        with self._failing_where_damaged():
            best = max(kept, key=lambda segment: (segment.largest_timestamp, -segment.base_offset))
            return of_max_timestamp(best, self._open_files) if best.largest_timestamp >= 0 else None

    # Removing

    def delete_records_before(self, log_start_offset: int) -> list[Segment]:
        """Move the log's start up; segments that end at or below it are removed, never the active one.

        The owner first stores the new start (at most its high watermark) in the log start checkpoint: the files may go
        at any time after. A segment whose producers are in no durable snapshot yet stays until `recovery_point_stored`.
        Raises StorageError, and OffsetOutOfRange above the log's end. Returns what was removed.
        """
        if log_start_offset > self.log_end_offset:
            raise OffsetOutOfRange(f"offset {log_start_offset} above {self.log_end_offset}")
        self.log_start_offset = max(self.log_start_offset, log_start_offset)
        return self._remove_segments()

    def _remove_segments(self) -> list[Segment]:
        # Its producers must be in a synced snapshot that the next recovery would start from.
        covered = min(self.log_start_offset, self.recovery_point)
        durable = self._durable_snapshots()
        stored = max((offset for offset in durable if offset <= self._stored_recovery_point), default=0)
        removable = max(min(stored, self.log_start_offset), *(offset for offset in durable if offset <= covered), 0)
        count = sum(segment.end_offset <= removable for segment in self.segments[:-1])
        removed = self.segments[:count] if not self._is_being_cleaned else []
        if removed:
            del self.segments[:count]
            self.leader_epochs.truncate_start(self.log_start_offset)
            self._leader_epochs_changed = True
            for segment in removed:
                self._forget_unsynced(segment)
                self._deleted += segment.rename(DELETED_SUFFIX)
            self._names_are_unsynced = True
        return removed

    def take_deleted(self) -> list[str]:
        """Paths of files that were given up since the last call; they can be removed at any time (file.delete.delay.ms)."""
        deleted, self._deleted = self._deleted, []
        return deleted

    def remove_deleted(self) -> None:
        """Remove such files now. Raises StorageError."""
        for path in self.take_deleted():
            self._files.remove(path)

    def _forget_unsynced(self, segment: Segment) -> None:
        for path in segment.paths:
            self._unsynced.pop(path, None)

    def segments_past_retention(self, now_ms: int, high_watermark: int) -> list[Segment]:
        """The oldest segments that retention.ms and retention.bytes no longer ask for, wholly below `high_watermark`.

        Delete them with `delete_records_before(past[-1].end_offset)`, after a `roll` where the active one is among them. One
        may be `to_prove`.
        """
        kept = [segment for segment in self.segments if segment.end_offset > self.log_start_offset] or [self._active]
        modified_ms = lambda index: self._files.modified_ms(kept[index].log_path)  # noqa: E731
        asked = partial(count_past_retention, kept, self._config, high_watermark, now_ms, modified_ms)
        count = asked()
        self.to_prove = kept[count] if count < asked(proven_only=False) else None
        return kept[:count]

    # Cleaning

    @property
    def stored_recovery_point(self) -> int:
        """The recovery point that the next start will read: recovery accepts the gaps of a cleaning only below it."""
        return self._stored_recovery_point

    def begin_cleaning(self) -> None:
        """Until `end_cleaning` no segment is removed: the cleaner reads and replaces them."""
        assert not self._is_being_cleaned
        self._is_being_cleaned = True

    def end_cleaning(self) -> None:
        """Segments below the log start may go again, with the next `delete_records_before` or recovery point."""
        self._is_being_cleaned = False

    def replace_segments(self, base_offsets: Sequence[int], segment: Segment) -> None:
        """Put a cleaned segment in the place of these. Their files are given up with `replacement_synced`: removed before,
        they would leave nothing should the new names be lost. Raises StorageError: then `fail`."""
        first = self._segment_index(base_offsets[0])
        old = self.segments[first : first + len(base_offsets)]
        assert [each.base_offset for each in old] == list(base_offsets), "no segment was removed meanwhile"
        assert self._active not in old
        segment.config = self._config
        self.segments[first : first + len(old)] = [segment]
        for each in old:
            self._forget_unsynced(each)
            self._replaced += each.rename(DELETED_SUFFIX)

    def replacement_synced(self) -> None:
        """The names are durable: what was replaced can be removed."""
        self._deleted += self._replaced
        self._replaced = []
