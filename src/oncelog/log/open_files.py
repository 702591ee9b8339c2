"""A bounded set of open files, so that thousands of idle partitions cost no file descriptors.

One `OpenFiles` is shared by all logs of a broker. A file with unsynced bytes is pinned: its handle must stay open until
the sync, because a write error that the kernel finds later is reported to handles that were open when it was written.
"""

from __future__ import annotations

from collections import OrderedDict

from oncelog.log.files import File, Files

# Beside connections it must fit into what systems give a process by default (1024 descriptors, more where it may raise that).
OPEN_FILES_MAX = 512


class OpenFiles:
    """Least recently used first out; `files_max` (default: OPEN_FILES_MAX) bounds the handles that are not pinned."""

    def __init__(self, files: Files, files_max: int | None = None) -> None:
        self.files = files
        self._files_max = OPEN_FILES_MAX if files_max is None else files_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._pinned: dict[str, File] = {}

    def __len__(self) -> int:
        return len(self._open) + len(self._pinned)

    def get(self, path: str, *, create: bool = True) -> File:
        """The open file at `path`, opening it where needed. Use it at once; do not keep it."""
        file = self._pinned.get(path)
        if file is not None:
            return file
        file = self._open.get(path)
        if file is not None:
            self._open.move_to_end(path)
            return file
        file = self.files.open(path, create)
        self._open[path] = file
        if len(self._open) > self._files_max:
            _, oldest = self._open.popitem(last=False)
            oldest.close()
        return file

    def pin(self, path: str) -> File:
        """The open file at `path`, which now stays open until `unpin` or `forget`."""
        file = self._pinned.get(path)
        if file is None:
            file = self.get(path)
            del self._open[path]
            self._pinned[path] = file
        return file

    def unpin(self, path: str) -> None:
        """The file at `path` may be closed again when room is needed."""
        file = self._pinned.pop(path, None)
        if file is not None:
            self._open[path] = file
            if len(self._open) > self._files_max:
                _, oldest = self._open.popitem(last=False)
                oldest.close()

    def forget(self, path: str) -> None:
        """Close the file at `path`, because it is removed or its log is closed."""
        file = self._pinned.pop(path, None) or self._open.pop(path, None)
        if file is not None:
            file.close()

    def forget_all_in(self, directory: str) -> None:
        """Close every file in `directory`, whoever opened it: its name goes, and another one of that name may come."""
        for path in [path for path in (*self._open, *self._pinned) if path.rpartition("/")[0] == directory]:
            self.forget(path)

    def close_idle(self) -> None:
        """Close what is not pinned: after a start nobody has asked for any of it yet."""
        for file in self._open.values():
            file.close()
        self._open.clear()

    def close(self) -> None:
        """Close everything."""
        for file in [*self._open.values(), *self._pinned.values()]:
            file.close()
        self._open.clear()
        self._pinned.clear()
