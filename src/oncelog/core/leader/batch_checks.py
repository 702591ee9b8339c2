"""May a produced batch enter the log? What the leader checks before it looks at any producer's state.

The rules are Apache Kafka's (docs/kafka-notes.md P14-P24). Stricter than Kafka 4.3, each named in
docs/differences-from-kafka.md: null records are answered, the records inside are checked whether compressed or not,
unknown attribute bits and the log-append-time bit are refused, and what cannot be decompressed is INVALID_RECORD
(its CRC is right, so sending it again would not help).
"""

from __future__ import annotations

import struct
from dataclasses import field

from oncelog.errors import CorruptBatch, ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import NO_PRODUCER_ID
from oncelog.wire.compression import Compression, DecompressedTooLarge
from oncelog.wire.crc32c import Data
from oncelog.wire.record import INT64_MAX
from oncelog.wire.record_batch import (
    CODEC_MASK,
    CONTROL_BIT,
    CREATE_TIME,
    DECOMPRESSED_BYTES_MAX,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Codec,
    RecordBatch,
    recompressed,
    set_log_append_time,
    set_max_timestamp,
)
from oncelog.wire.record_codec import check_records

ZSTD_SINCE_VERSION = 7
_KNOWN_BITS = CODEC_MASK | TIMESTAMP_TYPE_BIT | TRANSACTIONAL_BIT | CONTROL_BIT
_HEADER_UP_TO_MAGIC_BYTES = 17
_LEGACY_RECORD_BYTES_MIN = 14  # the smallest length any format ever had: below it Kafka calls the data corrupt
_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class TimestampRules:
    """A topic's `message.timestamp.type`, `.before.max.ms` and `.after.max.ms`."""

    timestamp_type: int = CREATE_TIME
    before_ms_max: int = INT64_MAX
    after_ms_max: int = 3_600_000


@dataclass(frozen=True, slots=True)
class ValidBatch:
    """A batch that may be appended: the produced bytes, corrected where Kafka corrects, and a view over them.

    `batch.set_offsets(...)` places it; `data` is then what goes into the log. `produced_size_bytes` is what came, where
    the topic has a compression of its own.
    """

    batch: RecordBatch
    data: Data = field(repr=False)
    produced_size_bytes: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not. `record_errors` are (index in the batch, message), for Produce v8+.

    `found_in_log` tells where Kafka finds the fault: then the reply carries the real log start offset, else -1
    (docs/kafka-notes.md P3).
    """

    error_code: ErrorCode
    message: str
    record_errors: tuple[tuple[int, str], ...] = ()
    found_in_log: bool = False


def validate_produced(
    data: Data | None,
    *,
    api_version: int,
    size_bytes_max: int,
    compacted: bool,
    now_ms: int,
    timestamp_rules: TimestampRules = TimestampRules(),  # noqa: B008 - frozen
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    compression: Compression | None = None,
) -> ValidBatch | Refused:
    """Judge one partition's produced records. `size_bytes_max` is the topic's `max.message.bytes`.

    `compression` is the topic's own: a batch in another codec is compressed anew, and judged by its size once more.
    `data` that can be written is given away: the batch is corrected and placed where it lies. Other data is copied.
    """
    if data is None:
        return Refused(ErrorCode.INVALID_RECORD, "the partition has no records")
    try:
        view = memoryview(data)
        size_bytes = _single_batch_bytes(view, api_version)
        if isinstance(size_bytes, Refused):
            return size_bytes
        own: Data = bytearray(view[:size_bytes]) if view.readonly else view[:size_bytes]
        batch = RecordBatch(own)
    except CorruptBatch as error:
        return Refused(ErrorCode.CORRUPT_MESSAGE, str(error))
    refused = _judge_header(batch, size_bytes_max)
    if refused is not None:
        return refused
    try:
        section = batch.section_in_place(decompressed_bytes_max)
        refused = _judge_records(batch, section, compacted, now_ms, timestamp_rules)
    except DecompressedTooLarge as error:
        # Java's producer splits a batch that is answered so, which is the right cure.
        return Refused(ErrorCode.MESSAGE_TOO_LARGE, str(error))
    except CorruptBatch as error:
        return Refused(ErrorCode.INVALID_RECORD, str(error), found_in_log=True)
    if refused is not None:
        return refused
    batch = RecordBatch(own)
    if compression is None or batch.attributes & CODEC_MASK == compression.codec:
        return ValidBatch(batch, own, size_bytes)
    own = recompressed(batch, bytes(section), compression)
    return _too_large(len(own), size_bytes_max) or ValidBatch(RecordBatch(own), own, size_bytes)


def _single_batch_bytes(view: memoryview, api_version: int) -> int | Refused:
    size_bytes = _whole_batch_bytes(view)
    if size_bytes is None:
        return Refused(ErrorCode.INVALID_RECORD, "the partition has no whole batch")
    if view[16] != MAGIC:
        return Refused(ErrorCode.INVALID_RECORD, f"only batches of format 2 are taken, not {view[16]}")
    if size_bytes < HEADER_BYTES:
        raise CorruptBatch(f"a batch of {size_bytes} bytes")
    if view[22] & CODEC_MASK == Codec.ZSTD and api_version < ZSTD_SINCE_VERSION:
        return Refused(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd needs Produce {ZSTD_SINCE_VERSION} or newer")
    if _whole_batch_bytes(view[size_bytes:]) is not None:
        return Refused(ErrorCode.INVALID_RECORD, "a partition takes one batch per request")
    return size_bytes


def _whole_batch_bytes(view: memoryview) -> int | None:
    # Kafka's own bounds, so that cut bytes after the batch are ignored where Kafka ignores them (kafka-notes P15, P16).
    if len(view) < LOG_OVERHEAD_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(view, 8)
    if length < _LEGACY_RECORD_BYTES_MIN:
        raise CorruptBatch(f"a batch length of {length}")
    if len(view) < _HEADER_UP_TO_MAGIC_BYTES:
        return None
    if view[16] > MAGIC:
        raise CorruptBatch(f"a batch of format {view[16]}")
    size_bytes: int = length + LOG_OVERHEAD_BYTES
    return size_bytes if size_bytes <= len(view) else None


def _judge_header(batch: RecordBatch, size_bytes_max: int) -> Refused | None:
    if batch.base_offset != 0:
        return _invalid(f"a produced batch has base offset 0, not {batch.base_offset}")
    too_large = _too_large(batch.size_bytes, size_bytes_max)
    if too_large is not None:
        return too_large
    if not batch.crc_is_valid:
        return Refused(ErrorCode.CORRUPT_MESSAGE, "the batch fails its checksum")
    if batch.attributes & ~_KNOWN_BITS:
        return _invalid(f"unknown attribute bits {batch.attributes & ~_KNOWN_BITS:#06x}")
    if batch.attributes & TIMESTAMP_TYPE_BIT:
        return _invalid("a producer may not claim log-append time")
    if batch.record_count <= 0 or batch.last_offset_delta + 1 != batch.record_count:
        return _invalid(f"{batch.record_count} records do not fit last offset delta {batch.last_offset_delta}")
    if batch.is_control:
        return _invalid("a client may not write control records")
    if batch.producer_id > NO_PRODUCER_ID and batch.base_sequence < 0:
        return _invalid(f"sequence {batch.base_sequence} of producer id {batch.producer_id}")
    return None


def _too_large(size_bytes: int, size_bytes_max: int) -> Refused | None:
    if size_bytes <= size_bytes_max:
        return None
    return Refused(ErrorCode.MESSAGE_TOO_LARGE, f"the batch has {size_bytes} bytes, the topic takes {size_bytes_max}")


def _judge_records(
    batch: RecordBatch, section: bytes | memoryview, compacted: bool, now_ms: int, rules: TimestampRules
) -> Refused | None:
    create_time = rules.timestamp_type == CREATE_TIME
    timestamp_min = max(now_ms - rules.before_ms_max, -INT64_MAX) if create_time else -INT64_MAX
    timestamp_max = min(now_ms + rules.after_ms_max, INT64_MAX) if create_time else INT64_MAX
    largest, keyless, untimely = check_records(
        section, batch.record_count, batch.base_timestamp, compacted, timestamp_min, timestamp_max
    )
    if keyless:
        errors = tuple((index, "a compacted topic takes no record without a key") for index in keyless)
        message = f"{len(keyless)} of {batch.record_count} records have no key, and the topic is compacted"
        return Refused(ErrorCode.INVALID_RECORD, message, errors, found_in_log=True)
    if untimely:
        bounds = f"after {timestamp_max}" if timestamp_min < 0 else f"not between {timestamp_min} and {timestamp_max}"
        text = f"the timestamp is {bounds}"
        message = f"{len(untimely)} of {batch.record_count} records have a timestamp too far from the broker's clock"
        errors = tuple((index, text) for index in untimely)
        return Refused(ErrorCode.INVALID_TIMESTAMP, message, errors, found_in_log=True)
    if rules.timestamp_type == LOG_APPEND_TIME:
        set_log_append_time(batch.data, now_ms)
    elif batch.max_timestamp != largest:
        set_max_timestamp(batch.data, largest)
    return None


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_RECORD, message, found_in_log=True)
