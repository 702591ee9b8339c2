"""Record batches, format 2 (KIP-98): a header of 61 bytes and a section of records, compressed as one block.

`RecordBatch` is a view: nothing is copied until records are asked for. The CRC-32C covers attributes to the last
record, so base offset and leader epoch may be set in place by whoever appends (`set_offsets`).
Rule: whatever the bytes are, reading gives values or raises CorruptBatch, nothing else.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from oncelog.errors import CorruptBatch
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from oncelog.wire.compression import Codec as Codec
from oncelog.wire.compression import Compression, compress, decompress
from oncelog.wire.control_records import EndTxnMarker as EndTxnMarker
from oncelog.wire.control_records import end_txn_marker_from_bytes, end_txn_marker_to_bytes
from oncelog.wire.crc32c import Data, crc32c
from oncelog.wire.record import NO_TIMESTAMP as NO_TIMESTAMP
from oncelog.wire.record import Headers as Headers
from oncelog.wire.record import Record as Record
from oncelog.wire.record_codec import encode_records, parse_records

PlacedRecord = TypeVar("PlacedRecord", bound=tuple[Any, ...])

HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12  # base offset and batch length, which the length does not count
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
MAGIC = 2
CREATE_TIME = 0
LOG_APPEND_TIME = 1

CODEC_MASK = 0x07
TIMESTAMP_TYPE_BIT = 0x08
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20
DELETE_HORIZON_BIT = 0x40

_HEADER = struct.Struct(">qiibIHiqqqhii")
_COVERED = struct.Struct(">Hiqqqhii")  # from the attributes on: what the CRC covers of the header
_OFFSET_AND_LENGTH = struct.Struct(">qi")
_LEADER_EPOCH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_ATTRIBUTES = struct.Struct(">H")
_INT64 = struct.Struct(">q")
_CRC_POSITION = 17
_ATTRIBUTES_POSITION = 21
_MAX_TIMESTAMP_POSITION = 35
_SEQUENCE_MODULUS = 1 << 31


def next_sequence(sequence: int, increment: int) -> int:
    """`sequence` + `increment`, where 0 follows 2147483647."""
    return (sequence + increment) % _SEQUENCE_MODULUS


class RecordBatch:
    """A view over one batch. Header fields are attributes; `data` is the batch, or what there is of it.

    `size_bytes` is the whole batch by its header. `attributes` is unsigned. `max_timestamp` and the others are in ms.
    `last_offset` is the last record's, which survives compaction; `end_offset` the one behind it. `is_transactional`: it
    belongs to a transaction (markers do, too); `is_control`: it holds a control record, which no reader is shown. They are
    worked out once: an append asks for the offsets ten times.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "data",
        "end_offset",
        "is_control",
        "is_transactional",
        "last_offset",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
    )

    def __init__(self, data: Data, position: int = 0) -> None:
        view = memoryview(data)
        if len(view) - position < HEADER_BYTES:
            raise CorruptBatch(f"{len(view) - position} bytes are no batch")
        (
            self.base_offset,
            batch_length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = _HEADER.unpack_from(view, position)
        if self.magic != MAGIC:
            raise CorruptBatch(f"a batch of format {self.magic}")
        self.last_offset: int = self.base_offset + self.last_offset_delta
        self.end_offset: int = self.last_offset + 1
        self.is_transactional: bool = self.attributes & TRANSACTIONAL_BIT != 0
        self.is_control: bool = self.attributes & CONTROL_BIT != 0
        self.size_bytes: int = batch_length + LOG_OVERHEAD_BYTES
        if self.size_bytes < HEADER_BYTES:
            raise CorruptBatch(f"a batch of {self.size_bytes} bytes")
        self.data = view[position : position + self.size_bytes]

    def __repr__(self) -> str:
        kind = "control" if self.is_control else "transactional" if self.is_transactional else "plain"
        return (
            f"<RecordBatch {kind} offsets {self.base_offset}..{self.last_offset} producer {self.producer_id}:"
            f"{self.producer_epoch} sequence {self.base_sequence} {self.size_bytes} bytes>"
        )

    @property
    def last_sequence(self) -> int:
        """Sequence of the last record, -1 when the batch has none."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return next_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> Codec:
        """How the record section is compressed."""
        try:
            return Codec(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptBatch(f"unknown compression codec {self.attributes & CODEC_MASK}") from None

    @property
    def timestamp_type(self) -> int:
        """`CREATE_TIME` or `LOG_APPEND_TIME`."""
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def append_timestamp(self) -> int | None:
        """The timestamp of every record on log-append-time batches, else None."""
        return self.max_timestamp if self.attributes & TIMESTAMP_TYPE_BIT else None

    @property
    def first_timestamp(self) -> int:
        """Timestamp that the records' deltas count from (the delete horizon, where the cleaner has set one)."""
        return int(self.base_timestamp)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether the cleaner stored a delete horizon in place of the base timestamp."""
        return bool(self.attributes & DELETE_HORIZON_BIT)

    @property
    def crc_is_valid(self) -> bool:
        """Whether the batch is whole and its checksum right."""
        return len(self.data) == self.size_bytes and crc32c(self.data[_ATTRIBUTES_POSITION:]) == self.crc

    def set_offsets(self, base_offset: int, leader_epoch: int) -> None:
        """Give the batch its place in the log, in the view and in the bytes below it (which must be writable)."""
        set_offsets(self.data, base_offset, leader_epoch)
        self.base_offset = base_offset
        self.last_offset = base_offset + self.last_offset_delta
        self.end_offset = self.last_offset + 1
        self.partition_leader_epoch = leader_epoch

    def check_crc(self) -> None:
        """Raise CorruptBatch unless the batch is whole and its checksum right."""
        if len(self.data) != self.size_bytes:
            raise CorruptBatch(f"the batch at offset {self.base_offset} is cut short")
        if not self.crc_is_valid:
            raise CorruptBatch(f"the batch at offset {self.base_offset} fails its checksum")

    def section(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes:
        """The decompressed record section; CorruptBatch past `bytes_max`."""
        if len(self.data) != self.size_bytes:
            raise CorruptBatch(f"the batch at offset {self.base_offset} is cut short")
        return decompress(self.attributes & CODEC_MASK, self.data[HEADER_BYTES:], bytes_max)

    def section_in_place(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> bytes | memoryview:
        """As `section`, but a view of the batch where nothing is compressed."""
        if self.attributes & CODEC_MASK or not HEADER_BYTES <= self.size_bytes == len(self.data) <= bytes_max:
            return self.section(bytes_max)
        return self.data[HEADER_BYTES:]

    def records(self, bytes_max: int = DECOMPRESSED_BYTES_MAX) -> list[Record]:
        """All records; CorruptBatch when they cannot be read or grow past `bytes_max`. Checks no CRC."""
        return parse_records(
            self.section(bytes_max), self.record_count, self.base_offset, self.base_timestamp, self.append_timestamp
        )

    def records_as(self, kind: type[PlacedRecord], topic: str, partition: int) -> list[PlacedRecord]:
        """All records as named tuples (topic, partition, offset, timestamp, timestamp type, key, value, headers)."""
        return parse_records(
            self.section(),
            self.record_count,
            self.base_offset,
            self.base_timestamp,
            self.append_timestamp,
            (kind, topic, partition, self.timestamp_type),
        )

    def end_txn_marker(self) -> EndTxnMarker | None:
        """The end-transaction marker of a control batch; None for every other batch."""
        if not self.is_control:
            return None
        records = self.records()
        if not records:
            return None
        return end_txn_marker_from_bytes(records[0].key, records[0].value)


def batches(data: Data, position: int = 0) -> Iterator[RecordBatch]:
    """The batches in `data`, one after the other; one that is cut off at the end is left out.

    A fetch answers with whole bytes of the log, so the last batch may be cut. CorruptBatch when a length or format is
    impossible; checksums are the caller's business.
    """
    view = memoryview(data)
    end = len(view)
    while end - position >= HEADER_BYTES:
        batch = RecordBatch(view, position)
        if batch.size_bytes > end - position:
            return
        yield batch
        position += batch.size_bytes


def build_batch(
    records: Sequence[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]],
    *,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    codec: Codec = Codec.NONE,
    timestamp_type: int = CREATE_TIME,
    partition_leader_epoch: int = -1,
    is_control: bool = False,
    compression_level: int | None = None,
) -> bytearray:
    """A batch of (timestamp_ms, key, value, headers) tuples, at least one."""
    assert records, "a batch has at least one record"
    base_timestamp = records[0][0]
    return build_batch_of_section(
        encode_records(records, base_timestamp),
        record_count=len(records),
        base_timestamp=base_timestamp,
        max_timestamp=max(record[0] for record in records),
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        is_transactional=is_transactional,
        codec=codec,
        timestamp_type=timestamp_type,
        partition_leader_epoch=partition_leader_epoch,
        is_control=is_control,
        compression_level=compression_level,
    )


def build_batch_of_section(
    section: Data,
    *,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    base_offset: int = 0,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    codec: Codec = Codec.NONE,
    timestamp_type: int = CREATE_TIME,
    partition_leader_epoch: int = -1,
    is_control: bool = False,
    compression_level: int | None = None,
) -> bytearray:
    """A batch around an encoded, uncompressed record section whose offset deltas count from 0."""
    attributes = codec | (TIMESTAMP_TYPE_BIT if timestamp_type else 0)
    attributes |= (TRANSACTIONAL_BIT if is_transactional else 0) | (CONTROL_BIT if is_control else 0)
    payload = section if codec is Codec.NONE else compress(codec, section, compression_level)
    batch = bytearray(
        _HEADER.pack(
            base_offset,
            HEADER_BYTES - LOG_OVERHEAD_BYTES + len(payload),
            partition_leader_epoch,
            MAGIC,
            0,
            attributes,
            record_count - 1,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
    )
    batch += payload
    _set_crc(batch)
    return batch


def batch_of_header(
    batch: RecordBatch,
    payload: Data,
    *,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    record_count: int,
) -> bytearray:
    """`batch` with other records (`payload` is compressed as `attributes` say), its place and producer unchanged."""
    copy = bytearray(HEADER_BYTES)
    copy += payload
    _OFFSET_AND_LENGTH.pack_into(copy, 0, batch.base_offset, len(copy) - LOG_OVERHEAD_BYTES)
    _LEADER_EPOCH.pack_into(copy, 12, batch.partition_leader_epoch)
    copy[16] = MAGIC
    _COVERED.pack_into(
        copy,
        _ATTRIBUTES_POSITION,
        attributes,
        batch.last_offset_delta,
        base_timestamp,
        max_timestamp,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        record_count,
    )
    _set_crc(copy)
    return copy


def recompressed(batch: RecordBatch, section: Data, compression: Compression) -> bytearray:
    """`batch` with its decompressed `section` in another codec: records, place and producer stay as they are."""
    codec, level = compression
    return batch_of_header(
        batch,
        section if codec is Codec.NONE else compress(codec, section, level),
        attributes=batch.attributes & ~CODEC_MASK | codec,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
        record_count=batch.record_count,
    )


def build_end_txn_marker(
    *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """The control batch that ends a transaction in a partition: one record, no sequence, never compressed."""
    key, value = end_txn_marker_to_bytes(EndTxnMarker(commit, coordinator_epoch))
    return build_batch(
        [(timestamp_ms, key, value, ())],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def set_offsets(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Give an appended batch its place, in place: both fields lie outside the CRC."""
    _INT64.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, 12, leader_epoch)


def set_log_append_time(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Stamp a batch with the broker's clock: only the type bit and the largest timestamp change (kafka-notes P24)."""
    (attributes,) = _ATTRIBUTES.unpack_from(batch, _ATTRIBUTES_POSITION)
    _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_POSITION, attributes | TIMESTAMP_TYPE_BIT)
    set_max_timestamp(batch, timestamp_ms)


def set_max_timestamp(batch: bytearray | memoryview, timestamp_ms: int) -> None:
    """Correct the largest timestamp, and the CRC with it."""
    _INT64.pack_into(batch, _MAX_TIMESTAMP_POSITION, timestamp_ms)
    _set_crc(batch)


def _set_crc(batch: bytearray | memoryview) -> None:
    with memoryview(batch) as view, view[_ATTRIBUTES_POSITION:] as covered:
        _CRC.pack_into(batch, _CRC_POSITION, crc32c(covered))
