"""Zigzag variable-length numbers and the checked 64-bit sums of records, for record_codec.py and arrow_codec.py.

Compiled by Cython where a compiler is there (`varint.pxd` has the C types), the same source in plain Python else.
"""

from __future__ import annotations

from oncelog.errors import CorruptBatch

# C variables when compiled, so not for others to import.
INT64_MAX = 0x7FFFFFFFFFFFFFFF
INT32_MAX = 0x7FFFFFFF
INT32_BYTES_MAX = 5


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The number at `pos` and the position after it; it must end before `end`."""
    raw = 0
    shift = 0
    while True:
        if pos >= end:
            raise CorruptBatch("a record is cut short")
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63 or (shift == 63 and pos < end and data[pos] > 1):
            raise CorruptBatch("a variable-length number is too long")
    return (raw >> 1) ^ -(raw & 1), pos


def read_int32(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """A number of 32 bits: Java reads lengths, counts and offset deltas from five bytes at most."""
    start = pos
    value, pos = read_varint(data, pos, end)
    if pos - start > INT32_BYTES_MAX:
        raise CorruptBatch("a variable-length number of 32 bits is longer than five bytes")
    if value > INT32_MAX or value < -INT32_MAX - 1:
        raise CorruptBatch("a variable-length number passes 32 bits")
    return value, pos


def read_size(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """A length whose bytes must end before `end`; any negative one is null, as in Java's reader."""
    size, pos = read_int32(data, pos, end)
    if size > end - pos:
        raise CorruptBatch("a length passes the end of its record")
    return size, pos


def write_varint(out: bytearray, value: int) -> None:
    """Append a number."""
    if 0 <= value < 64:
        out.append(value << 1)
        return
    raw = (value << 1) ^ (value >> 63)
    while raw >= 0x80:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)


def put_varint(out: bytearray, pos: int, value: int) -> int:
    """Write a number over what is at `pos`; gives the position after it."""
    raw = (value << 1) ^ (value >> 63)
    while raw >= 0x80:
        out[pos] = (raw & 0x7F) | 0x80
        pos += 1
        raw >>= 7
    out[pos] = raw
    return pos + 1


def varint_bytes(value: int) -> int:
    """How long a number is when written."""
    raw = (value << 1) ^ (value >> 63)
    size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


def add_delta(start: int, delta: int) -> int:
    """The sum; C would wrap around where Python grows, and no producer writes a batch that needs either."""
    if (delta > 0 and start > INT64_MAX - delta) or (delta < 0 and start < -INT64_MAX - delta):
        raise CorruptBatch("an offset or timestamp passes 64 bits")
    return start + delta


def delta_between(start: int, value: int) -> int:
    """`value` - `start`; OverflowError where 64 bits cannot hold it."""
    if (start < 0 and value > INT64_MAX + start) or (start > 0 and value < start - INT64_MAX):
        raise OverflowError(f"timestamps {start} and {value} are too far apart for one batch")
    return value - start
