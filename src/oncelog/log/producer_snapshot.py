"""`.snapshot`: what the partition leader knew of its producers up to (exclusive) the offset in the file's name.

version int16 = 1, CRC-32C uint32 of everything from byte 6 on, count int32, then per producer 46 bytes, big endian:
producer id int64, producer epoch int16, last sequence int32, last offset int64, offset delta int32, timestamp int64,
coordinator epoch int32, first offset of the open transaction int64 (-1: none). Only a producer's last batch is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter
from struct import Struct

from oncelog.errors import CorruptIndex
from oncelog.log.counted_file import HEAD_SIZE_BYTES, count_of, with_head
from oncelog.types import ProducerSnapshotEntry

SUFFIX = ".snapshot"
_ENTRY = Struct(">qhiqiqiq")


def snapshot_to_bytes(entries: Iterable[ProducerSnapshotEntry]) -> bytes:
    """The file for these producers, in the order of their ids: the same state gives the same bytes."""
    parts = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in sorted(entries, key=attrgetter("producer_id"))
    ]
    return with_head(len(parts), b"".join(parts))


def snapshot_from_bytes(data: bytes) -> list[ProducerSnapshotEntry]:
    """Read a snapshot. Raises CorruptIndex on a wrong version, checksum or length."""
    count = count_of(data, "producer snapshot")
    if len(data) != HEAD_SIZE_BYTES + count * _ENTRY.size:
        raise CorruptIndex(f"producer snapshot: {len(data)} bytes cannot hold {count} producers")
    return [ProducerSnapshotEntry(*fields) for fields in _ENTRY.iter_unpack(data[HEAD_SIZE_BYTES:])]


def file_name(end_offset: int) -> str:
    """The name of the snapshot that covers everything below `end_offset`."""
    return f"{end_offset:020d}{SUFFIX}"
