"""Batches that are in the log and not all in its file yet: a thread writes them while the loop goes on.

Putting a large batch into the page cache costs more than deciding about it. Where no commit waits for the disk (`flush.policy` os
and interval) it happens beside the loop, and what is not written is not committed: no reader sees it, nobody is answered.
Everything else that opens the file finds all of it there (`OpenFiles.get` writes first what is left). To write the same bytes to
the same place twice does no harm, so nobody has to wait for a thread: a log that takes appends is never cut.
"""

from __future__ import annotations

from oncelog.log.files import Buffer, File


class Writes:
    """Batches on their way into a file. A Syncable: `sync` puts them there, which is not to say that they are durable."""

    __slots__ = ("batches", "file")

    def __init__(self, file: File, batches: list[tuple[int, Buffer]]) -> None:
        self.file = file
        self.batches = batches  # (position, bytes)

    def sync(self) -> None:
        """Write them. May run in another thread. Raises StorageError."""
        for position, data in self.batches:
            self.file.write_at(position, data)


class LaterWrites:
    """Of one file: what was appended from `base_offset` and `position` on may not be there yet."""

    def __init__(self, file: File, base_offset: int, position: int) -> None:
        self.base_offset = base_offset
        self.position = position
        self._file = file
        self._waiting: list[tuple[int, Buffer]] = []
        self._under_way: Writes | None = None
        self._next_base_offset = base_offset  # behind what is under way

    def add(self, position: int, data: Buffer) -> None:
        """`data` must not change before it is written."""
        self._waiting.append((position, data))

    def begin(self, end_offset: int) -> Writes | None:
        """What waits is on its way now, all below `end_offset`; None where something is on its way already. Then call `ended`."""
        if self._under_way is not None:
            return None
        self._under_way = Writes(self._file, self._waiting)
        self._waiting, self._next_base_offset = [], end_offset
        return self._under_way

    def ended(self, writes: Writes) -> bool:
        """They are in the file; True when nothing else is left."""
        if writes is not self._under_way:
            return False  # of a file whose writes were settled meanwhile
        self._under_way = None
        if not self._waiting:
            return True
        self.base_offset, self.position = self._next_base_offset, self._waiting[0][0]
        return False

    def settle(self) -> None:
        """Write all of it now, what is under way once more. Raises StorageError."""
        if self._under_way is not None:
            self._under_way.sync()
        Writes(self._file, self._waiting).sync()
