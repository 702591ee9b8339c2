"""Where a consumer in transaction order keeps what it cannot hand out yet: in memory, and beyond a bound on disk."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from oncelog.core.consumer.transaction_order import TransactionOrder
from oncelog.errors import IllegalState
from oncelog.wire.record_batch import RecordBatch


class Spill(Protocol):
    """A temporary file (host/spill.py)."""

    def append(self, data: bytes | memoryview) -> int: ...

    def read_at(self, position: int, size_bytes: int) -> bytes: ...

    def close(self) -> None: ...


class BufferedBatches:
    """The batches of one transaction: the older ones on disk where there was no room, the others in memory."""

    def __init__(self) -> None:
        self._on_disk: deque[tuple[int, int]] = deque()
        self._in_memory: deque[RecordBatch] = deque()
        self._borrowed_count = 0
        self._current: RecordBatch | None = None
        self._spill: Spill | None = None
        self.memory_bytes = 0
        self.disk_bytes = 0

    def append(self, batch: RecordBatch) -> None:
        """Keep one more batch, for now a view into the answer that brought it."""
        self._in_memory.append(batch)
        self._borrowed_count += 1
        self.memory_bytes += batch.size_bytes

    def own(self) -> None:
        """Copy what is only borrowed: a small batch may not keep a whole answer in memory."""
        if self._borrowed_count:
            borrowed = [self._in_memory.pop() for _ in range(min(self._borrowed_count, len(self._in_memory)))]
            self._in_memory.extend(RecordBatch(bytes(batch.data)) for batch in reversed(borrowed))
            self._borrowed_count = 0

    def move_to_disk(self, new_spill: Callable[[], Spill]) -> None:
        """Raises OSError."""
        if self._spill is None:
            self._spill = new_spill()
        while self._in_memory:
            batch = self._in_memory[0]
            self._on_disk.append((self._spill.append(batch.data), batch.size_bytes))
            self._in_memory.popleft()
            self.disk_bytes += batch.size_bytes
            self.memory_bytes -= batch.size_bytes
        self._borrowed_count = 0

    def current(self) -> RecordBatch | None:
        """The first batch that is left; read from disk once."""
        if self._current is None:
            if self._on_disk:
                assert self._spill is not None
                self._current = RecordBatch(self._spill.read_at(*self._on_disk[0]))
            elif self._in_memory:
                self._current = self._in_memory[0]
        return self._current

    def advance(self) -> None:
        """The first batch was handed out."""
        self._current = None
        if self._on_disk:
            self._on_disk.popleft()
        else:
            self.memory_bytes -= self._in_memory.popleft().size_bytes

    def close(self) -> None:
        """Forget everything."""
        self._in_memory.clear()
        self._on_disk.clear()
        self._current = None
        self.memory_bytes = self.disk_bytes = 0
        if self._spill is not None:
            self._spill.close()
            self._spill = None


def bound(
    orders: Iterable[TransactionOrder], *, memory_bytes_max: int, disk_bytes_max: int, new_spill: Callable[[], Spill]
) -> None:
    """Keep what open transactions hold within the bounds: the largest go to disk first.

    Raises:
        IllegalState: more than `transaction_order_disk_bytes` would be on disk.
        OSError: the disk is full.
    """
    kept = [run.batches for order in orders for run in order.open.values()]
    buffers = [batches for batches in kept if isinstance(batches, BufferedBatches)]
    for batches in buffers:
        batches.own()
    memory_bytes = sum(batches.memory_bytes for batches in buffers)
    for batches in sorted(buffers, key=lambda each: each.memory_bytes, reverse=True):
        if memory_bytes <= memory_bytes_max:
            return
        memory_bytes -= batches.memory_bytes
        if sum(each.disk_bytes for each in buffers) + batches.memory_bytes > disk_bytes_max:
            raise IllegalState(
                f"open transactions hold more than transaction_order_disk_bytes={disk_bytes_max}: end them "
                '(`oncelog transactions find-hanging`), raise the bound, or read with order="offset"'
            )
        batches.move_to_disk(new_spill)
