"""The head of small binary files: version int16 = 1, CRC-32C uint32 of everything from byte 6 on, count of entries int32."""

from __future__ import annotations

from struct import Struct

from oncelog.errors import CorruptIndex
from oncelog.wire.crc32c import crc32c

_HEAD = Struct(">hIi")
_CRC_END = 6
HEAD_SIZE_BYTES = _HEAD.size


def with_head(count: int, entries: bytes) -> bytes:
    """The file that holds these entries."""
    body = count.to_bytes(4, "big") + entries
    return b"\x00\x01" + crc32c(body).to_bytes(4, "big") + body


def count_of(data: bytes, what: str) -> int:
    """How many entries follow the head. Raises CorruptIndex on a wrong version or checksum, and where the head is cut."""
    if len(data) < HEAD_SIZE_BYTES:
        raise CorruptIndex(f"{what}: only {len(data)} bytes")
    version, checksum, count = _HEAD.unpack_from(data)
    if version != 1:
        raise CorruptIndex(f"{what}: version {version} is unknown")
    if crc32c(data[_CRC_END:]) != checksum:
        raise CorruptIndex(f"{what}: checksum does not fit")
    return int(count)
