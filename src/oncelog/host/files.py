"""The door to the disk: `oncelog.log.files` over the operating system, and the syncer that waits in a worker thread.

Writes are positional and unbuffered, so what a write returned is in the page cache and survives a kill; `sync` makes it
survive a power cut. Every OSError becomes a StorageError here and nowhere else.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Protocol

from oncelog.errors import StorageError
from oncelog.log.files import Buffer, File, Lock, Syncable


@contextlib.contextmanager
def _translated(what: str, path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"cannot {what} {path}: {os.strerror(error.errno or 0)}") from error


def _failed(what: str, path: str, error: OSError) -> StorageError:
    return StorageError(f"cannot {what} {path}: {os.strerror(error.errno or 0)}")


class RealFile:
    """One file descriptor."""

    def __init__(self, path: str, create: bool) -> None:
        self.path = path
        self._closing = threading.Lock()  # a descriptor closed during fdatasync could be another file's by then
        self._end: int | None = None
        with _translated("open", path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o644)

    def append(self, data: Buffer) -> None:
        """Write at the end, which is known from the first call on: one system call."""
        if self._end is None:
            self._end = self.size()
        self.write_at(self._end, data)
        self._end += len(data)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Read, again where the system gave less than there is (a signal, or more than 2 GiB)."""
        try:
            data = os.pread(self._descriptor, size_bytes, position)
            while 0 < len(data) < size_bytes:
                more = os.pread(self._descriptor, size_bytes - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise _failed("read", self.path, error) from error
        return data

    def write_at(self, position: int, data: Buffer) -> None:
        """Write everything; a short write (disk nearly full) is continued until it is whole or refused."""
        try:
            written = os.pwrite(self._descriptor, data, position)
            while written < len(data):
                written += os.pwrite(self._descriptor, memoryview(data)[written:], position + written)
        except OSError as error:
            self._end = None
            raise _failed("write", self.path, error) from error

    def size(self) -> int:
        """The length in bytes."""
        with _translated("look at", self.path):
            return os.fstat(self._descriptor).st_size

    def truncate(self, size_bytes: int) -> None:
        """Cut."""
        self._end = None
        with _translated("truncate", self.path):
            os.ftruncate(self._descriptor, size_bytes)

    def sync(self) -> None:
        """fdatasync: data and length, not the times. Nothing on a closed file."""
        with self._closing, _translated("sync", self.path):
            if self._descriptor >= 0:
                os.fdatasync(self._descriptor)

    def close(self) -> None:
        """Close after a sync under way."""
        with self._closing:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1


class RealLock:
    """A file locked with flock, freed by the system when the process ends, however it ends."""

    def __init__(self, path: str) -> None:
        with _translated("open", path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise StorageError(f"{path} is locked: another server uses this directory") from error

    def close(self) -> None:
        """Unlock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class RealFiles:
    """The files of this machine."""

    def open(self, path: str, create: bool = True) -> File:
        """Open for reading and writing."""
        return RealFile(path, create)

    def exists(self, path: str) -> bool:
        """True for a file or directory."""
        return os.path.exists(path)

    def size_of(self, path: str) -> int:
        """The length in bytes."""
        with _translated("look at", path):
            return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        """When it was last written."""
        with _translated("look at", path):
            return os.stat(path).st_mtime_ns // 1_000_000

    def list(self, directory: str) -> list[str]:
        """The sorted names."""
        with _translated("list", directory):
            return sorted(os.listdir(directory))

    def make_directory(self, path: str) -> None:
        """Make it and its parents."""
        with _translated("make", path):
            os.makedirs(path, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with _translated("remove", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove a tree."""
        with _translated("remove", path), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(path)

    def rename(self, path: str, new_path: str) -> None:
        """Rename."""
        with _translated("rename", path):
            os.replace(path, new_path)

    def sync_directory(self, path: str) -> None:
        """fsync of the directory; "" is the present one."""
        with _translated("sync", path):
            descriptor = os.open(path or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read_whole(self, path: str) -> bytes:
        """The content."""
        with _translated("read", path), open(path, "rb") as file:
            return file.read()

    def replace_whole(self, path: str, data: Buffer) -> None:
        """Write beside it, sync, rename over it, sync the directory."""
        temporary = f"{path}.tmp"
        with _translated("write", path):
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path) or ".")

    def lock(self, path: str) -> Lock:
        """Lock. Raises StorageError when another process holds it."""
        return RealLock(path)


class Syncer(Protocol):
    """Who waits for the disk, so that the loop need not."""

    async def sync(self, files: Sequence[Syncable]) -> None:
        """Return when all are durable; raises the first StorageError after all were tried."""
        ...


class RealSyncer:
    """Syncs in worker threads: the files of one call side by side, which lets the disk merge their flushes.

    A queue and threads of its own: an executor's hand-over costs a third of a small transaction (docs/performance.md).
    """

    def __init__(self, threads_max: int = 4) -> None:
        self._threads_max = threads_max
        self._threads: list[threading.Thread] = []
        self._shares: SimpleQueue[tuple[_Call, Sequence[Syncable]] | None] = SimpleQueue()

    async def sync(self, files: Sequence[Syncable]) -> None:
        """Sync `files`. Once called it runs to its end even when the caller is cancelled."""
        count = min(self._threads_max, len(files))
        if not count:
            return
        while len(self._threads) < count:
            thread = threading.Thread(target=_work, args=(self._shares,), name="oncelog-sync", daemon=True)
            thread.start()
            self._threads.append(thread)
        call = _Call(count)
        # One job per share of the files: a hand-over to a thread costs more than a sync of a clean file.
        for first in range(count):
            self._shares.put((call, files[first :: self._threads_max]))
        await call.done

    def close(self) -> None:
        """End the threads; what they began is finished first."""
        for _ in self._threads:
            self._shares.put(None)
        for thread in self._threads:
            thread.join()
        self._threads.clear()


class _Call:
    """One call of the syncer: `done` when the last of its shares is, so that the loop is woken once."""

    def __init__(self, count: int) -> None:
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[None] = self._loop.create_future()
        self._left = count
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
                self._loop.call_soon_threadsafe(self._end)

    def _end(self) -> None:
        if self.done.done():
            return
        if self._failed is not None:
            self.done.set_exception(self._failed)
        else:
            self.done.set_result(None)


def _work(shares: SimpleQueue[tuple[_Call, Sequence[Syncable]] | None]) -> None:
    while (share := shares.get()) is not None:
        call, files = share
        failed: BaseException | None = None
        for file in files:
            try:
                file.sync()
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the sync is awaited
                failed = failed or error
        call.share_ended(failed)
        del share, call, files
