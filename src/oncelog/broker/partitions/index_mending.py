"""Builds the indexes of large segments anew beside the loop, before a lookup by time or retention needs them.

A segment at a time, of all partitions: each is read whole. Who waits goes on when its own is done, when its partition is
offline, and with the disk's error; one whose client has gone ends the work that it waits for, and whoever is next begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.errors import StorageError
from oncelog.host.worker import Worker
from oncelog.log.index_mending import AT_ONCE_SIZE_BYTES, segment_to_mend
from oncelog.log.segment import Segment
from oncelog.types import TopicPartition


class IndexMending:
    """Of one node's partitions."""

    def __init__(self, worker: Worker, existing: Callable[[TopicPartition], LocalPartition | None]) -> None:
        self._worker = worker
        self._existing = existing
        self._turn = asyncio.Lock()

    @staticmethod
    def is_due(partition: LocalPartition, timestamp: int | None) -> bool:
        """Whether a lookup (see `segment_to_mend`) would hold the loop. Raises StorageError."""
        log = partition.log
        return segment_to_mend(log.segments, log.log_start_offset, timestamp) is not None

    async def mend(self, partition: LocalPartition, timestamp: int | None) -> None:
        """Until a lookup holds the loop no more, or the partition is offline or deleted."""
        while self._is_served(partition):
            try:
                log = partition.log
                segment = segment_to_mend(log.segments, log.log_start_offset, timestamp)
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
