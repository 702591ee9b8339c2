"""Files of the local disk, opened for reading only: a directory of somebody else's, also of a running broker."""

from __future__ import annotations

import os
import stat
from struct import Struct

from oncelog.errors import StorageError

_RECORD_LOCK = Struct("@hhqqi4x")  # struct flock of a 64-bit Linux


class ReadOnlyFile:
    """One open file."""

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            # Without O_NONBLOCK a pipe that stands in a file's place would be waited for until somebody writes into it.
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise _failed(path, error) from error
        if not stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            os.close(self._descriptor)
            raise StorageError(f"{path} cannot be read: it is no regular file")

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer only where the file ends. Raises StorageError."""
        try:
            data = os.pread(self._descriptor, size_bytes, position)
            if len(data) == size_bytes or not data:
                return data
            parts, got = [data], len(data)
            while data and got < size_bytes:
                data = os.pread(self._descriptor, size_bytes - got, position + got)
                parts.append(data)
                got += len(data)
            return b"".join(parts)
        except OSError as error:
            raise _failed(self._path, error) from error

    def size(self) -> int:
        """Its length now. Raises StorageError."""
        try:
            return os.fstat(self._descriptor).st_size
        except OSError as error:
            raise _failed(self._path, error) from error

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


class ReadOnlyFiles:
    """The local disk."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted. Raises StorageError."""
        try:
            return sorted(os.listdir(directory))
        except OSError as error:
            raise _failed(directory, error) from error

    def exists(self, path: str) -> bool:
        """True for a file or directory. What cannot be looked at is not for that reason absent: StorageError."""
        try:
            os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _failed(path, error) from error
        return True

    def open(self, path: str) -> ReadOnlyFile:
        """Open for reading. Raises StorageError."""
        return ReadOnlyFile(path)

    def read_whole(self, path: str) -> bytes:
        """A small file's content. Raises StorageError."""
        file = ReadOnlyFile(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()


def _failed(path: str, error: OSError) -> StorageError:
    return StorageError(f"{path} cannot be read: {error.strerror or error}")


def is_locked(path: str) -> bool:
    """Whether another process holds the lock file at `path`, by flock (oncelog) or by a record lock (Apache Kafka).

    Asking for a record lock takes none; a flock is taken for a moment. False where there is no such file.
    Raises StorageError where nobody can tell.
    """
    import fcntl

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StorageError(f"nothing tells whether a broker runs there: {_failed(path, error)}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        answer = fcntl.fcntl(descriptor, fcntl.F_GETLK, _RECORD_LOCK.pack(fcntl.F_RDLCK, 0, 0, 0, 0))
        return bool(_RECORD_LOCK.unpack(answer)[0] != fcntl.F_UNLCK)
    except BlockingIOError:
        return True
    except OSError:
        return False  # a file system without locks says nothing
    finally:
        os.close(descriptor)
