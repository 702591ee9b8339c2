"""`producer-windows-checkpoint`: the duplicate windows of all partitions at the snapshots of the last recovery.

A `.snapshot` keeps a producer's last batch; the four before it are known only from the log behind an older snapshot.
Once a recovery has stored how far it got, the next one does not read them: without this file a producer whose batches
were in flight over two crashes in a row would be told that its first retry is out of order, and write it twice.

version int16 = 1, CRC-32C uint32 of everything from byte 6 on, count of snapshots int32, each: topic id 16 bytes,
partition int32, offset of the snapshot int64, count of producers int32, each: producer id int64, producer epoch int16,
count of batches int16, each: last sequence int32, last offset int64, offset delta int32, timestamp int64. Big endian.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from heapq import nlargest
from struct import Struct
from struct import error as layout_error
from typing import NamedTuple

from oncelog.errors import CorruptIndex
from oncelog.log.counted_file import HEAD_SIZE_BYTES, count_of, with_head
from oncelog.log.files import Files
from oncelog.types import ProducerSnapshotEntry, WindowBatch

PRODUCER_WINDOWS = "producer-windows-checkpoint"
PRODUCER_COUNT_MAX = 100_000  # of all partitions together, those that wrote last; some 12 MB
_SNAPSHOT = Struct(">16siqi")
_PRODUCER = Struct(">qhh")
_BATCH = Struct(">iqiq")

Windows = dict[int, tuple[int, tuple[WindowBatch, ...]]]  # by producer id: its epoch, the batches before its last


class SnapshotKey(NamedTuple):
    """A snapshot of a partition; the topic's id, as another topic may have its name later."""

    topic_id: bytes
    partition: int
    offset: int


def windows_of(entries: Iterable[ProducerSnapshotEntry]) -> Windows:
    """From what a partition tells of its producers."""
    return {each.producer_id: (each.producer_epoch, each.earlier) for each in entries}


def completed(entries: Iterable[ProducerSnapshotEntry], windows: Windows) -> list[ProducerSnapshotEntry]:
    """The entries of a snapshot with what is known beyond them."""
    return [_completed(entry, *windows.get(entry.producer_id, (None, ()))) for entry in entries]


def _completed(
    entry: ProducerSnapshotEntry, producer_epoch: int | None, earlier: tuple[WindowBatch, ...]
) -> ProducerSnapshotEntry:
    return replace(entry, earlier=earlier) if producer_epoch == entry.producer_epoch else entry


def bounded(found: Mapping[SnapshotKey, Windows], count_max: int = PRODUCER_COUNT_MAX) -> dict[SnapshotKey, Windows]:
    """The producers that wrote last, so many of all snapshots together."""
    written = [
        (batches[-1].timestamp, key, producer_id)
        for key, windows in found.items()
        for producer_id, (_, batches) in windows.items()
    ]
    kept: dict[SnapshotKey, Windows] = {}
    for _, key, producer_id in nlargest(count_max, written):
        kept.setdefault(key, {})[producer_id] = found[key][producer_id]
    return kept


def windows_to_bytes(found: Mapping[SnapshotKey, Windows]) -> bytes:
    """The file; the same state gives the same bytes."""
    parts: list[bytes] = []
    for key, windows in sorted(found.items()):
        parts.append(_SNAPSHOT.pack(*key, len(windows)))
        for producer_id, (producer_epoch, batches) in sorted(windows.items()):
            parts.append(_PRODUCER.pack(producer_id, producer_epoch, len(batches)))
            parts += [_BATCH.pack(*each) for each in batches]
    return with_head(len(found), b"".join(parts))


def windows_from_bytes(data: bytes) -> dict[SnapshotKey, Windows]:
    """Read the file. Raises CorruptIndex."""
    found: dict[SnapshotKey, Windows] = {}
    count, pos = count_of(data, "producer windows"), HEAD_SIZE_BYTES
    try:
        for _ in range(count):
            *key, producer_count = _SNAPSHOT.unpack_from(data, pos)
            windows, pos = _windows(data, pos + _SNAPSHOT.size, producer_count)
            found[SnapshotKey(*key)] = windows
    except layout_error as error:
        raise CorruptIndex(f"producer windows: {error}") from error
    if pos != len(data):
        raise CorruptIndex(f"producer windows: {len(data) - pos} bytes too many")
    return found


def _windows(data: bytes, pos: int, producer_count: int) -> tuple[Windows, int]:
    windows: Windows = {}
    for _ in range(producer_count):
        producer_id, producer_epoch, batch_count = _PRODUCER.unpack_from(data, pos)
        pos += _PRODUCER.size
        end = pos + batch_count * _BATCH.size
        if batch_count < 1 or end > len(data):
            raise CorruptIndex(f"producer windows: {batch_count} batches cannot be")
        windows[producer_id] = producer_epoch, tuple(WindowBatch(*each) for each in _BATCH.iter_unpack(data[pos:end]))
        pos = end
    return windows, pos


class ProducerWindowsFile:
    """The file in a data directory."""

    def __init__(self, files: Files, data_directory: str) -> None:
        self._files = files
        self._path = f"{data_directory}/{PRODUCER_WINDOWS}"
        self._stored: dict[SnapshotKey, Windows] = {}
        self._read: dict[tuple[bytes, int], dict[int, Windows]] = {}

    def read(self) -> None:
        """Look what it holds. Raises CorruptIndex, StorageError; then it counts as empty."""
        if self._files.exists(self._path):
            self._stored = windows_from_bytes(self._files.read_whole(self._path))
        for key, windows in self._stored.items():
            self._read.setdefault(key[:2], {})[key.offset] = windows

    def of(self, topic_id: bytes, partition: int) -> Mapping[int, Windows]:
        """What it held of a partition when it was read, by the offset of the snapshot that it completes."""
        return self._read.get((topic_id, partition), {})

    def stored(self, keys: Iterable[tuple[bytes, int]]) -> dict[SnapshotKey, Windows]:
        """What it holds of these topic ids and partitions now."""
        wanted = set(keys)
        return {key: windows for key, windows in self._stored.items() if key[:2] in wanted}

    def add(self, found: Mapping[SnapshotKey, Windows]) -> None:
        """Durably hold these too: which snapshots the next start begins with is not stored yet. Raises StorageError."""
        self._write(bounded({**self._stored, **found}))

    def keep(self, found: Mapping[SnapshotKey, Windows]) -> None:
        """Durably hold these only. Raises StorageError."""
        self._write(bounded(found))

    def _write(self, found: dict[SnapshotKey, Windows]) -> None:
        if found != self._stored:
            self._files.replace_whole(self._path, windows_to_bytes(found))
            self._stored = found
            self._read = {}  # everything was opened
