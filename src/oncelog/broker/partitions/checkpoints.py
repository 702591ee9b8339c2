"""What the checkpoint files of a data directory say of its partitions: read at a start, replaced whole when something moved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterable, Mapping
from typing import NamedTuple

from oncelog.broker.partitions.checkpoint_file import CheckpointFile, DamagedCheckpoint
from oncelog.broker.partitions.partition_files import NewNames, lost_where_it_fails
from oncelog.errors import StorageError
from oncelog.host.syncer import Syncer
from oncelog.host.worker import Worker
from oncelog.log.checkpoint_files import (
    CLEANED_OFFSETS,
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OFFLINE_CUTS,
    OFFLINE_ENDS,
    RECOVERY_POINTS,
)
from oncelog.log.files import Files
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")


ALL = (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANED_OFFSETS, OFFLINE_ENDS, OFFLINE_CUTS)


class JournalEnd(NamedTuple):
    """Up to which offset a log is whole by its journal, and whether it is cut there."""

    end_offset: int
    is_cut: bool


NO_JOURNAL = JournalEnd(0, False)
# Of one that is not there.
CONSEQUENCES = {
    RECOVERY_POINTS: "after a crash every log is checked from its start, and damage in old data is taken for a torn end",
    LOG_START_OFFSETS: "records that were deleted may be there again",
    OFFLINE_ENDS: "of a partition that stays offline what lies behind its damage may be cut",
    OFFLINE_CUTS: "a partition that stays offline may keep what all others lost in a power cut",
}
WRITTEN_BY_EVERY_START = (RECOVERY_POINTS, LOG_START_OFFSETS)  # the first one too, before any partition is made


class Checkpoints:
    """Offsets by partition. `recovery_points` are those of the start: a log that is open knows its own, newer one. `log_starts`
    and `cleaned` (up to where, next) are kept up to date by whoever moves them. High watermarks are only written, for Kafka.
    `offline_ends` are of damaged partitions: up to where the journal had them that a start put back and gave up. Their recovery
    points stay where they were, since their indexes go no further. In `offline_cuts` are those of a start after a power cut.

    A write may sync the data directory: where that fails, `new_names()` are lost with it.
    """

    def __init__(
        self, files: Files, data_directory: str, worker: Worker, syncer: Syncer, new_names: Callable[[], NewNames]
    ) -> None:
        self._is_read = False
        self.recovery_points: dict[TopicPartition, int] = {}
        self.metadata_end_offset = 0  # up to where the cluster's metadata was synced, noted beside the recovery points
        self.log_starts: dict[TopicPartition, int] = {}
        self.has_log_starts = False  # whether the start found the file: without it nobody knows where logs begin
        self.cleaned: dict[TopicPartition, int] = {}
        self.offline_ends: dict[TopicPartition, int] = {}
        self.offline_cuts: dict[TopicPartition, int] = {}
        self._files = {name: CheckpointFile(files, data_directory, name) for name in ALL}
        self._worker, self._syncer, self._new_names = worker, syncer, new_names

    def read(self) -> None:
        """All of them, once, at a start. Raises StorageError where one is damaged that is needed."""
        if self._is_read:
            return
        self.recovery_points = self._read_needed(RECOVERY_POINTS)
        self.metadata_end_offset = self.recovery_points.pop(CLUSTER_METADATA, 0)  # it is not of a partition here
        self.log_starts = self._read_needed(LOG_START_OFFSETS)
        if CLUSTER_METADATA in self.log_starts:
            raise StorageError(
                f"{self._files[LOG_START_OFFSETS].path} is another checkpoint (it has a line of {CLUSTER_METADATA.topic}):"
                f" restore it; without it, {CONSEQUENCES[LOG_START_OFFSETS]}"
            )
        self.has_log_starts = self._files[LOG_START_OFFSETS].exists()
        self.offline_ends = self._read_needed(OFFLINE_ENDS)
        self.offline_cuts = self._read_needed(OFFLINE_CUTS)
        if self._read_spare(HIGH_WATERMARKS) is None:
            _log.info("%s is damaged, and is written anew: only Apache Kafka reads it", HIGH_WATERMARKS)
        cleaned = self._read_spare(CLEANED_OFFSETS)
        if cleaned is None:
            told = "%s is damaged; every compacted log is cleaned from its start again"
            _log.warning(told, self._files[CLEANED_OFFSETS].path)
        self.cleaned = cleaned or {}
        self.cleaned.pop(CLUSTER_METADATA, None)
        self._is_read = True

    def _read_spare(self, name: str) -> dict[TopicPartition, int] | None:
        """One that a start can do without; None where it is damaged. A directory in its place would fail the stop that writes it
        anew, and so ends the start. Raises StorageError."""
        try:
            return self._files[name].read()
        except DamagedCheckpoint:
            return None
        except StorageError as error:
            raise StorageError(f"{error}: move it away and start again, it is written anew") from error

    def _read_needed(self, name: str) -> dict[TopicPartition, int]:
        try:
            return self._files[name].read()
        except StorageError as error:
            raise StorageError(f"{error}: restore it; without it, {CONSEQUENCES[name]}") from error

    def tell_missing(self) -> None:
        """Of a directory with partitions: a checkpoint that somebody removed."""
        for name in WRITTEN_BY_EVERY_START:
            if not self._files[name].exists():
                told = "%s is missing: %s; stop the broker and restore it, if there is a copy"
                _log.warning(told, name, CONSEQUENCES[name])

    def by_file(self) -> dict[str, dict[TopicPartition, int]]:
        """What was read, by the name of its file."""
        return {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            CLEANED_OFFSETS: self.cleaned,
            OFFLINE_ENDS: self.offline_ends,
            OFFLINE_CUTS: self.offline_cuts,
        }

    def forget(self, name: TopicPartition) -> None:
        """A partition that is deleted; nothing is written."""
        for offsets in self.by_file().values():
            offsets.pop(name, None)

    def recovery_points_of(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the start read of these, where there was something."""
        return {name: self.recovery_points[name] for name in names if name in self.recovery_points}

    def journal_end(self, name: TopicPartition, end_offset: int, *, is_cut: bool) -> JournalEnd:
        """Where the journal ends that is put back now. One that stayed offline is treated as the others were at that start."""
        if (offline_end := self.offline_ends.get(name)) is None:
            return JournalEnd(end_offset, is_cut)
        return JournalEnd(offline_end, name in self.offline_cuts)

    def stays_offline(self, name: TopicPartition, journal_end: JournalEnd) -> None:
        """A damaged partition, and how far the journal has it that is given up now. Nothing is written."""
        end_offset = max(journal_end.end_offset, self.recovery_points.get(name, 0))
        if name not in self.offline_ends and journal_end.is_cut:
            self.offline_cuts[name] = end_offset
        self.offline_ends.setdefault(name, end_offset)

    def store_offline(self, offline: Container[TopicPartition]) -> None:
        """Durably; nothing of a partition that was opened: it is written to again. Behind the recovery points, before the journal
        is given up. Raises StorageError."""
        for file_name, offsets in ((OFFLINE_ENDS, self.offline_ends), (OFFLINE_CUTS, self.offline_cuts)):
            for name in [each for each in offsets if each not in offline]:
                del offsets[name]
            # One that is there is written whatever it says: a failed sync of the start before may have left an older one.
            if offsets or self._files[file_name].exists():
                self.write_now(file_name, offsets)

    def synced_ends(self) -> dict[TopicPartition, int]:
        """Up to where each partition was synced, so far as the start knows."""
        ends = dict(self.recovery_points)
        for name, end_offset in self.offline_ends.items():
            ends[name] = max(ends.get(name, 0), end_offset)
        return ends

    def write_now(self, file_name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Durably replace one, at once; nothing where it says the same. Raises StorageError."""
        with lost_where_it_fails(self._new_names):
            self._files[file_name].write(offsets)

    async def write_aside(self, file_name: str, offsets: Mapping[TopicPartition, int]) -> bool:
        """The same without holding the loop, one at a time; False where a `write_now` came between, which is newer. Raises
        StorageError."""
        with lost_where_it_fails(self._new_names):
            return await self._files[file_name].write_aside(offsets, self._worker, self._syncer)
