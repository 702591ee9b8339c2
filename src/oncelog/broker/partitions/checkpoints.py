"""What the checkpoint files of a data directory say of its partitions: read at a start, replaced whole when something moved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from oncelog.broker.partitions.checkpoint_file import CheckpointFile
from oncelog.broker.partitions.partition_files import NewNames, lost_where_it_fails
from oncelog.errors import StorageError
from oncelog.host.syncer import Syncer
from oncelog.host.worker import Worker
from oncelog.log.checkpoint_files import CLEANED_OFFSETS, HIGH_WATERMARKS, LOG_START_OFFSETS, RECOVERY_POINTS
from oncelog.log.files import Files
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")


class Checkpoints:
    """Offsets by partition. `recovery_points` are those of the start: a log that is open knows its own, newer one. `log_starts`
    and `cleaned` (up to where, next) are kept up to date by whoever moves them. High watermarks are only written, for Kafka.

    A write may sync the data directory: where that fails, `new_names()` are lost with it.
    """

    def __init__(
        self, files: Files, data_directory: str, worker: Worker, syncer: Syncer, new_names: Callable[[], NewNames]
    ) -> None:
        self.recovery_points: dict[TopicPartition, int] = {}
        self.log_starts: dict[TopicPartition, int] = {}
        self.cleaned: dict[TopicPartition, int] = {}
        self._files = {
            name: CheckpointFile(files, data_directory, name)
            for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANED_OFFSETS)
        }
        self._worker, self._syncer, self._new_names = worker, syncer, new_names

    def read(self) -> None:
        """All of them, at a start. Raises StorageError where one is damaged without which nothing can be opened safely."""
        self.recovery_points = self._files[RECOVERY_POINTS].read_needed()
        self.log_starts = self._files[LOG_START_OFFSETS].read_needed()
        try:
            self.cleaned = self._files[CLEANED_OFFSETS].read()
        except StorageError as error:
            _log.warning("%s; every compacted log is cleaned from its start again", error)

    def by_file(self) -> dict[str, dict[TopicPartition, int]]:
        """What was read, by the name of its file."""
        return {
            RECOVERY_POINTS: self.recovery_points,
            LOG_START_OFFSETS: self.log_starts,
            CLEANED_OFFSETS: self.cleaned,
        }

    def forget(self, name: TopicPartition) -> None:
        """A partition that is deleted; nothing is written."""
        for offsets in self.by_file().values():
            offsets.pop(name, None)

    def recovery_points_of(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What the start read of these, where there was something."""
        return {name: self.recovery_points[name] for name in names if name in self.recovery_points}

    def write_now(self, file_name: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Durably replace one, at once; nothing where it says the same. Raises StorageError."""
        with lost_where_it_fails(self._new_names):
            self._files[file_name].write(offsets)

    async def write_aside(self, file_name: str, offsets: Mapping[TopicPartition, int]) -> bool:
        """The same without holding the loop, one at a time; False where a `write_now` came between, which is newer. Raises
        StorageError."""
        with lost_where_it_fails(self._new_names):
            return await self._files[file_name].write_aside(offsets, self._worker, self._syncer)
