"""A tree of files in memory, as a remote file system hands it over."""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.segments.source import BytesFile


class MemorySource:
    """Files by path. Directories are what the paths say."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = files

    def list(self, directory: str) -> list[str]:
        """As Source."""
        start = directory.rstrip("/") + "/"
        return sorted({path[len(start) :].split("/")[0] for path in self._files if path.startswith(start)})

    def exists(self, path: str) -> bool:
        """As Source."""
        return path in self._files or any(each.startswith(path.rstrip("/") + "/") for each in self._files)

    def open(self, path: str) -> BytesFile:
        """As Source."""
        return BytesFile(self._files[path])

    def read_whole(self, path: str) -> bytes:
        """As Source."""
        return self._files[path]
