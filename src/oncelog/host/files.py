"""The door to the disk: `oncelog.log.files` over the operating system. Who waits for its syncs is in `host/syncer.py`.

Writes are positional and unbuffered, so what a write returned is in the page cache and survives a kill; `sync` makes it
survive a power cut. Every OSError becomes a StorageError here and nowhere else.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
from collections.abc import Iterator

from oncelog.errors import StorageError
from oncelog.log.files import Buffer, File, Lock

READ_BYTES = 16_384  # in the first step of reading a whole file; then twice as many each time


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
        self._counting = threading.Lock()  # files are closed by other threads too, and the loop never waits for a sync
        self._syncs_under_way = 0  # by descriptor, outside of Python: see `begin_sync`
        self._descriptor_to_close = -1
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

    def begin_sync(self) -> int:
        """The descriptor for somebody who syncs without `sync`: it stays open until `end_sync`. -1 on a closed file."""
        with self._counting:
            if self._descriptor >= 0:
                self._syncs_under_way += 1
            return self._descriptor

    def end_sync(self) -> None:
        """That sync is over; a file that was closed meanwhile is closed now."""
        with self._counting:
            self._syncs_under_way -= 1
            if not self._syncs_under_way and self._descriptor_to_close >= 0:
                os.close(self._descriptor_to_close)
                self._descriptor_to_close = -1

    def close(self) -> None:
        """Close after a sync under way."""
        with self._closing, self._counting:
            if self._descriptor < 0:
                return
            if self._syncs_under_way:
                self._descriptor_to_close = self._descriptor
            else:
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
        """True for a file or directory. What cannot be looked at is not for that reason absent: StorageError."""
        with _translated("look at", path):
            try:
                os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
        return True

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
        """Make it and its parents; nobody else on this machine looks into it: it has records, and what proves passwords."""
        with _translated("make", path):
            os.makedirs(path, mode=0o700, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a file."""
        with _translated("remove", path), contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_directory(self, path: str) -> None:
        """Remove a tree."""
        import shutil  # with it come three codecs: a start removes nothing

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
        # System calls alone: a start reads five small files of each of thousands of partitions.
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                data = os.read(descriptor, READ_BYTES)
                while more := os.read(descriptor, max(READ_BYTES, len(data))):
                    data += more
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _failed("read", path, error) from error
        return data

    def replace_whole(self, path: str, data: Buffer) -> None:
        """Write beside it, sync, rename over it, sync the directory."""
        temporary = f"{path}.tmp"
        with _translated("write", path):
            with open(temporary, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def lock(self, path: str) -> Lock:
        """Lock. Raises StorageError when another process holds it."""
        return RealLock(path)
