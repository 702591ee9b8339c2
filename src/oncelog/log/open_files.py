"""A bounded set of open files, so that thousands of idle partitions cost no file descriptors.

One `OpenFiles` is shared by all logs of a broker. A file with unsynced bytes is pinned: its handle must stay open until
the sync, because a write error that the kernel finds later is reported to handles that were open when it was written.
What is to be written later (`later_writes.py`) is written before anybody but its own log is given the file.
"""

from __future__ import annotations

from collections import OrderedDict

from oncelog.log.files import Buffer, File, Files
from oncelog.log.later_writes import LaterWrites

# Beside connections it must fit into what systems give a process by default (1024 descriptors, more where it may raise that).
OPEN_FILES_MAX = 512


class WholeReadDue(Exception):
    """A log file is larger than what may be read whole now (`OpenFiles.whole_size_bytes_max`)."""

    def __init__(self, log_path: str) -> None:
        super().__init__(log_path)
        self.log_path = log_path


class OpenFiles:
    """Least recently used first out; `files_max` (default: OPEN_FILES_MAX) bounds the handles that are not pinned."""

    def __init__(self, files: Files, files_max: int | None = None) -> None:
        self.files = files
        self._files_max = OPEN_FILES_MAX if files_max is None else files_max
        self._open: OrderedDict[str, File] = OrderedDict()
        self._pinned: dict[str, File] = {}
        self._later: dict[str, LaterWrites] = {}  # by path; those files are pinned
        self.whole_size_bytes_max: int | None = None  # of files that are read whole; None: of any size

    def __len__(self) -> int:
        return len(self._open) + len(self._pinned)

    def check_whole_read(self, log_path: str, size_bytes: int) -> None:
        """Before all of a log is read for its indexes. Raises WholeReadDue."""
        if self.whole_size_bytes_max is not None and size_bytes > self.whole_size_bytes_max:
            raise WholeReadDue(log_path)

    def get(self, path: str, *, create: bool = True) -> File:
        """The open file at `path`, opening it where needed. Use it at once; do not keep it. Raises StorageError."""
        if path in self._later:
            self.settle(path)
        return self.as_it_is(path, create=create)

    def as_it_is(self, path: str, *, create: bool = True) -> File:
        """As `get`, for who needs nothing that is to be written later."""
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
        """The open file at `path`, which now stays open until `unpin` or `forget`. Raises StorageError."""
        if path in self._later:
            self.settle(path)
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

    def write_later(self, path: str, base_offset: int, position: int, data: Buffer) -> None:
        """`data` belongs at `position` of a pinned file, and need not be there before `later(path)` says so."""
        later = self._later.get(path)
        if later is None:
            self._later[path] = later = LaterWrites(self._pinned[path], base_offset, position)
        later.add(position, data)

    def later(self, path: str) -> LaterWrites | None:
        """What is not written yet; None where all is."""
        return self._later.get(path)

    def settle(self, path: str) -> None:
        """Write what is left of it now. Raises StorageError, and still has it then."""
        self._later[path].settle()
        del self._later[path]

    def forget_later(self, path: str) -> LaterWrites | None:
        """What was not written need not be (any more)."""
        return self._later.pop(path, None)

    def forget(self, path: str) -> None:
        """Close the file at `path`, because it is removed or its log is closed; what is to be written later never is."""
        self._later.pop(path, None)
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
        self._later.clear()
