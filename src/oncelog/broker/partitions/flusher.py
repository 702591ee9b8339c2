"""Group commit: the one object that decides when what is synced.

Whoever appended and waits calls `want`; while one sync runs, everything that comes is collected for the next, and all
their files go into one call of the syncer. After it: high watermark, last stable offset, waiting fetches, replies. A sync
that failed takes its partitions offline; it is never tried again, since the page cache may have lost the data (a second
fsync would say all is well). With `flush.policy` interval or os a commit does not wait for the disk.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from oncelog.broker.metrics.histogram import COUNTS, Histogram
from oncelog.errors import StorageError
from oncelog.host.syncer import Syncer
from oncelog.log.files import Syncable
from oncelog.log.journal import Journal

_log = logging.getLogger("oncelog.flusher")

LEFTOVER_INTERVAL_S = 1.0  # what nobody waits for (Complete records) is synced at the latest after this


class Committable(Protocol):
    """A partition as the flusher sees it."""

    @property
    def is_offline(self) -> bool:
        """Whether nothing may be synced any more."""
        ...

    @property
    def is_gone(self) -> bool:
        """Whether its topic was deleted."""
        ...

    @property
    def log_end_offset(self) -> int:
        """Where the log ends now."""
        ...

    @property
    def end_offset_to_sync(self) -> int:
        """Up to where `files_to_sync` reaches now: less than the log's end where the partition is offline."""
        ...

    @property
    def waiting_commit_count(self) -> int:
        """How many wait for a commit."""
        ...

    def files_to_sync(self) -> Sequence[Syncable]:
        """What a sync of the log has to sync. Raises StorageError."""
        ...

    def synced(self, end_offset: int) -> None:
        """What is below `end_offset` is on disk."""
        ...

    def committed(self, end_offset: int) -> None:
        """What is below `end_offset` counts as committed."""
        ...

    def data_synced(self, end_offset: int) -> None:
        """As `synced`, where the journal has committed it before."""
        ...

    def go_offline(self, reason: str, *, is_sync: bool = False) -> None:
        """The sync failed; `is_sync`: it was of other files than `files_to_sync` gave."""
        ...


class Commits(Protocol):
    """Who commits what was appended: `Flusher`, or `JournalFlusher` with a journal between."""

    journal: Journal | None

    def appended(self, partition: Any) -> None:
        """Something was appended; nobody waits for it (yet)."""
        ...

    def want(self, partition: Any) -> None:
        """Somebody waits for the commit of what `partition` holds now."""
        ...

    def sync_failed(self, files: Sequence[Syncable], error: StorageError) -> None:
        """A sync that somebody else asked for has failed: no later one of these files tells the truth."""
        ...

    async def run(self) -> None:
        """For ever: commit what is wanted, as soon as it is wanted."""
        ...

    async def run_leftovers(self) -> None:
        """For ever: what nobody waits for."""
        ...

    async def sync_all(self) -> None:
        """Sync everything that is not synced (shutdown)."""
        ...

    async def end(self) -> None:
        """Nothing appends any more, and the logs are about to be closed."""
        ...


class Flusher:
    """Syncs partitions, many in one call. `policy` is `flush.policy`: fsync, interval or os."""

    def __init__(self, syncer: Syncer, *, policy: str, interval_ms: int) -> None:
        self.journal: Journal | None = None
        self._syncer = syncer
        self._waits_for_sync = policy == "fsync"
        self._interval_s = {"fsync": LEFTOVER_INTERVAL_S, "interval": interval_ms / 1000}.get(policy)
        self._wanted: dict[Committable, None] = {}
        self._dirty: dict[Committable, None] = {}
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self.sync_count = 0
        self.commits = Histogram(COUNTS)  # appends that waited for each sync

    def appended(self, partition: Committable) -> None:
        """Something was appended; nobody waits for it (yet)."""
        self._dirty[partition] = None

    def sync_failed(self, files: Sequence[Syncable], error: StorageError) -> None:
        """Nothing rests on files that others have synced."""

    def want(self, partition: Committable) -> None:
        """Somebody waits for the commit of what `partition` holds now."""
        self._wanted[partition] = None
        self._wake.set()

    async def run(self) -> None:
        """For ever: commit what is wanted, as soon as it is wanted."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            wanted = list(self._wanted)
            self._wanted.clear()
            if self._waits_for_sync:
                await self.sync(wanted)
            else:
                for partition in wanted:
                    partition.committed(partition.log_end_offset)

    async def run_leftovers(self) -> None:
        """For ever: sync what was appended and nobody waits for."""
        while self._interval_s is not None:
            await asyncio.sleep(self._interval_s)
            await self.sync(list(self._dirty))

    async def sync(self, partitions: list[Committable]) -> None:
        """Sync these partitions in one call and commit what they held when it began."""
        async with self._lock:
            begun: list[tuple[Committable, int]] = []
            files: list[Syncable] = []
            for each in partitions:
                self._dirty.pop(each, None)
                if not each.is_offline:
                    try:
                        files += each.files_to_sync()
                        begun.append((each, each.log_end_offset))
                    except StorageError as error:
                        each.go_offline(str(error))
            try:
                if files:
                    self.sync_count += 1
                    self.commits.observe(sum(each.waiting_commit_count for each, _ in begun))
                    await self._syncer.sync(list(dict.fromkeys(files)))
            except StorageError as error:
                _log.critical("sync failed, taking %d partitions offline: %s", len(begun), error)
                for each, _ in begun:
                    each.go_offline(str(error))
                return
            for each, end_offset in begun:
                each.synced(end_offset)

    async def sync_all(self) -> None:
        """Sync everything that is not synced (shutdown)."""
        await self.sync(list(self._dirty))

    async def end(self) -> None:
        """Each log has its own recovery point: there is nothing to put in order."""
