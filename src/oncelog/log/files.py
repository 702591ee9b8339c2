"""The door to the disk, as the log room sees it: two small protocols and no operating system.

`host/files.py` puts the real disk behind them, `evidence/world/files.py` one that loses power. The rules both obey:
written bytes are durable only after `sync`, a created, renamed or removed name only after `sync_directory` of its
directory, and every failure is `StorageError`. Paths are strings joined with '/'.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog.errors import StorageError

Buffer = bytes | bytearray | memoryview


class Syncable(Protocol):
    """What a syncer can make durable: a file, or a directory's names."""

    def sync(self) -> None:
        """Return when everything written before the call is durable. May run in another thread. Raises StorageError.

        Nothing happens on a closed file: its log was closed or removed while the sync was on its way.
        """
        ...


class File(Syncable, Protocol):
    """One open file. Writes are positional; nothing is buffered in the process."""

    def append(self, data: Buffer) -> None:
        """Write at the end of the file. After a StorageError the end may hold a part of `data`."""
        ...

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes from `position`; fewer only where the file ends."""
        ...

    def write_at(self, position: int, data: Buffer) -> None:
        """Write at `position`, growing the file where needed."""
        ...

    def size(self) -> int:
        """The file's length in bytes."""
        ...

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to `size_bytes`."""
        ...

    def close(self) -> None:
        """Give the handle back; a `sync` under way in another thread ends first. Twice is once."""
        ...


class Lock(Protocol):
    """A held lock file."""

    def close(self) -> None:
        """Release it."""
        ...


class Files(Protocol):
    """A tree of files. Every method raises StorageError when the disk refuses or a name is missing."""

    def open(self, path: str, create: bool = True) -> File:
        """Open for reading and writing; a missing file is created when `create`, else StorageError."""
        ...

    def exists(self, path: str) -> bool:
        """True for a file or directory. Raises StorageError where nobody can tell."""
        ...

    def size_of(self, path: str) -> int:
        """A file's length in bytes."""
        ...

    def modified_ms(self, path: str) -> int:
        """When a file was last written, in ms since 1970."""
        ...

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """Make a directory and its missing parents; one that exists is fine."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file; a missing one is fine."""
        ...

    def remove_directory(self, path: str) -> None:
        """Remove a directory and everything in it; a missing one is fine."""
        ...

    def rename(self, path: str, new_path: str) -> None:
        """Rename a file or directory, replacing a file of the new name."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make the names in a directory durable."""
        ...

    def read_whole(self, path: str) -> bytes:
        """A file's whole content."""
        ...

    def replace_whole(self, path: str, data: Buffer) -> None:
        """Durably replace a file: write `path.tmp`, sync it, rename it, sync the directory."""
        ...

    def lock(self, path: str) -> Lock:
        """Take the lock file at `path` for this process. Raises StorageError when another holds it."""
        ...


class DirectoryNames:
    """A directory's names as a Syncable, so that one syncer call covers new files and their names."""

    __slots__ = ("_files", "path")

    def __init__(self, files: Files, path: str) -> None:
        self._files = files
        self.path = path

    def sync(self) -> None:
        """Sync the directory; one that was removed meanwhile (its topic was deleted) has no names to keep."""
        try:
            self._files.sync_directory(self.path)
        except StorageError as error:
            # What the system said counts: by the time of a second look a topic of the same name may have been made.
            if not isinstance(error.__cause__, FileNotFoundError) and self._files.exists(self.path):
                raise


def sync_all(syncables: Sequence[Syncable]) -> None:
    """Sync each in turn, in this thread: recovery and clean shutdown have nobody to overlap with."""
    for syncable in syncables:
        syncable.sync()
