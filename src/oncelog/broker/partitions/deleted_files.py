"""Files of segments that were given up (`.deleted`), removed some time later (file.delete.delay.ms), beside the loop;
and the directories of deleted topics. What a stop leaves of them, the next start removes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from heapq import heappop, heappush

from oncelog.errors import StorageError
from oncelog.host.worker import Pace, Worker
from oncelog.log.files import Files

_log = logging.getLogger("oncelog.log")


class DeletedFiles:
    """Give it paths with `add`; `run` removes them when they are due."""

    def __init__(self, files: Files, worker: Worker) -> None:
        self._files = files
        self._worker = worker
        self._due: list[tuple[float, str]] = []
        self._directories: set[str] = set()
        self._added = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these after `delay_ms`."""
        due = asyncio.get_running_loop().time() + delay_ms / 1000
        for path in paths:
            heappush(self._due, (due, path))
        if paths:
            self._added.set()

    def add_directories(self, paths: Sequence[str]) -> None:
        """Remove these with all that is in them, soon."""
        self._directories |= set(paths)
        self.add(paths, 0)

    async def run(self) -> None:
        """For ever: remove what is due."""
        loop = asyncio.get_running_loop()
        while True:
            self._added.clear()
            if not self._due:
                await self._added.wait()
                continue
            wait_s = self._due[0][0] - loop.time()
            if wait_s > 0:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(wait_s):
                        await self._added.wait()
                continue
            paths = []
            while self._due and self._due[0][0] <= loop.time():
                paths.append(heappop(self._due)[1])
            await self._remove(paths)

    async def _remove(self, paths: list[str]) -> None:
        def remove(pace: Pace) -> None:
            for path in paths:
                (self._files.remove_directory if path in self._directories else self._files.remove)(path)
                self._directories.discard(path)
                pace(0)

        try:
            await self._worker.run(remove)
        except StorageError as error:
            _log.error("files that were given up could not be removed: %s", error)
