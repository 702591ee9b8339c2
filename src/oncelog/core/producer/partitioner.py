"""Which partition a record goes to: a hash of the key, or one partition for a while where there is no key.

The hash must equal that of the other clients of the topic bit for bit, else one key lands in two partitions: murmur2 is
Java's, CRC-32 ("consistent") librdkafka's. Randomness comes in as a function, so that the simulator can repeat a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from zlib import crc32

from oncelog.wire.murmur2 import murmur2


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key among `partition_count`, as the Java producer chooses it."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


def consistent_partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key among `partition_count`, as librdkafka chooses it unless it is told otherwise."""
    return crc32(key) % partition_count


Partitioner = Callable[[bytes | None, int], int | None]
"""Key and partition count to a partition; None: one that is the same for a while."""

PARTITIONERS: dict[str, Partitioner] = {
    "murmur2_random": lambda key, count: None if key is None else partition_for_key(key, count),
    "murmur2": lambda key, count: partition_for_key(key or b"", count),
    "consistent_random": lambda key, count: consistent_partition_for_key(key, count) if key else None,
    "consistent": lambda key, count: consistent_partition_for_key(key or b"", count),
    "random": lambda _key, _count: None,
}
"""By librdkafka's names. Java's default is `murmur2_random`, librdkafka's `consistent_random`."""


class StickyPartitioner:
    """Records without a key: stay on one partition until a batch's worth was written, then change (KIP-794).

    `draw(bound)` gives an integer in 0..bound-1. Partitions without a leader are avoided where there is a choice.
    """

    def __init__(self, draw: Callable[[int], int], *, batch_size_bytes: int) -> None:
        self._draw = draw
        self._batch_size_bytes = batch_size_bytes
        self._current: dict[str, tuple[int, int]] = {}  # topic -> (partition, bytes written to it)

    def partition(self, topic: str, available: Sequence[int], size_bytes: int) -> int:
        """The partition for a record of `size_bytes` without a key."""
        current, written = self._current.get(topic, (-1, 0))
        if current not in available or written >= self._batch_size_bytes:
            current, written = self._another(available, current), 0
        self._current[topic] = (current, written + size_bytes)
        return current

    def forget(self, topics: Iterable[str]) -> None:
        """Nothing is sent to these any more."""
        for topic in topics:
            self._current.pop(topic, None)

    def _another(self, available: Sequence[int], current: int) -> int:
        others = [partition for partition in available if partition != current] or list(available)
        return others[self._draw(len(others))]
