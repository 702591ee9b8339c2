"""What stands before a payload: magic byte 0 and a schema's id, or magic byte 1 and its GUID; for Protobuf also which message
of the file it is. Newer producers put that into a header and leave the payload alone.

Rule: any bytes give an identity and the place behind it, or ValueError.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable

KEY_HEADER, VALUE_HEADER = "__key_schema_id", "__value_schema_id"
INDEXES_MAX = 64  # how deep messages are nested

Identity = int | str  # an id, or a GUID


def framed(schema_id: int, payload: bytes, indexes: tuple[int, ...] | None = None) -> bytes:
    """`payload` behind magic byte 0, the id and, for Protobuf, the message's indexes."""
    return struct.pack(">bI", 0, schema_id) + (b"" if indexes is None else indexes_to_bytes(indexes)) + payload


def unframed(content: bytes, *, has_indexes: bool) -> tuple[Identity, tuple[int, ...], int]:
    """Identity, indexes (none but for Protobuf), and where what follows begins. Raises ValueError."""
    magic = content[0] if content else None
    if magic == 0 and len(content) >= 5:
        identity, end = int.from_bytes(content[1:5], "big"), 5
        found: Identity = identity
    elif magic == 1 and len(content) >= 17:
        found, end = str(uuid.UUID(bytes=bytes(content[1:17]))), 17
    else:
        seen = "it is empty" if magic is None else f"it begins with {bytes(content[:5]).hex()}"
        raise ValueError(f"no schema id stands before it: {seen}; it was not written through a schema registry")
    indexes: tuple[int, ...] = ()
    if has_indexes:
        indexes, end = indexes_from_bytes(content, end)
    return found, indexes, end


def indexes_to_bytes(indexes: tuple[int, ...]) -> bytes:
    """Count and numbers as zigzag varints; the first message of a file, by far the most frequent, is one byte 0."""
    return b"\0" if indexes == (0,) else b"".join(map(_varint, (len(indexes), *indexes)))


def indexes_from_bytes(content: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Indexes and where they end. Raises ValueError."""
    count, end = _from_varint(content, start)
    if count == 0:
        return (0,), end
    if not 0 < count <= INDEXES_MAX:
        raise ValueError(f"{count} message indexes: expected 0 to {INDEXES_MAX}")
    indexes = []
    for _ in range(count):
        index, end = _from_varint(content, end)
        if index < 0:
            raise ValueError(f"message index {index} is negative")
        indexes.append(index)
    return tuple(indexes), end


def from_headers(headers: Iterable[tuple[str, bytes | None]], *, is_key: bool) -> bytes | None:
    """The header that has the identity, where there is one."""
    name = KEY_HEADER if is_key else VALUE_HEADER
    return next((value for each, value in headers if each == name and value is not None), None)


def _varint(number: int) -> bytes:
    number, written = number << 1, bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*written, number])


def _from_varint(content: bytes, at: int) -> tuple[int, int]:
    number = 0
    for shift in range(0, 35, 7):
        if at >= len(content):
            raise ValueError("the message indexes are cut off")
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
    raise ValueError("a message index has more than 5 bytes")
