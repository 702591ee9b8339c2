"""The records inside a batch, read and written one after the other: the hot loops of the wire.

One source for both worlds: `record_codec.pxd` gives these functions C types when Cython compiles this file, and
without a compiler it runs as it stands, with the same results. A record is varint-framed (KIP-98):
length | attributes int8 | timestamp delta | offset delta | key | value | headers.
Rule: whatever the bytes are, a reader gives records or raises CorruptBatch; nothing is sized from a count alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from oncelog.errors import CorruptBatch
from oncelog.wire.record import Record

try:
    import cython
except ImportError:
    from oncelog.wire import uncompiled as cython

if not cython.compiled:  # compiled, they come as C functions through the .pxd
    from oncelog.wire.record import new_placed
    from oncelog.wire.varint import (
        add_delta,
        delta_between,
        read_int32,
        read_size,
        read_varint,
        varint_bytes,
        write_varint,
    )

    def bytes_of(section: Any) -> Any:
        return section


# C variables when compiled, so not for others to import.
INT32_MAX = 0x7FFFFFFF
RECORD_BYTES_MIN = 7  # one byte each: length, attributes, two deltas, key, value, header count
NO_TIMESTAMP = -1
PLACED_FIELDS = 8

Place: TypeAlias = tuple[type[Any], str, int, int]

_new_tuple = tuple.__new__


def parse_records(
    section: bytes,
    record_count: int,
    base_offset: int,
    base_timestamp: int,
    append_timestamp: int | None,
    place: Place | None = None,
) -> list[Any]:
    """All records of a decompressed section; `append_timestamp` replaces theirs on log-append-time batches.

    `place`: (a named tuple, topic, partition, timestamp type); with it the records are of that kind: (topic, partition,
    offset, timestamp, timestamp type, key, value, headers). Without it they are `Record`s.
    """
    kind: Any = Record
    topic: Any = None
    partition: Any = None
    timestamp_type: Any = None
    if place is not None:
        kind, topic, partition, timestamp_type = place
        if not issubclass(kind, tuple) or len(kind._fields) != PLACED_FIELDS:
            raise TypeError(f"{kind} is no named tuple of {PLACED_FIELDS} fields")
    data = section
    end = len(section)
    pos = 0
    if record_count < 0 or record_count > end // RECORD_BYTES_MIN:
        raise CorruptBatch(f"{record_count} records cannot be in {end} bytes")
    records: list[Any] = []
    for _ in range(record_count):
        size, pos = read_size(data, pos, end)
        if size < RECORD_BYTES_MIN - 1:
            raise CorruptBatch("a record's length is impossible")
        record_end = pos + size
        delta, pos = read_varint(data, pos + 1, record_end)
        timestamp = add_delta(base_timestamp, delta)
        delta, pos = read_int32(data, pos, record_end)
        if delta > INT32_MAX or delta < -INT32_MAX:
            raise CorruptBatch("a record's offset delta is impossible")
        offset = add_delta(base_offset, delta)
        size, pos = read_size(data, pos, record_end)
        key = None
        if size >= 0:
            key = data[pos : pos + size]
            pos += size
        size, pos = read_size(data, pos, record_end)
        value = None
        if size >= 0:
            value = data[pos : pos + size]
            pos += size
        headers: tuple[tuple[str, bytes | None], ...] = ()
        if pos + 1 != record_end or data[pos] != 0:
            headers = parse_headers(data, pos, record_end)
        pos = record_end
        when = timestamp if append_timestamp is None else append_timestamp
        if place is None:
            records.append(_new_tuple(kind, (offset, when, key, value, headers)))
        else:
            records.append(new_placed(kind, topic, partition, offset, when, timestamp_type, key, value, headers))
    if pos != end:
        raise CorruptBatch(f"{end - pos} bytes after the last record")
    return records


def parse_headers(data: bytes, pos: int, record_end: int) -> tuple[tuple[str, bytes | None], ...]:
    count, pos = read_int32(data, pos, record_end)
    if count < 0 or count > (record_end - pos) // 2:
        raise CorruptBatch("a record's header count is impossible")
    headers = []
    for _ in range(count):
        size, pos = read_size(data, pos, record_end)
        if size < 0:
            raise CorruptBatch("a header has no key")
        # Nobody checks a header's key on the way in, so a reader must not stumble over it (as Java: replace).
        key = data[pos : pos + size].decode("utf-8", "replace")
        pos += size
        size, pos = read_size(data, pos, record_end)
        value = None
        if size >= 0:
            value = data[pos : pos + size]
            pos += size
        headers.append((key, value))
    if pos != record_end:
        raise CorruptBatch("a record's length is wrong")
    return tuple(headers)


def short_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """A number of four bytes at most and the position after it, or -1 as the position where it is longer or cut short.

    No error to look for: that was a third of what judging a record of 100 B cost.
    """
    raw = 0
    for shift in range(0, 28, 7):
        if pos >= end:
            return 0, -1
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), pos
    return 0, -1


def check_records(  # noqa: C901 - one loop: a call that may raise costs as much as what it reads
    section: bytes | memoryview,
    record_count: int,
    base_timestamp: int,
    needs_key: bool,
    timestamp_min: int,
    timestamp_max: int,
) -> tuple[int, list[int], list[int]]:
    """Judge a produced section without making records of it: stricter than the reader.

    Gives the largest timestamp, the indexes of records without a key (where one is needed), and of those whose
    timestamp lies outside the bounds. CorruptBatch says what else is wrong: every length must fit, attributes be zero,
    offset deltas count 0, 1, 2 (Apache Kafka 4.3 checks none of these uncompressed: docs/kafka-notes.md P18).
    """
    end = len(section)
    data = bytes_of(section)
    pos = 0
    if record_count < 0 or record_count > end // RECORD_BYTES_MIN:
        raise CorruptBatch(f"{record_count} records cannot be in {end} bytes")
    largest = NO_TIMESTAMP
    keyless: list[int] = []
    untimely: list[int] = []
    for index in range(record_count):
        size, after = short_varint(data, pos, end)
        if after < 0 or size > end - after:
            size, after = read_size(data, pos, end)
        pos = after
        if size < RECORD_BYTES_MIN - 1:
            raise CorruptBatch(f"record {index} has an impossible length")
        record_end = pos + size
        if data[pos] != 0:
            raise CorruptBatch(f"record {index} has unknown attributes")
        delta, after = short_varint(data, pos + 1, record_end)
        if after < 0:
            delta, after = read_varint(data, pos + 1, record_end)
        timestamp = add_delta(base_timestamp, delta)
        if timestamp > largest:
            largest = timestamp
        if timestamp != NO_TIMESTAMP and (timestamp < timestamp_min or timestamp > timestamp_max):
            untimely.append(index)
        delta, pos = short_varint(data, after, record_end)
        if pos < 0:
            delta, pos = read_int32(data, after, record_end)
        if delta != index:
            raise CorruptBatch(f"record {index} has offset delta {delta}")
        size, after = short_varint(data, pos, record_end)
        if after < 0 or size > record_end - after:
            size, after = read_size(data, pos, record_end)
        if size < -1:
            raise CorruptBatch(f"record {index} has an impossible key length")
        if size >= 0:
            after += size
        elif needs_key:
            keyless.append(index)
        size, pos = short_varint(data, after, record_end)
        if pos < 0 or size > record_end - pos:
            size, pos = read_size(data, after, record_end)
        if size < -1:
            raise CorruptBatch(f"record {index} has an impossible value length")
        if size > 0:
            pos += size
        if pos + 1 != record_end or data[pos] != 0:
            check_headers(data, pos, record_end, index)
        pos = record_end
    if pos != end:
        raise CorruptBatch(f"{end - pos} bytes after the last record")
    return largest, keyless, untimely


def check_headers(data: bytes, pos: int, record_end: int, index: int) -> None:
    count, pos = read_int32(data, pos, record_end)
    if count < 0 or count > (record_end - pos) // 2:
        raise CorruptBatch(f"record {index} has an impossible header count")
    for _ in range(count):
        size, pos = read_size(data, pos, record_end)
        if size < 0:
            raise CorruptBatch(f"record {index} has an impossible header key length")
        pos += size
        size, pos = read_size(data, pos, record_end)
        if size < -1:
            raise CorruptBatch(f"record {index} has an impossible header value length")
        if size > 0:
            pos += size
    if pos != record_end:
        raise CorruptBatch(f"record {index} has a wrong length")


def encode_records(
    records: Sequence[tuple[int, bytes | None, bytes | None, Sequence[tuple[str, bytes | None]]]], base_timestamp: int
) -> bytearray:
    """The uncompressed section of records (timestamp_ms, key, value, headers), their offset deltas counting from 0."""
    out = bytearray()
    index = 0
    for timestamp, key, value, headers in records:
        header_section = encode_headers(headers) if headers else b"\x00"
        timestamp_delta = delta_between(base_timestamp, timestamp)
        key_bytes = -1 if key is None else len(key)
        value_bytes = -1 if value is None else len(value)
        size = 1 + varint_bytes(timestamp_delta) + varint_bytes(index) + len(header_section)
        size += varint_bytes(key_bytes) + varint_bytes(value_bytes)
        if key_bytes > 0:
            size += key_bytes
        if value_bytes > 0:
            size += value_bytes
        write_varint(out, size)
        out.append(0)
        write_varint(out, timestamp_delta)
        write_varint(out, index)
        write_varint(out, key_bytes)
        if key is not None:
            out += key
        write_varint(out, value_bytes)
        if value is not None:
            out += value
        out += header_section
        index += 1  # noqa: SIM113 - a C integer when compiled, which enumerate's is not
    return out


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytearray:
    out = bytearray()
    write_varint(out, len(headers))
    for key, value in headers:
        encoded = key.encode()
        write_varint(out, len(encoded))
        out += encoded
        write_varint(out, -1 if value is None else len(value))
        if value is not None:
            out += value
    return out
