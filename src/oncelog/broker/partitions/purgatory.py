"""Waiting fetches: each waits until there is enough to read, or its time is over.

A waiting fetch watches its partitions; high watermark, last stable offset and log start wake it, in the loop's step after
the sync. It holds no records meanwhile: they are read when it is answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from oncelog.broker.partitions.local_partition import LocalPartition, Watcher


class Watched(Protocol):
    """What has records some day."""

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of every change until `unwatch`."""
        ...

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""
        ...


class ParkedFetch:
    """Waits until `is_satisfied()` after a change of one of the partitions, or the time is over."""

    def __init__(self, partitions: Iterable[Watched], is_satisfied: Callable[[], bool]) -> None:
        self._partitions = tuple(partitions)
        self._is_satisfied = is_satisfied
        self._changed = asyncio.Event()

    def partition_changed(self, partition: LocalPartition | None) -> None:
        """Something moved: look again."""
        del partition
        self._changed.set()

    async def wait(self, timeout_s: float) -> None:
        """Return when the fetch can be answered well, or must be answered now."""
        for partition in self._partitions:
            partition.watch(self)
        try:
            async with asyncio.timeout(timeout_s):
                while not self._is_satisfied():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return
        finally:
            for partition in self._partitions:
                partition.unwatch(self)
