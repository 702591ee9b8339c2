"""Files of segments that were given up (`.deleted`), removed some time later (file.delete.delay.ms), beside the loop;
and the directories of deleted topics. What a stop leaves of them, or the disk refuses until then, the next start removes.
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

REMOVE_AGAIN_S = 60.0  # what the disk refused to remove, for as long as it does


class DeletedFiles:
    """Give it paths with `add`; `run` removes them when they are due."""

    def __init__(self, files: Files, worker: Worker) -> None:
        self._files = files
        self._worker = worker
        self._due: list[tuple[float, str]] = []
        self._directories: set[str] = set()
        self._refused: set[str] = set()  # what is tried again, and was said
        self._added = asyncio.Event()

    def __len__(self) -> int:
        return len(self._due)

    def add(self, paths: Sequence[str], delay_ms: int) -> None:
        """Remove these after `delay_ms`."""
        self._add(paths, delay_ms / 1000)

    def add_directories(self, paths: Sequence[str]) -> None:
        """Remove these with all that is in them, soon."""
        self._directories |= set(paths)
        self.add(paths, 0)

    def _add(self, paths: Sequence[str], delay_s: float) -> None:
        due = asyncio.get_running_loop().time() + delay_s
        for path in paths:
            heappush(self._due, (due, path))
        if paths:
            self._added.set()

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
            self._removed(paths, await self._remove(paths))

    async def _remove(self, paths: list[str]) -> dict[str, StorageError]:
        """Try each; what the disk refused, and why."""
        directories = self._directories.intersection(paths)

        def remove(pace: Pace) -> dict[str, StorageError]:
            refused = {}
            for path in paths:
                try:
                    (self._files.remove_directory if path in directories else self._files.remove)(path)
                except StorageError as error:
                    refused[path] = error
                pace(0)
            return refused

        return await self._worker.run(remove)

    def _removed(self, paths: list[str], refused: dict[str, StorageError]) -> None:
        had_refused = bool(self._refused)
        news = [error for path, error in refused.items() if path not in self._refused]
        self._refused = self._refused.difference(paths) | refused.keys()
        self._directories.difference_update(path for path in paths if path not in refused)
        if news:
            _log.error(
                "%d files that were given up could not be removed, tried again every %d s and by the next start: %s",
                len(news),
                REMOVE_AGAIN_S,
                news[0],
            )
        if had_refused and not self._refused:
            _log.warning("the files that were given up could be removed now")
        self._add(tuple(refused), REMOVE_AGAIN_S)
