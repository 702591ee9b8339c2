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


class BucketFiles:
    """Rows of bytes in numbered files of a temporary directory, by several processes: each appends to files of its own.

    `name` tells the writers apart. Writes are collected to `BUFFER_BYTES` in each bucket. Raises OSError (a full disk).
    """

    BUFFER_BYTES = 64 << 10

    def __init__(self, directory: str, name: str) -> None:
        self._start = f"{directory}/{name}"
        self._buffers: dict[int, bytearray] = {}

    def append(self, bucket: int, data: bytes) -> None:
        """Add to a bucket."""
        buffer = self._buffers.setdefault(bucket, bytearray())
        buffer += data
        if len(buffer) >= self.BUFFER_BYTES:
            self._flush(bucket, buffer)

    def flush(self) -> None:
        """Everything appended is in the files."""
        for bucket, buffer in self._buffers.items():
            self._flush(bucket, buffer)

    def _flush(self, bucket: int, buffer: bytearray) -> None:
        if buffer:
            with open(f"{self._start}.{bucket}", "ab") as file:
                file.write(buffer)
            buffer.clear()


def read_bucket(directory: str, start: str, bucket: int) -> bytes:
    """What all writers whose name begins with `start` put into a bucket."""
    end = f".{bucket}"
    parts = []
    for name in sorted(os.listdir(directory)):
        if name.startswith(start) and name.endswith(end):
            with open(f"{directory}/{name}", "rb") as file:
                parts.append(file.read())
    return b"".join(parts)
