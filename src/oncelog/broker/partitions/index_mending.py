"""Builds the indexes of large segments anew beside the loop, before a lookup by time or retention needs them, and where a read
finds that they are missing or wrong.

A segment at a time, of all partitions: each is read whole. Who waits goes on when its own is done, when its partition is
offline, and with the disk's error; one whose client has gone ends the work that it waits for, and whoever is next begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.errors import StorageError
from oncelog.host.worker import Worker
from oncelog.log.index_mending import AT_ONCE_SIZE_BYTES, segment_to_mend
from oncelog.log.open_files import OpenFiles, WholeReadDue
from oncelog.log.segment import Segment
from oncelog.types import TopicPartition

T = TypeVar("T")


class MendingDue(Exception):
    """A segment of `partition` must be read whole before what was asked can be answered: `IndexMending.when_mended`."""

    def __init__(self, partition: LocalPartition, log_path: str) -> None:
        super().__init__(log_path)
        self.partition, self.log_path = partition, log_path


class IndexMending:
    """Of one node's partitions."""

    def __init__(
        self, worker: Worker, existing: Callable[[TopicPartition], LocalPartition | None], files: OpenFiles
    ) -> None:
        self._worker = worker
        self._files = files
        self._existing = existing
        self._turn = asyncio.Lock()

    def at_once(self, partition: LocalPartition, look: Callable[[], T]) -> T:
        """What `look` gives, which reads no large segment whole. Raises MendingDue where it has to, and what `look` raises.

        The last one is read all the same: what is appended to it would be missing in indexes that another thread builds.
        """
        self._files.whole_size_bytes_max = AT_ONCE_SIZE_BYTES
        try:
            return look()
        except WholeReadDue as due:
            if due.log_path != partition.log.segments[-1].log_path:
                raise MendingDue(partition, due.log_path) from None
        finally:
            self._files.whole_size_bytes_max = None
        return look()

    def look_up(self, partition: LocalPartition, timestamp: int | None, look: Callable[[], T]) -> T:
        """The same for a lookup by time (see `segment_to_mend`). Raises MendingDue, StorageError."""
        segment = self._due(partition, timestamp)
        if segment is not None:
            raise MendingDue(partition, segment.log_path)
        return self.at_once(partition, look)

    def _due(self, partition: LocalPartition, timestamp: int | None) -> Segment | None:
        log = partition.log
        try:
            return self.at_once(partition, lambda: segment_to_mend(log.segments, log.log_start_offset, timestamp))
        except MendingDue as due:
            return next(each for each in log.segments if each.log_path == due.log_path)

    async def when_mended(
        self, due: MendingDue, look: Callable[[], T], given_up: Callable[[TopicPartition], object]
    ) -> T:
        """What `look` gives once nothing has to be read whole for it any more. `given_up`: of this partition nothing can be
        read, as it is offline or deleted by now."""
        while True:  # each time one segment is mended, or one partition given up
            if not await self._mend_due(due):
                given_up(due.partition.name)
            try:
                return look()
            except MendingDue as more:
                due = more

    async def _mend_due(self, due: MendingDue) -> bool:
        partition = due.partition
        segment = next((each for each in partition.log.segments if each.log_path == due.log_path), None)
        if segment is not None:  # else it was removed meanwhile
            await self.mend_segment(partition, segment)
        return self._is_served(partition)

    async def mend(self, partition: LocalPartition, timestamp: int | None) -> None:
        """Until a lookup holds the loop no more, or the partition is offline or deleted."""
        while self._is_served(partition):
            try:
                segment = self._due(partition, timestamp)
            except StorageError as error:
                partition.go_offline(str(error))
                return
            if segment is None:
                return
            await self._mend(partition, segment)

    async def mend_segment(self, partition: LocalPartition, segment: Segment) -> None:
        """The same for one that is known to be wrong."""
        if segment.size_bytes > AT_ONCE_SIZE_BYTES and segment is not partition.log.segments[-1]:
            await self._mend(partition, segment)

    async def _mend(self, partition: LocalPartition, segment: Segment) -> None:
        async with self._turn:
            # Somebody else may have done it, or taken it away.
            problem = segment.known_problem
            if problem is None or not self._is_there(partition, segment):
                return
            log_path, copy = segment.log_path, segment.to_build()
            try:
                await self._worker.run(partial(copy.build_indexes, problem))
            except StorageError as error:
                if self._is_there(partition, segment):
                    partition.go_offline(str(error))
                return
            finally:
                copy.release()
            is_same = segment.size_bytes == copy.size_bytes and segment.log_path == log_path
            if is_same and self._is_there(partition, segment):
                segment.take_indexes(copy)

    def _is_there(self, partition: LocalPartition, segment: Segment) -> bool:
        return self._is_served(partition) and segment in partition.log.segments

    def _is_served(self, partition: LocalPartition) -> bool:
        return not partition.is_offline and self._existing(partition.name) is partition
