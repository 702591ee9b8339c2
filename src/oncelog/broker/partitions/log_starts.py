"""Who moves a log's start up: DeleteRecords, and retention.

A log start is in its checkpoint before any record below it is removed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence

from oncelog.broker.partitions.checkpoints import Checkpoints
from oncelog.broker.partitions.deleted_files import DeletedFiles
from oncelog.broker.partitions.index_mending import IndexMending
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.errors import DamagedLog, StorageError
from oncelog.host.worker import Worker
from oncelog.log import time_proof
from oncelog.log.checkpoint_files import LOG_START_OFFSETS
from oncelog.log.segment import Segment
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")

LOOKED_AT_TOGETHER = 32  # partitions, before others have their turn
INT64_MAX = 2**63 - 1


class LogStarts:
    """Of one node's partitions."""

    def __init__(
        self, checkpoints: Checkpoints, deleted: DeletedFiles, worker: Worker, index_mending: IndexMending
    ) -> None:
        self._index_mending = index_mending
        self._checkpoints = checkpoints
        self._worker = worker
        self._proving: TopicPartition | None = None
        self._deleted = deleted
        self._retention_due: dict[TopicPartition, tuple[int, int]] = {}  # log end when it was looked at, when again

    def settings_changed(self) -> None:
        """Retention may ask for something else now."""
        self._retention_due.clear()

    def forget(self, name: TopicPartition) -> None:
        """A partition that is deleted."""
        self._retention_due.pop(name, None)
        if name == self._proving:
            self._proving = None

    def delete_records(self, partition: LocalPartition, log_start_offset: int) -> None:
        """First its checkpoint, then the files. Raises StorageError."""
        if log_start_offset > partition.rules.log_start_offset:
            self._checkpoints.log_starts[partition.name] = log_start_offset
            self._checkpoints.write_now(LOG_START_OFFSETS, self._checkpoints.log_starts)
            self._move_start(partition, log_start_offset)

    def _move_start(self, partition: LocalPartition, log_start_offset: int) -> None:
        partition.delete_records_to(log_start_offset)
        self.gather_deleted(partition)

    def gather_deleted(self, partition: LocalPartition) -> None:
        """Have the files removed that the log has given up."""
        self._deleted.add(partition.log.take_deleted(), partition.settings.file_delete_delay_ms)

    async def apply_retention(self, partitions: Iterable[LocalPartition], now_ms: int) -> int:
        """Give up segments that retention no longer asks for, a few partitions at a time; how many. Raises StorageError."""
        count = 0
        partitions = tuple(partitions)
        for first in range(0, len(partitions), LOOKED_AT_TOGETHER):
            looked_at = partitions[first : first + LOOKED_AT_TOGETHER]
            for partition in looked_at:
                if self._is_looked_at(partition, now_ms) and partition.settings.retention_ms >= 0:
                    await self._index_mending.mend(partition, now_ms - partition.settings.retention_ms)
            count += self._retain(looked_at, now_ms)
            for partition in looked_at:
                while await self._prove(partition):
                    count += self._retain((partition,), now_ms)
            await asyncio.sleep(0)
        return count

    async def _prove(self, partition: LocalPartition) -> bool:
        """A segment is too old by what its time index says: do its batches say so too? True where that is known now."""
        if partition.is_offline or (segment := partition.log.to_prove) is None or segment.times.is_unprovable:
            return False
        path, end_position = segment.log_path, segment.times.unproven_end_position
        self._proving = partition.name
        try:
            largest_timestamp = await self._largest_timestamp(segment)
            is_here = self._proving is not None and segment in partition.log.segments and segment.log_path == path
            if not is_here or segment.times.unproven_end_position != end_position:
                return False  # deleted, cleaned or cut meanwhile: the next look tells
            segment.note_proof(largest_timestamp)
            await self._index_mending.mend_segment(partition, segment)
            if self._proving is None or partition.is_offline or segment not in partition.log.segments:
                return False
            _ = segment.largest_timestamp  # a small one is built here
        except DamagedLog as error:
            segment.times.damaged(end_position)
            _log.warning(
                "%s: %s: %s; how old the segment is cannot be told, retention.ms does not delete it (docs/runbook.md, a damaged "
                "partition)",
                *(partition.name, path, error),
            )
        except StorageError as error:
            partition.go_offline(str(error))
        finally:
            self._proving = None
        return segment.is_proven

    async def _largest_timestamp(self, segment: Segment) -> int:
        """By the batches that its process did not write. Raises DamagedLog, StorageError."""
        end_position, last_offset_max = segment.times.unproven_end_position, segment.end_offset - 1
        file = segment.opened()
        try:
            if end_position <= time_proof.ALL_SIZE_BYTES:
                return time_proof.largest_timestamp_in(file, end_position, last_offset_max)
            return await self._worker.run(
                lambda pace: time_proof.largest_timestamp_in(file, end_position, last_offset_max, pace)
            )
        finally:
            file.close()

    def _retain(self, partitions: Sequence[LocalPartition], now_ms: int) -> int:
        moves: list[tuple[LocalPartition, int]] = []
        count = 0
        for partition in partitions:
            if not self._is_looked_at(partition, now_ms):
                continue
            try:
                past = self._past_retention(partition, now_ms)
            except StorageError as error:  # it hinders no other
                partition.go_offline(str(error))
                continue
            if past:
                moves.append((partition, past[-1].end_offset))
                count += len(past)
        if moves:
            self._checkpoints.log_starts |= {partition.name: offset for partition, offset in moves}
            self._checkpoints.write_now(LOG_START_OFFSETS, self._checkpoints.log_starts)
        for partition, offset in moves:
            self._move_start(partition, offset)
        return count

    def _past_retention(self, partition: LocalPartition, now_ms: int) -> Sequence[Segment]:
        log = partition.log
        past = log.segments_past_retention(now_ms, partition.rules.high_watermark)
        if not past:
            self._note_retention(partition)
            return past
        _log.info("%s: retention gives up %d segments below offset %d", partition.name, len(past), past[-1].end_offset)
        if past[-1] is log.segments[-1]:
            log.roll()
        return past

    def _is_looked_at(self, partition: LocalPartition, now_ms: int) -> bool:
        is_retained = partition.settings.is_deleted_by_retention and not partition.is_offline
        return is_retained and not self._is_too_early(partition, now_ms)

    def _is_too_early(self, partition: LocalPartition, now_ms: int) -> bool:
        # Nothing was appended, and its oldest segment is not old enough yet: an idle partition costs a look at a dict.
        looked_at = self._retention_due.get(partition.name)
        return looked_at is not None and looked_at[0] == partition.log_end_offset and now_ms < looked_at[1]

    def _note_retention(self, partition: LocalPartition) -> None:
        retention_ms = partition.settings.retention_ms
        oldest = partition.log.segments[0].largest_timestamp if retention_ms >= 0 else 0
        if oldest >= 0 and partition.rules.high_watermark == partition.log_end_offset:
            due_ms = oldest + retention_ms if retention_ms >= 0 else INT64_MAX
            self._retention_due[partition.name] = (partition.log_end_offset, due_ms)
