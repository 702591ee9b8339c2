"""Group commit with a journal: one sync commits what was appended to any number of partitions.

What is in the journal is committed: high watermark, last stable offset, waiting fetches, replies, as with `Flusher`. The
data files are synced behind it, at the latest every second or 32 MiB; recovery points follow, and once they are stored
the journal's segments are used again. A failed sync of the journal ends every append until a restart; a failed sync of data
files takes their partitions offline, and the journal keeps what it has of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from oncelog.broker.metrics.histogram import COUNTS, Histogram
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.flusher import Committable
from oncelog.errors import StorageError
from oncelog.host.syncer import Syncer
from oncelog.log.files import Syncable
from oncelog.log.journal import Journal

_log = logging.getLogger("oncelog.flusher")

DATA_SYNC_INTERVAL_S = 1.0
DATA_SYNC_BYTES = 32 << 20
# Each has at least one file open until its data are synced: they must fit into what a process may open (`open_files.py`).
UNSYNCED_PARTITIONS_MAX = 256
SYNCED_TOGETHER_MAX = 64
# How many partitions hand out their files before others have their turn: each may write a file first, and the first data
# sync after a start meets all of the coordinators' at once.
HANDED_OUT_TOGETHER_MAX = 4


class JournalFlusher:
    """Commits by `journal`. `store_recovery_points` writes their checkpoint, durably; False where it could not be told."""

    def __init__(
        self, syncer: Syncer, journal: Journal, store_recovery_points: Callable[[], Awaitable[bool]], metrics: Metrics
    ) -> None:
        self._metrics = metrics
        self.journal: Journal | None = journal
        self._journal = journal
        self._syncer = syncer
        self._store_recovery_points = store_recovery_points
        self._uncommitted: dict[Committable, None] = {}
        self._unsynced: dict[Committable, None] = {}  # their data files
        self._wake = asyncio.Event()
        self._data_wake = asyncio.Event()
        self._committing = asyncio.Lock()
        self._syncing_data = asyncio.Lock()
        self._making_room_count = 0  # who makes commits wait for data files, and for recovery points to be stored
        self.sync_count = 0
        self.commits = Histogram(COUNTS)  # appends that waited for each sync

    @property
    def is_making_room(self) -> bool:
        """Whether commits wait until the journal has room again, or fewer files are unsynced."""
        return self._making_room_count > 0

    @contextlib.contextmanager
    def _making_room(self) -> Iterator[None]:
        self._making_room_count += 1
        try:
            yield
        finally:
            self._making_room_count -= 1

    def may_write_later(self, partition: Committable) -> bool:  # noqa: ARG002
        """No: the journal names what is in the files."""
        return False

    def appended(self, partition: Committable) -> None:
        """Something was appended (or files came and went); nobody waits for it (yet)."""
        self._uncommitted[partition] = None
        self._unsynced[partition] = None

    def want(self, partition: Committable) -> None:
        """Somebody waits for the commit of what `partition` holds now."""
        self._uncommitted[partition] = None
        self._wake.set()

    def forget(self, partition: Committable) -> None:
        """Its topic was deleted: nothing of it is to be committed or synced."""
        self._uncommitted.pop(partition, None)
        self._unsynced.pop(partition, None)

    async def run(self) -> None:
        """For ever: commit what is wanted, as soon as it is wanted."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if len(self._unsynced) > UNSYNCED_PARTITIONS_MAX or self._journal.is_nearly_full:
                # Back pressure: whoever waits for its commit sends no more.
                if self._journal.is_nearly_full:
                    self._metrics.limit_hit("oncelog.journal.max.bytes")
                with self._making_room():
                    await self.sync_data()
            await self.commit()
            if (
                self._journal.bytes_since_data_sync > DATA_SYNC_BYTES
                or len(self._unsynced) > UNSYNCED_PARTITIONS_MAX // 2
                or self._journal.has_segment_to_free(self._journal.synced_sequence)
            ):
                self._data_wake.set()

    async def commit(self) -> None:
        """One entry, one sync: everything that was appended before is committed."""
        self._answer(await self._commit())

    @staticmethod
    def _answer(committed: Iterable[tuple[Committable, int]]) -> None:
        for each, end_offset in committed:
            each.committed(end_offset)

    async def _commit(self) -> list[tuple[Committable, int]]:
        """As `commit`; what is committed, and nobody was told yet."""
        async with self._committing:
            begun = [(each, each.log_end_offset) for each in self._uncommitted if not each.is_offline]
            self._uncommitted.clear()
            taken = self._journal.take()
            try:
                if taken.references:
                    await self._syncer.sync(taken.references)
                self._journal.write(taken)
                if taken.files:
                    self.sync_count += 1
                    self.commits.observe(sum(each.waiting_commit_count for each, _ in begun))
                    await self._syncer.sync(taken.files)
            except StorageError as error:
                self._journal.fail(error)
                _log.critical("the journal takes nothing more until a restart: %s", error)
                for each, _ in begun:
                    each.go_offline(str(error), is_sync=True)
                return []
            except asyncio.CancelledError:  # the stop: `end` commits it
                self._journal.give_back(taken)
                self._uncommitted |= dict.fromkeys(each for each, _ in begun)
                raise
            self._journal.synced(taken)
            return begun

    async def run_leftovers(self) -> None:
        """For ever: commit what nobody waits for, sync the data files, use the journal's segments again."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(DATA_SYNC_INTERVAL_S):
                    await self._data_wake.wait()
            self._data_wake.clear()
            await self._free(await self.sync_data())

    async def sync_data(self) -> int:
        """Sync the data files of what was appended so far; up to which entry they have everything (0: the journal failed)."""
        async with self._syncing_data:
            sequence = self._journal.written_sequence
            self._journal.bytes_since_data_sync = 0
            unsynced = list(self._unsynced)
            self._unsynced.clear()
            begun: list[tuple[Committable, int]] = []
            for first in range(0, len(unsynced), SYNCED_TOGETHER_MAX):
                begun += await self._sync_files(unsynced[first : first + SYNCED_TOGETHER_MAX])
            # A recovery point must not lie ahead of the journal: others' appends before it could be lost.
            committed = await self._commit()
            try:
                if self._journal.failure is not None:
                    for each, _ in begun:
                        each.go_offline(str(self._journal.failure))
                    return 0
                for each, end_offset in begun:
                    each.data_synced(end_offset)
                if self._journal.is_nearly_full:  # whoever is answered sends more: only when there is room for it
                    with self._making_room():
                        await self._free(sequence)
            finally:
                self._answer(committed)
            return sequence

    async def _sync_files(self, partitions: list[Committable]) -> list[tuple[Committable, int]]:
        begun: list[tuple[Committable, int]] = []
        files: list[Syncable] = []
        for index, each in enumerate(partitions):
            if index % HANDED_OUT_TOGETHER_MAX == HANDED_OUT_TOGETHER_MAX - 1:
                await asyncio.sleep(0)
            if not each.is_gone:
                try:
                    files += self._files_of(each)
                    begun.append((each, each.end_offset_to_sync))
                except StorageError:  # a sync of it has failed: what it has committed may be nowhere else
                    self._journal.pin()
        try:
            if files:
                await self._syncer.sync(list(dict.fromkeys(files)))
        except StorageError as error:
            _log.critical("sync failed, taking %d partitions offline: %s", len(begun), error)
            self.sync_failed(files, error)
            for each, _ in begun:
                each.go_offline(str(error), is_sync=True)
            return []
        return begun

    def sync_failed(self, files: Sequence[Syncable], error: StorageError) -> None:
        """A data sync has failed, of this flusher or of others (cleaner, start): what the journal has is kept; and where an entry
        is about to name what was not synced, there are no more entries."""
        self._journal.pin()
        if self._journal.rests_on(files):
            self._journal.fail(error)
            _log.critical("the journal takes nothing more until a restart: %s", error)

    @staticmethod
    def _files_of(partition: Committable) -> Sequence[Syncable]:
        """Its files; one that goes offline over them (a full disk) still has what the journal committed. Raises StorageError."""
        was_offline = partition.is_offline
        try:
            return partition.files_to_sync()
        except StorageError as error:
            if was_offline:
                raise
            partition.go_offline(str(error))
            return partition.files_to_sync()

    async def _free(self, sequence: int) -> None:
        """Store the recovery points, then let the segments be used again whose entries the data files have."""
        if not self._journal.has_segment_to_free(sequence):
            return
        try:
            if await self._store_recovery_points():
                self._journal.checkpointed(sequence)
        except StorageError as error:
            _log.error("recovery points could not be stored, the journal keeps what it has: %s", error)

    async def sync_all(self) -> None:
        """Sync everything that is not synced (shutdown)."""
        await self.commit()
        await self.sync_data()

    async def end(self) -> None:
        """Nothing appends any more: have all of it in the journal before any recovery point passes it. A stop may have cut a
        commit short, and a log whose recovery point lay ahead of the journal would keep what depends on what others lost."""
        await self.commit()
