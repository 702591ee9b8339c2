"""Group commit: the one object that decides when what is synced.

Whoever appended and waits calls `want`; while one sync runs, everything that comes is collected for the next, and all
their files go into one call of the syncer. After it: high watermark, last stable offset, waiting fetches, replies. A sync
that failed takes its partitions offline; it is never tried again, since the page cache may have lost the data (a second
fsync would say all is well). With `flush.policy` interval or os a commit does not wait for the disk, only for what is written
later (`log/later_writes.py`): a thread does that, for each partition by itself.
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
from oncelog.log.later_writes import Writes

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

    @property
    def has_later_writes(self) -> bool:
        """Whether something must be written before anything else counts as committed."""
        ...

    def begin_writes(self) -> Writes | None:
        """What a thread is to write now; None where one is at it."""
        ...

    def written(self, writes: Writes, end_offset: int) -> None:
        """They are written, and what is below `end_offset` counts as committed."""
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

    def may_write_later(self, partition: Any) -> bool:
        """Whether a large batch of `partition` may be written by a thread, and committed when it is."""
        ...

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
    """Syncs partitions, many in one call. `policy` is `flush.policy`: fsync, interval or os. `writer` is a syncer for writes."""

    def __init__(self, syncer: Syncer, writer: Syncer, *, policy: str, interval_ms: int) -> None:
        self.journal: Journal | None = None
        self._syncer, self._writer = syncer, writer
        self._waits_for_sync = policy == "fsync"
        self._interval_s = {"fsync": LEFTOVER_INTERVAL_S, "interval": interval_ms / 1000}.get(policy)
        self._wanted: dict[Committable, None] = {}
        self._dirty: dict[Committable, None] = {}
        self._uncommitted: dict[Committable, None] = {}  # where nothing is ever synced: what nobody may have waited for
        self._writing_count = 0  # partitions with a write under way
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self.sync_count = 0
        self.commits = Histogram(COUNTS)  # appends that waited for each sync

    def may_write_later(self, partition: Committable) -> bool:
        """Where no commit waits for the disk, and others have something to do meanwhile: alone it would only cost more."""
        return not self._waits_for_sync and bool(self._writing_count or len(self._wanted) > (partition in self._wanted))

    def appended(self, partition: Committable) -> None:
        """Something was appended; nobody waits for it (yet)."""
        self._dirty[partition] = None
        if self._interval_s is None:
            self._uncommitted[partition] = None

    def sync_failed(self, files: Sequence[Syncable], error: StorageError) -> None:
        """Nothing rests on files that others have synced."""

    def want(self, partition: Committable) -> None:
        """Somebody waits for the commit of what `partition` holds now."""
        self._wanted[partition] = None
        self._wake.set()

    async def run(self) -> None:
        """For ever: commit what is wanted, as soon as it is wanted."""
        if self._waits_for_sync:
            while True:
                await self.sync(await self._next_wanted())
        async with asyncio.TaskGroup() as writers:
            while True:
                for each in await self._next_wanted():
                    self._commit(each, writers)

    async def _next_wanted(self) -> list[Committable]:
        await self._wake.wait()
        self._wake.clear()
        wanted = list(self._wanted)
        self._wanted.clear()
        return wanted

    def _commit(self, partition: Committable, writers: asyncio.TaskGroup) -> None:
        """Commit what it holds without a sync: now, or when what is not in its files yet is there."""
        end_offset = partition.log_end_offset
        if not partition.has_later_writes:
            partition.committed(end_offset)
            return
        writes = partition.begin_writes()
        if writes is not None:
            writers.create_task(self._write(partition, writes, end_offset))

    async def _write(self, partition: Committable, writes: Writes | None, end_offset: int) -> None:
        self._writing_count += 1
        try:
            while writes is not None:
                await self._writer.sync([writes])
                partition.written(writes, end_offset)
                end_offset = partition.log_end_offset
                writes = partition.begin_writes() if partition.has_later_writes else None
        except StorageError as error:
            _log.critical("a write failed, taking a partition offline: %s", error)
            partition.go_offline(str(error))
        finally:
            self._writing_count -= 1

    async def run_leftovers(self) -> None:
        """For ever: sync what was appended and nobody waits for, or commit it where nothing is ever synced."""
        while self._interval_s is not None:
            await asyncio.sleep(self._interval_s)
            await self.sync(list(self._dirty))
        while True:
            await asyncio.sleep(LEFTOVER_INTERVAL_S)
            for each in self._uncommitted:
                self.want(each)
            self._uncommitted.clear()

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
