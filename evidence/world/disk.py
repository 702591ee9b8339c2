"""One machine's disk and the doors a process has to it.

The disk outlives processes. A door belongs to one process and refuses once that process is dead, so nothing that a killed
broker left behind can still be written. A power cut in the middle of an operation kills the process at once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from evidence.world.files import Fault, Keep, PowerCut, SimFiles
from evidence.world.loop import Process
from oncelog.errors import StorageError
from oncelog.log.failed_sync import MARKER
from oncelog.log.files import DirectoryNames


class Disk(SimFiles):
    """A disk that says when the power went."""

    def __init__(self, seed: int | str) -> None:
        super().__init__(seed)
        self.on_power_cut: Callable[[], None] | None = None
        self.sync_pause_seconds = 0.0  # how much longer every sync takes now
        self.has_failed = False  # an operation failed in this life of the broker
        self.has_untold_failure = False  # the page cache holds what is not on the disk, and nothing says so

    def operation(self, what: str, path: str) -> Fault | None:
        was_off = self.is_off
        fault = super().operation(what, path)
        if self.is_off and not was_off and self.on_power_cut is not None:
            self.on_power_cut()
        self.has_failed |= fault is not None
        self.has_untold_failure |= fault is not None and path.endswith(f"/{MARKER}")
        return fault

    def read(self, what: str, path: str) -> None:
        try:
            super().read(what, path)
        except StorageError:
            self.has_failed = True
            raise

    def crash(self, keep: Keep = Keep.RANDOM) -> None:
        super().crash(keep)
        self.has_untold_failure = False

    def kill(self) -> None:
        super().kill()
        self.has_failed = False

    def copy_of_synced(self, seed: int | str) -> Disk:
        """What would be left if the power went now and nothing that was not synced survived."""
        copy = Disk(seed)
        names = {path: i for path, i in self._durable_names.items() if self._is_reachable(path, self._durable_names)}
        content = {path: bytes(i.durable) for path, i in names.items() if i is not None}
        for path in sorted(path for path, inode in names.items() if inode is None and path):
            copy.make_directory(path)
        for path, data in sorted(content.items()):
            file = copy.open(path)
            file.write_at(0, data)
            file.sync()
        for path in [path for path, inode in copy._names.items() if inode is None]:
            copy.sync_directory(path)
        return copy


class DiskDoor:
    """`oncelog.log.files.Files` of one process."""

    def __init__(self, disk: SimFiles, process: Process) -> None:
        self._disk, self._process = disk, process

    def __getattr__(self, name: str) -> Any:
        if self._process.is_dead:
            raise PowerCut(f"{self._process.name} is dead and wants to {name}")
        return getattr(self._disk, name)


class DelayedSyncer:
    """Syncs each file at its own moment, as a worker thread would; other callbacks run in between."""

    def __init__(self, seed: int | str, delay_mean: float = 0.002, disk: Disk | None = None) -> None:
        self.random = random.Random(f"syncer {seed}")
        self._disk = disk
        self.delay_mean = delay_mean
        self.under_way_count = 0
        self.has_untold_failure = False  # a sync of names failed, and whoever asked for it and others has not heard yet

    async def sync(self, files: Sequence[Any]) -> None:
        """Sync all; raises the first error after all were tried."""
        self.under_way_count += 1
        try:
            await self._sync(files)
        finally:
            self.under_way_count -= 1

    async def _sync(self, files: Sequence[Any]) -> None:
        failed = None
        for file in files:
            await asyncio.sleep(self.random.expovariate(1 / self.delay_mean))
            if self._disk is not None and self._disk.sync_pause_seconds:
                await asyncio.sleep(self._disk.sync_pause_seconds)
            try:
                file.sync()
            except StorageError as error:
                failed = failed or error
                self.has_untold_failure |= isinstance(file, DirectoryNames)
        if failed:
            self.has_untold_failure = False
            raise failed
