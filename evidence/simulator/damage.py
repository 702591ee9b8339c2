"""Damage of what is durable: a bit that flips, a sector that was meant for somewhere else.

Only bytes that a checksum covers, of batches below the recovery point: above it a broken tail cannot be told from a write
that the power interrupted. The damage is repaired after a while, as from a backup; until then nobody may be served it,
nothing may be cut for it, and no cleaning may give it a checksum that is right.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from evidence.simulator.checkers.raw_log import CLUSTER_METADATA
from evidence.world.files import SECTOR_BYTES, SimFiles
from oncelog.errors import CorruptBatch, CorruptIndex
from oncelog.log.checkpoint_files import RECOVERY_POINTS, offsets_from_bytes
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import batches

UNCOVERED_BYTES = 17  # base offset, length, leader epoch, magic: before the checksum, which covers all that follows
CHECKSUM_BYTES = 4


@dataclass
class Damage:
    """Bytes of one file, and what they were. `header` (offset and length, which nobody breaks) at `batch_position` tells their
    batch from another that came to the same place: a cleaned file may have by right what was wrong here."""

    path: str
    position: int
    right: bytes
    wrong: bytes
    batch_position: int
    header: bytes

    def do(self, disk: SimFiles) -> None:
        """Break it."""
        self._change(disk, self.right, self.wrong)

    def undo(self, disk: SimFiles) -> None:
        """Repair it, wherever the file is still as it was broken."""
        self._change(disk, self.wrong, self.right)

    def _change(self, disk: SimFiles, present: bytes, wanted: bytes) -> None:
        if disk.holds(self.path, self.batch_position, self.header):
            disk.overwrite(self.path, self.position, present, wanted)


def flipped_bit(disk: SimFiles, directory: str, rng: random.Random) -> Damage | None:
    """One bit of one batch; None where nothing may be broken yet."""
    found = _some_batch(disk, directory, rng)
    if found is None:
        return None
    path, content, first, end = found
    position = rng.randrange(first, end)
    right = content[position : position + 1]
    wrong = bytes([right[0] ^ 1 << rng.randrange(8)])
    return Damage(path, position, right, wrong, first - UNCOVERED_BYTES, content[first - UNCOVERED_BYTES : first])


def misdirected_sector(disk: SimFiles, directory: str, rng: random.Random) -> Damage | None:
    """A sector of a batch, overwritten with one of another file."""
    found, other = _some_batch(disk, directory, rng), _some_batch(disk, directory, rng)
    if found is None or other is None:
        return None
    path, content, first, end = found
    batch = first - UNCOVERED_BYTES
    first += CHECKSUM_BYTES  # with its checksum a whole batch of as many bytes would be right, in the wrong place
    start = max(first, rng.randrange(first, end) // SECTOR_BYTES * SECTOR_BYTES)
    right = content[start : min(end, start // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES)]
    wrong = other[1][other[2] + CHECKSUM_BYTES :][: len(right)].ljust(len(right), b"\0")
    header = content[batch : batch + UNCOVERED_BYTES]
    return Damage(path, start, right, wrong, batch, header) if wrong != right else None


def _some_batch(disk: SimFiles, directory: str, rng: random.Random) -> tuple[str, bytes, int, int] | None:
    """Path and content of a file, and from where to where a batch of it may be broken."""
    files = disk.snapshot(directory)
    try:
        points = offsets_from_bytes(disk.read_synced(f"{directory}/{RECOVERY_POINTS}") or b"0\n0\n")
    except CorruptIndex:
        return None
    places = []
    for path, content in files.items():
        folder, _, name = path[len(directory) + 1 :].rpartition("/")
        topic, _, index = folder.rpartition("-")
        if name.endswith(".log") and index.isdigit() and topic != CLUSTER_METADATA:
            limit = points.get(TopicPartition(topic, int(index)), 0)
            places += [(path, content, *place) for place in _covered(content, limit)]
    return rng.choice(places) if places else None


def _covered(content: bytes, end_offset: int) -> list[tuple[int, int]]:
    places, position = [], 0
    try:
        for batch in batches(content):
            if batch.end_offset > end_offset:
                break
            places.append((position + UNCOVERED_BYTES, position + batch.size_bytes))
            position += batch.size_bytes
    except CorruptBatch:
        return places
    return places
