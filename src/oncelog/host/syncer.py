"""Who waits for the disk, so that the loop need not: threads that sync, the loop woken once for each call.

With the compiled `native_sync` no Python runs in those threads: a Python thread per sync costs a fifth of a small
transaction in wake-ups at the interpreter's lock (docs/performance.md). Without it, and for what is not a plain file
(a directory's names), threads of Python do the same. What is not a file but `Writes` (`log/later_writes.py`) is written by them.
A failed sync is reported, and never tried again here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.errors import StorageError
from oncelog.host.files import RealFile
from oncelog.log.files import Buffer, Syncable
from oncelog.log.later_writes import Writes

if TYPE_CHECKING:
    from oncelog.host.native_sync import Pool

THREADS_MAX = 3  # measured: with more, waking them costs more than their flushes gain
WRITING_THREADS_MAX = 1  # it writes more than the loop can receive; two take a tenth more CPU for less


class Syncer(Protocol):
    """Who waits for the disk, so that the loop need not."""

    def sync(self, files: Sequence[Syncable]) -> Awaitable[None]:
        """Return when all are durable; raises the first StorageError after all were tried.

        Once called it runs to its end, even when nobody waits any more.
        """
        ...

    def close(self) -> None:
        """End what it keeps for its work; what was begun is finished first."""
        ...


def native_pool(threads_max: int) -> Pool | None:
    """The compiled threads, None where they were not built."""
    try:
        from oncelog.host.native_sync import Pool
    except ImportError:
        return None
    return Pool(threads_max)


def is_native() -> bool:
    """Whether syncs wait without the interpreter's lock here (`oncelog doctor` shows it)."""
    return native_pool(1) is not None


class RealSyncer:
    """The files of one call are synced side by side, which lets the disk merge their flushes."""

    def __init__(self, threads_max: int = THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._pool: Pool | None = None  # made with the first sync: clients have doors as well, and sync nothing
        self._python = PythonThreads(threads_max)
        self._loop: asyncio.AbstractEventLoop | None = None  # whose turn the pool's ended calls are taken in
        self._writer: RealSyncer | None = None  # of what is to be written, not synced: with threads of its own
        self._under_way: dict[int, tuple[_Call, list[RealFile], str]] = {}  # by the pool's token; what was to be done

    def sync(self, files: Sequence[Syncable]) -> asyncio.Future[None]:
        """Begin to sync `files`; the future fails with the first StorageError after all were tried."""
        if not files or type(files[0]) is not Writes:
            return self._begin(files)
        if self._writer is None:
            self._writer = RealSyncer(WRITING_THREADS_MAX)
        return self._writer._begin(files)

    def _begin(self, files: Sequence[Syncable]) -> asyncio.Future[None]:
        pool = self._pool_here()
        plain = [each for each in files if type(each) is RealFile] if pool is not None else []
        others = files if not plain else [each for each in files if type(each) is not RealFile]
        writes: list[Any] = [each for each in others if _is_for_pool(each)] if pool is not None else []
        if writes:
            others = [each for each in others if not _is_for_pool(each)]
        call = _Call(bool(plain) + bool(writes) + bool(others))
        if pool is not None and plain:
            self._submit(pool, "sync", [(each, None) for each in plain], call)
        if pool is not None and writes:
            self._submit(pool, "write", [(each.file, write) for each in writes for write in each.batches], call)
        if others:
            self._python.begin(others, call)
        return call.done

    def close(self) -> None:
        """End the threads; what they began is finished first. A later `sync` begins new ones."""
        if self._writer is not None:
            self._writer.close()
        self._python.close()
        if self._pool is None:
            return
        self._pool.close()
        self._take_ended()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._pool.fileno())
        self._loop = None

    def _pool_here(self) -> Pool | None:
        """The pool, with the running loop as the one that it wakes."""
        loop = asyncio.get_running_loop()
        if loop is self._loop:
            return self._pool
        if self._under_way and self._loop is not None and not self._loop.is_closed():
            return None  # two loops at once share no pool
        self._loop = loop
        self._pool = self._pool or native_pool(self._threads_max)
        if self._pool is None:
            return None
        loop.add_reader(self._pool.fileno(), self._take_ended)
        return self._pool

    def _submit(
        self, pool: Pool, what: str, wanted: Sequence[tuple[RealFile, tuple[int, Buffer] | None]], call: _Call
    ) -> None:
        files: list[RealFile] = []
        items: list[int | tuple[int, int, Buffer]] = []
        for file, write in wanted:
            descriptor = file.begin_sync()
            if descriptor >= 0:  # else closed meanwhile: there is nothing to do for anybody
                files.append(file)
                items.append(descriptor if write is None else (descriptor, *write))
        if not items:
            call.part_ended(None)
            return
        self._under_way[pool.submit(items)] = (call, files, what)

    def _take_ended(self) -> None:
        assert self._pool is not None
        for token, error, index in self._pool.ended():
            call, files, what = self._under_way.pop(token)
            for each in files:
                each.end_sync()
            call.part_ended(StorageError(f"cannot {what} {files[index].path}: {os.strerror(error)}") if error else None)


def _is_for_pool(syncable: Syncable) -> bool:
    return type(syncable) is Writes and type(syncable.file) is RealFile


class _Call:
    """One call of the syncer: `done` when its last part has ended. On the loop only."""

    def __init__(self, part_count: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._left = part_count
        self._failed: BaseException | None = None
        if not part_count:
            self.done.set_result(None)

    def part_ended(self, failed: BaseException | None) -> None:
        """One of its parts was tried in full."""
        self._left -= 1
        self._failed = self._failed or failed
        if self._left or self.done.done() or self.done.get_loop().is_closed():
            return
        if self._failed is not None:
            self.done.set_exception(self._failed)
        else:
            self.done.set_result(None)


class PythonThreads:
    """Threads of Python that call `sync()`: where nothing is compiled, and for what has no descriptor of its own.

    A queue and threads of their own: an executor's hand-over costs a third of a small transaction.
    """

    def __init__(self, threads_max: int) -> None:
        self._threads_max = threads_max
        self._threads: list[threading.Thread] = []
        self._shares: SimpleQueue[tuple[_Part, Sequence[Syncable]] | None] = SimpleQueue()

    def begin(self, files: Sequence[Syncable], call: _Call) -> None:
        """Sync `files`, in shares side by side, as one part of `call`."""
        count = min(self._threads_max, len(files))
        while len(self._threads) < count:
            thread = threading.Thread(target=_work, args=(self._shares,), name="oncelog-sync", daemon=True)
            thread.start()
            self._threads.append(thread)
        part = _Part(count, call)
        for first in range(count):  # a hand-over to a thread costs more than a sync of a clean file
            self._shares.put((part, files[first :: self._threads_max]))

    def close(self) -> None:
        """End the threads; what they began is finished first."""
        for _ in self._threads:
            self._shares.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class _Part:
    """The shares of one part of a call; the last one wakes the loop."""

    def __init__(self, share_count: int, call: _Call) -> None:
        self._loop = asyncio.get_running_loop()
        self._call = call
        self._left = share_count
        self._failed: BaseException | None = None
        self._lock = threading.Lock()

    def share_ended(self, failed: BaseException | None) -> None:
        """From a worker thread."""
        with self._lock:
            self._left -= 1
            self._failed = self._failed or failed
            is_last = not self._left
        if is_last:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._call.part_ended, self._failed)


def _work(shares: SimpleQueue[tuple[_Part, Sequence[Syncable]] | None]) -> None:
    while (share := shares.get()) is not None:
        part, files = share
        failed: BaseException | None = None
        for file in files:
            try:
                file.sync()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the sync is awaited
                failed = failed or error
        del file  # writes have what they write, and the next share may not come for long
        part.share_ended(failed)
        del share, part, files
