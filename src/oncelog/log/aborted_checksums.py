"""`.oncelog_aborted_index`: checksums of the transaction indexes that a clean stop left behind.

Kafka's `.txnindex` has no checksum, and a segment without aborted transactions has no such file: one that is lost, or has
another producer id in an entry, cannot be told from a sound one, and read_committed readers would get aborted records.
After a clean stop nobody checks the log against it either. So the stop notes what it left, and the next start compares; one after
a crash compares the beginning that the file had then.

version int16 = 1, CRC-32C uint32 of everything from byte 6 on, count of partitions int32, each: topic id 16 bytes, partition
int32, count of segments int32, each: base offset int64, CRC-32C uint32 of its file. Big endian. Only segments with an aborted
transaction are in it. Beside them stands, as -1 minus its offset, the `.snapshot` at the end: it has a checksum, but another
partition's has a right one, too, and with foreign producers a transaction that is open would be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from struct import error as layout_error
from typing import Protocol

from oncelog.errors import CorruptIndex
from oncelog.log.counted_file import HEAD_SIZE_BYTES, count_of, with_head
from oncelog.log.files import Files
from oncelog.log.transaction_index import aborted_to_bytes
from oncelog.types import AbortedTransaction
from oncelog.wire.crc32c import crc32c

ABORTED_CHECKSUMS = ".oncelog_aborted_index"
_PARTITION = Struct(">16sii")
_SEGMENT = Struct(">qI")

Checksums = Mapping[int, int]  # by the base offset of a segment that has aborted transactions, and `snapshot_key`
PartitionId = tuple[bytes, int]  # topic id and partition: another topic may have the name later


class _Segment(Protocol):
    base_offset: int

    @property
    def aborted(self) -> Sequence[AbortedTransaction]: ...


def snapshot_key(offset: int) -> int:
    """Under which the checksum of the snapshot at a log's end stands: below all offsets."""
    return -1 - offset


def checksum_of(entries: Sequence[AbortedTransaction]) -> int:
    """Of the file that has these entries."""
    return crc32c(b"".join(map(aborted_to_bytes, entries)))


def checksums_left(files: Files, segments: Iterable[_Segment], snapshot: str | None, end_offset: int) -> dict[int, int]:
    """What a clean stop notes of a log: of each transaction index, and of the snapshot at its end. Raises StorageError."""
    found = {each.base_offset: checksum_of(each.aborted) for each in segments if each.aborted}
    if snapshot is not None:
        found[snapshot_key(end_offset)] = crc32c(files.read_whole(snapshot))
    return found


def checksums_of_beginnings(entries: Sequence[AbortedTransaction]) -> set[int]:
    """Of the files that have the first of these entries, and more and more of them."""
    checksum, found = 0, set()
    for entry in entries:
        checksum = crc32c(aborted_to_bytes(entry), checksum)
        found.add(checksum)
    return found


def checksums_to_bytes(found: Mapping[PartitionId, Checksums]) -> bytes:
    """The file; the same state gives the same bytes."""
    parts: list[bytes] = []
    for (topic_id, partition), segments in sorted(found.items()):
        parts.append(_PARTITION.pack(topic_id, partition, len(segments)))
        parts += [_SEGMENT.pack(*each) for each in sorted(segments.items())]
    return with_head(len(found), b"".join(parts))


def checksums_from_bytes(data: bytes) -> dict[PartitionId, Checksums]:
    """Read the file. Raises CorruptIndex."""
    found: dict[PartitionId, Checksums] = {}
    count, pos = count_of(data, "checksums of transaction indexes"), HEAD_SIZE_BYTES
    try:
        for _ in range(count):
            topic_id, partition, segment_count = _PARTITION.unpack_from(data, pos)
            pos += _PARTITION.size
            end = pos + segment_count * _SEGMENT.size
            found[topic_id, partition] = dict(_SEGMENT.iter_unpack(data[pos:end]))
            pos = end
    except layout_error as error:
        raise CorruptIndex(f"checksums of transaction indexes: {error}") from error
    if pos != len(data):
        raise CorruptIndex(f"checksums of transaction indexes: {len(data)} bytes instead of {pos}")
    return found


class AbortedChecksumsFile:
    """The file in a data directory, as the last clean stop left it."""

    def __init__(self, files: Files, data_directory: str) -> None:
        self._files = files
        self._path = f"{data_directory}/{ABORTED_CHECKSUMS}"
        self._found: dict[PartitionId, Checksums] = {}

    def read(self) -> str | None:
        """Look what it holds; why that cannot be used, where it cannot. Raises StorageError."""
        try:
            self._found = (
                checksums_from_bytes(self._files.read_whole(self._path)) if self._files.exists(self._path) else {}
            )
        except CorruptIndex as error:
            return f"{self._path}: {error}; transaction indexes are taken as they are"
        return None

    def of(self, topic_id: bytes, partition: int) -> Checksums | None:
        """What a partition's segments had at the clean stop; None where nothing is known."""
        return self._found.get((topic_id, partition))

    def of_those(self, keys: Iterable[PartitionId]) -> dict[PartitionId, Checksums]:
        """What is known of these partitions."""
        return {key: self._found[key] for key in keys if key in self._found}

    def write(self, found: Mapping[PartitionId, Checksums]) -> None:
        """Durably hold these instead. Raises StorageError."""
        kept = {key: segments for key, segments in found.items() if segments}
        if kept or self._files.exists(self._path):
            self._files.replace_whole(self._path, checksums_to_bytes(kept))
        self._found = kept
