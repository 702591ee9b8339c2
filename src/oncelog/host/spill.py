"""A nameless temporary file: what does not fit into memory for a while. The system forgets it with the process."""

from __future__ import annotations

import os


class TemporarySpill:
    """Append and read back; gone when closed. Raises OSError (a full disk)."""

    def __init__(self) -> None:
        import tempfile  # only who needs it pays for it

        self._file = tempfile.TemporaryFile(prefix="oncelog-", buffering=0)  # noqa: SIM115 - closed by its owner
        self.size_bytes = 0

    def append(self, data: bytes | memoryview) -> int:
        """Write at the end; where it begins."""
        position, view = self.size_bytes, memoryview(data)
        while len(view):
            written = os.pwrite(self._file.fileno(), view, self.size_bytes)
            self.size_bytes += written
            view = view[written:]
        return position

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """What was appended there."""
        return os.pread(self._file.fileno(), size_bytes, position)

    def close(self) -> None:
        """Give the space back."""
        self._file.close()
