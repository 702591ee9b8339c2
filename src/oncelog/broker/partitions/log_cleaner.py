"""The log cleaner: compacts the dirtiest partition, then the next, and sleeps while there is none (log.cleaner.*).

Reading, filtering and writing happen in the host's worker, which leaves the interpreter to the loop every millisecond;
the loop itself only renames files, a group of segments at a time. A partition whose data cannot be read is left out
until a restart and says so, as in Apache Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import WAY_OUT, Partitions
from oncelog.errors import DamagedLog, StorageError
from oncelog.host.clock import Clock
from oncelog.host.syncer import Syncer
from oncelog.host.worker import Pace, WorkCancelled, Worker
from oncelog.lazy_dataclass import dataclass
from oncelog.log.cleaner import Cleaned, Cleaner, Cleaning, remove_cleaned
from oncelog.log.cleaning_plan import CleaningPlan, CompactionRules, plan_cleaning, sources_of
from oncelog.log.files import DirectoryNames
from oncelog.log.offset_map import keys_max_for
from oncelog.log.open_files import OpenFiles
from oncelog.log.segment_swap import SegmentSwap

_log = logging.getLogger("oncelog.cleaner")

T = TypeVar("T")
LOOKED_AT_TOGETHER = 64  # partitions that are looked at before others have their turn


class _Gone(Exception):
    """The partition was deleted or went offline meanwhile."""


@dataclass
class CleanerFigures:
    """What the metrics show."""

    dirty_ratio_max: float = 0.0
    seconds_last: float = 0.0
    recopied_last: float = 0.0  # share of the bytes read that was written again
    map_utilization_last: float = 0.0


class LogCleaner:
    """Cleans the compacted partitions of one node."""

    def __init__(
        self,
        files: OpenFiles,
        partitions: Partitions,
        worker: Worker,
        syncer: Syncer,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
    ) -> None:
        self._files = files
        self._partitions = partitions
        self._worker = worker
        self._syncer = syncer
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._uncleanable: dict[LocalPartition, str] = {}
        self._lock = asyncio.Lock()
        self.figures = CleanerFigures()

    @property
    def uncleanable_count(self) -> int:
        """Partitions that are left out."""
        return len(self._uncleanable)

    async def run(self) -> None:
        """For ever."""
        while True:
            if not (self._config().log_cleaner_enable and await self.clean_dirtiest()):
                await asyncio.sleep(max(self._config().log_cleaner_backoff_ms, 1) / 1000)

    async def clean_dirtiest(self) -> bool:
        """Clean the partition with the largest dirty share, if any is due; whether one was. One at a time."""
        async with self._lock:
            return await self._clean_dirtiest()

    async def _clean_dirtiest(self) -> bool:
        found = await self._dirtiest()
        if found is None:
            return False
        partition, plan = found
        try:
            if plan.end_offset > partition.log.stored_recovery_point:
                await self._partitions.checkpoint_aside()
                plan = self._plan(partition, partition.log.stored_recovery_point)
                if plan.dirty_size_bytes == 0:
                    return False
            await self._clean(partition, plan)
        except DamagedLog as error:
            self._uncleanable[partition] = str(error)
            _log.critical("partition %s is not cleaned until the next start: %s; %s", partition.name, error, WAY_OUT)
        except StorageError as error:
            _log.error("partition %s could not be cleaned, it is tried again: %s", partition.name, error)
            return False
        except (_Gone, WorkCancelled):
            _log.info("partition %s was being cleaned and is gone", partition.name)
        return True

    # which, and what

    async def _dirtiest(self) -> tuple[LocalPartition, CleaningPlan] | None:
        best: tuple[float, LocalPartition, CleaningPlan] | None = None
        ratio_max = 0.0
        for index, partition in enumerate(self._partitions):
            if index % LOOKED_AT_TOGETHER == LOOKED_AT_TOGETHER - 1:
                await asyncio.sleep(0)
            if not partition.settings.is_compacted or partition.is_offline or len(partition.log.segments) < 2:
                continue
            if partition in self._uncleanable:
                continue
            try:
                plan = self._plan(partition, partition.log.recovery_point)
            except StorageError as error:  # how old its segments are cannot be read: it hinders no other
                partition.go_offline(str(error))
                continue
            ratio_max = max(ratio_max, plan.dirty_ratio)
            if plan.is_due(rules_of(partition)) and (best is None or plan.dirty_ratio > best[0]):
                best = plan.dirty_ratio, partition, plan
        self.figures.dirty_ratio_max = ratio_max
        self._uncleanable = {
            each: why for each, why in self._uncleanable.items() if self._partitions.existing(each.name) is each
        }
        return best[1:] if best is not None else None

    def _plan(self, partition: LocalPartition, recovery_point: int) -> CleaningPlan:
        log = partition.log
        return plan_cleaning(
            log.segments,
            rules_of(partition),
            cleaned_offset=self._partitions.cleaned_offset(partition.name),
            log_start_offset=log.log_start_offset,
            last_stable_offset=partition.rules.last_stable_offset,
            recovery_point=recovery_point,
            now_ms=self._clock.now_ms(),
        )

    # cleaning

    async def _clean(self, partition: LocalPartition, plan: CleaningPlan) -> None:
        config, log, begun = self._config(), partition.log, asyncio.get_running_loop().time()
        if self._partitions.cleaned_offset(partition.name) is None:
            await self._partitions.note_cleaned(partition, plan.first_dirty_offset)
            self._check(partition)
        cleaning = Cleaning(
            directory=log.directory,
            config=log.config,
            sources=sources_of(log.segments, plan.end_offset),
            first_dirty_offset=plan.first_dirty_offset,
            aborted=tuple(log.aborted_between(log.segments[0].base_offset, plan.end_offset)),
            producers={entry.producer_id: entry for entry in partition.rules.snapshot_entries()},
            keys_max=keys_max_for(config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor),
            delete_retention_ms=partition.settings.delete_retention_ms,
            now_ms=self._clock.now_ms(),
        )
        cleaner = Cleaner(self._files.files, cleaning)
        log.begin_cleaning()
        try:
            end_offset = await self._beside(partition, cleaner.read_dirty)
            read = written = 0
            for group in cleaner.groups(end_offset):
                cleaned = await self._beside(partition, partial(cleaner.write, group))
                if cleaned.is_changed:
                    await self._swap(partition, cleaned)
                read += cleaned.source_size_bytes
                written += cleaned.size_bytes
        except StorageError:
            if not partition.is_offline:  # a full disk, or damage: what was half written only takes room
                with contextlib.suppress(StorageError):
                    remove_cleaned(self._files.files, log.directory)
            raise
        finally:
            log.end_cleaning()
        await self._partitions.note_cleaned(partition, end_offset)
        self._tell(partition, plan, end_offset, read, written, cleaner, asyncio.get_running_loop().time() - begun)

    async def _beside(self, partition: LocalPartition, work: Callable[[Callable[[int], None]], T]) -> T:
        """Run in the worker for as long as the partition is there. Raises _Gone, WorkCancelled."""

        def while_there(pace: Pace) -> T:
            def pace_and_look(size_bytes: int) -> None:
                pace(size_bytes)
                if partition.is_offline:
                    raise WorkCancelled

            return work(pace_and_look)

        rate = self._config().log_cleaner_io_max_bytes_per_second
        result = await self._worker.run(while_there, bytes_per_second=rate)
        self._check(partition)
        return result

    async def _swap(self, partition: LocalPartition, cleaned: Cleaned) -> None:
        """`segment_swap` says why in these steps. A failed sync may have lost any name: the partition goes offline."""
        swap = SegmentSwap(self._files, partition.log, cleaned)
        await self._sync_names(partition)
        try:
            swap.announce()
        except StorageError:
            self._abandon(partition, swap)
            raise
        await self._sync_names(partition)
        try:
            swap.replace()
            await self._sync_names(partition)
            swap.finish()
        except StorageError as error:
            partition.go_offline(str(error))
            raise
        await self._sync_names(partition)
        self._partitions.log_starts.gather_deleted(partition)

    @staticmethod
    def _abandon(partition: LocalPartition, swap: SegmentSwap) -> None:
        # A `.swap` that stays is undone by the `.cleaned` beside it, at the next start. Going on would remove that one: the
        # next start would then put a segment of long ago in the middle of what later cleanings have made.
        try:
            swap.abandon()
        except StorageError as error:
            partition.go_offline(str(error))
            raise

    async def _sync_names(self, partition: LocalPartition) -> None:
        try:
            await self._syncer.sync([DirectoryNames(self._files.files, partition.log.directory)])
        except StorageError as error:
            partition.log.fail(error, is_sync=True)  # with names that the log had made, and not synced yet
            partition.go_offline(str(error))
            raise
        self._check(partition)

    def _check(self, partition: LocalPartition) -> None:
        if partition.is_offline or self._partitions.existing(partition.name) is not partition:
            raise _Gone

    def _tell(
        self,
        partition: LocalPartition,
        plan: CleaningPlan,
        end_offset: int,
        read: int,
        written: int,
        cleaner: Cleaner,
        seconds: float,
    ) -> None:
        self.figures.seconds_last = seconds
        self.figures.recopied_last = written / read if read else 0.0
        self.figures.map_utilization_last = cleaner.map_utilization
        self._metrics.add("log_cleanings")
        self._metrics.add("log_cleaner_bytes_removed", read - written)
        _log.info(
            "cleaned %s: dirty from %d, up to %d; %d of %d bytes left, %.2f s",
            partition.name,
            plan.first_dirty_offset,
            end_offset,
            written,
            read,
            seconds,
        )


def rules_of(partition: LocalPartition) -> CompactionRules:
    """The topic's settings as the plan needs them."""
    settings = partition.settings
    return CompactionRules(
        settings.min_cleanable_dirty_ratio,
        settings.min_compaction_lag_ms,
        settings.max_compaction_lag_ms,
        settings.delete_retention_ms,
    )
