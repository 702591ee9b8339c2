"""Record batches written by hand, so that a conversation may also send what no honest client would."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import build_batch

HEADER_BYTES = 61
CONTROL_BIT = 0x20
TRANSACTIONAL_BIT = 0x10
_FIELDS = {
    "magic": (16, ">b"),
    "attributes": (21, ">h"),
    "last_offset_delta": (23, ">i"),
    "producer_id": (43, ">q"),
    "producer_epoch": (51, ">h"),
    "base_sequence": (53, ">i"),
    "record_count": (57, ">i"),
}


def batch_of(
    values: Sequence[bytes],
    *,
    timestamp_ms: int,
    section: bytes | None = None,
    breaks_crc: bool = False,
    **fields: int,
) -> bytes:
    """A batch whose header fields may lie; the checksum is right unless it is to be broken. `section` replaces the records."""
    batch = build_batch([(timestamp_ms, None, value, ()) for value in values or [b""]])
    if section is not None or not values:
        batch = bytearray(batch[:HEADER_BYTES] + (section or b""))
        struct.pack_into(">i", batch, 8, len(batch) - 12)
    for name, value in fields.items():
        position, kind = _FIELDS[name]
        struct.pack_into(kind, batch, position, value)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])) ^ breaks_crc)
    return bytes(batch)


def one_record(key: bytes, value: bytes, offset_delta: int) -> bytes:
    """A record without headers, lengths below 64."""
    body = b"\0\0" + bytes([2 * offset_delta, 2 * len(key)]) + key + bytes([2 * len(value)]) + value + b"\0"
    return bytes([2 * len(body)]) + body
