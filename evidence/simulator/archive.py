"""Everything that was ever appended, kept beside the broker: what a log would hold if no cleaning had touched it.

The checkers judge transactions on this copy, and compare it with the files: a cleaning may take away only what a later
record, an abort or a delete horizon allows. A record that a crash took back is forgotten when its offset is written anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

from oncelog.log.partition_log import PartitionLog
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch


class Archive:
    """Batches by partition, in the order of their offsets."""

    def __init__(self) -> None:
        self._batches: dict[TopicPartition, list[RecordBatch]] = {}
        self._bases: dict[TopicPartition, list[int]] = {}

    def note(self, name: TopicPartition, data: bytes, base_offset: int) -> None:
        """A batch is about to be appended: what was there, and above, was lost."""
        batches, bases = self._batches.setdefault(name, []), self._bases.setdefault(name, [])
        cut = bisect_left(bases, base_offset)
        del batches[cut:], bases[cut:]
        batches.append(RecordBatch(data))
        bases.append(base_offset)

    def batches(self, name: TopicPartition, end_offset: int) -> list[RecordBatch]:
        """Those below `end_offset`, where the log ends now."""
        return self._batches.get(name, [])[: bisect_left(self._bases.get(name, []), end_offset)]


@contextmanager
def archiving(archive: Archive) -> Iterator[None]:
    """While it lasts, every append of every log of this thread is noted before it happens.

    A simulation has one thread: a real broker in another (tests/cli keeps one) writes its own logs, of its own partitions.
    """
    original, thread = PartitionLog.append, get_ident()

    def append(self: PartitionLog, batch: Any, **more: Any) -> None:
        if self.failure is None and get_ident() == thread:
            topic, _, index = self.directory.rpartition("/")[2].rpartition("-")
            archive.note(TopicPartition(topic, int(index)), bytes(batch), more["base_offset"])
        original(self, batch, **more)

    PartitionLog.append = append  # type: ignore[method-assign]
    try:
        yield
    finally:
        PartitionLog.append = original  # type: ignore[method-assign]
