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

    def forget(self, partition: Any) -> None:
        """Its topic was deleted: nothing of it is to be committed or synced."""
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


def flusher_for(policy: str, syncer: Syncer, writer: Syncer, *, interval_ms: int) -> Flusher:
    """The one for a `flush.policy`: fsync, interval or os. `writer` is a syncer for writes."""
    if policy == "fsync":
        return SyncedCommits(syncer)
    return SyncedLater(syncer, writer, interval_ms=interval_ms) if policy == "interval" else NeverSynced(syncer, writer)


class Flusher:
    """Syncs partitions, many in one call; when is for the policies below."""

    def __init__(self, syncer: Syncer) -> None:
        self.journal: Journal | None = None
        self._syncer = syncer
        self._wanted: dict[Committable, None] = {}
        self._dirty: dict[Committable, None] = {}  # written since their last sync
        self._wake = asyncio.Event()
        self._lock = asyncio.Lock()
        self.sync_count = 0
        self.commits = Histogram(COUNTS)  # appends that waited for each sync

    def may_write_later(self, partition: Committable) -> bool:  # noqa: ARG002
        """No: its commit waits for the disk anyway."""
        return False

    def appended(self, partition: Committable) -> None:
        """Something was appended; nobody waits for it (yet)."""
        self._dirty[partition] = None

    def forget(self, partition: Committable) -> None:
        """Its topic was deleted: nothing of it is to be committed or synced."""
        self._dirty.pop(partition, None)
        self._wanted.pop(partition, None)

    def sync_failed(self, files: Sequence[Syncable], error: StorageError) -> None:
        """Nothing rests on files that others have synced."""

    def want(self, partition: Committable) -> None:
        """Somebody waits for the commit of what `partition` holds now."""
        self._wanted[partition] = None
        self._wake.set()

    async def run(self) -> None:
        """For ever: commit what is wanted, as soon as it is wanted."""
        raise NotImplementedError

    async def run_leftovers(self) -> None:
        """For ever: what nobody waits for."""
        raise NotImplementedError

    async def _next_wanted(self) -> list[Committable]:
        await self._wake.wait()
        self._wake.clear()
        wanted = list(self._wanted)
        self._wanted.clear()
        return wanted

    async def _sync_every(self, interval_s: float) -> None:
        while True:
            await asyncio.sleep(interval_s)
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


class SyncedCommits(Flusher):
    """`flush.policy=fsync`: a commit waits for the disk."""

    async def run(self) -> None:
        """For ever: one sync for all that are wanted."""
        while True:
            await self.sync(await self._next_wanted())

    async def run_leftovers(self) -> None:
        """For ever: sync what nobody waits for."""
        await self._sync_every(LEFTOVER_INTERVAL_S)


class WrittenCommits(Flusher):
    """A commit waits for what is written later (`log/later_writes.py`), and for no sync."""

    def __init__(self, syncer: Syncer, writer: Syncer) -> None:
        super().__init__(syncer)
        self._writer = writer
        self._writing_count = 0  # partitions with a write under way

    def may_write_later(self, partition: Committable) -> bool:
        """Where others have something to do meanwhile: alone it would only cost more."""
        return bool(self._writing_count or len(self._wanted) > (partition in self._wanted))

    async def run(self) -> None:
        """For ever: commit what is wanted, each partition by itself."""
        async with asyncio.TaskGroup() as writers:
            while True:
                self._commit_all(await self._next_wanted(), writers)

    def _commit_all(self, partitions: list[Committable], writers: asyncio.TaskGroup) -> None:
        # (a step of its own: one that waits would keep the last partition)
        for each in partitions:
            self._commit(each, writers)

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


class SyncedLater(WrittenCommits):
    """`flush.policy=interval`: what was written is synced from time to time."""

    def __init__(self, syncer: Syncer, writer: Syncer, *, interval_ms: int) -> None:
        super().__init__(syncer, writer)
        self._interval_s = interval_ms / 1000

    async def run_leftovers(self) -> None:
        """For ever: sync what was written since the last time, which commits it too."""
        await self._sync_every(self._interval_s)


class NeverSynced(WrittenCommits):
    """`flush.policy=os`: synced at the end alone."""

    def __init__(self, syncer: Syncer, writer: Syncer) -> None:
        super().__init__(syncer, writer)
        self._uncommitted: dict[Committable, None] = {}  # what nobody may have waited for

    def appended(self, partition: Committable) -> None:
        """Something was appended; nobody waits for it (yet)."""
        super().appended(partition)
        self._uncommitted[partition] = None

    def forget(self, partition: Committable) -> None:
        """Its topic was deleted."""
        super().forget(partition)
        self._uncommitted.pop(partition, None)

    async def run_leftovers(self) -> None:
        """For ever: commit what nobody waits for."""
        while True:
            await asyncio.sleep(LEFTOVER_INTERVAL_S)
            if self._uncommitted:
                self._wanted |= self._uncommitted
                self._uncommitted.clear()
                self._wake.set()
