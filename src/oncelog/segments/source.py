"""The door to the files that are read: names, sizes, bytes at a position. `host/read_only_files.py` is the local disk's."""

from __future__ import annotations

from typing import Protocol


class Readable(Protocol):
    """One open file."""

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` from `position`; fewer only where the file ends. Raises StorageError."""
        ...

    def size(self) -> int:
        """Its length now."""
        ...

    def close(self) -> None:
        """Give the handle back."""
        ...


class Source(Protocol):
    """A tree of files that only grows or is at rest. Every method raises StorageError."""

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted."""
        ...

    def exists(self, path: str) -> bool:
        """True for a file or directory."""
        ...

    def open(self, path: str) -> Readable:
        """Open for reading."""
        ...

    def read_whole(self, path: str) -> bytes:
        """A small file's content."""
        ...


class BytesFile:
    """A file whose content is at hand."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """As Readable."""
        return self._data[position : position + size_bytes]

    def size(self) -> int:
        """As Readable."""
        return len(self._data)

    def close(self) -> None:
        """Nothing to give back."""
