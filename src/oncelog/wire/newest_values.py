"""The last value of each key in the plain batches of a log: what a coordinator's load wants, without an object for each batch.

Compiled by Cython where a compiler is there (`newest_values.pxd` has the C types), the same source in plain Python else.
A batch that is not plain is left to who reads batches one by one, and so is every fault: this never raises for bad bytes.
"""

from __future__ import annotations

from oncelog.errors import CorruptBatch
from oncelog.wire.crc32c import extend_bytes

try:
    import cython
except ImportError:
    from oncelog.wire import uncompiled as cython

if not cython.compiled:  # compiled, they come as C functions through the .pxd
    from oncelog.wire.uncompiled import int16_at, int32_at, int64_at
    from oncelog.wire.varint import read_int32, read_size, read_varint

# C variables when compiled, so not for others to import.
INT32_MAX = 0x7FFFFFFF
UINT32_MAX = 0xFFFFFFFF
OFFSET_MAX = 0x7FFFFFFF00000000  # a batch's last offset fits behind it
HEADER_BYTES = 61
LOG_OVERHEAD_BYTES = 12
COVERED_FROM = 21  # by the checksum
MAGIC = 2
NOT_PLAIN = 0x37  # compressed, transactional, control
RECORD_BYTES_MIN = 7


def take_newest(data: bytes, pos: int, due_offset: int, newest: dict[bytes, bytes | None]) -> tuple[int, int]:
    """Put keys and values of the plain batches from `pos` on into `newest`, in the order of their last writes.

    Plain: whole and valid, not compressed, in no transaction, each record with a key and without headers, offsets from
    `due_offset` on, and none of a key that was deleted in `newest`: whoever reads is told of a deletion. Gives where the first
    other one begins (or the data end), and the offset that is due there.
    """
    head = data
    end = len(data)
    while end - pos >= HEADER_BYTES:
        base_offset = int64_at(head, pos)
        last_offset_delta = int32_at(head, pos + 23)
        batch_end = pos + int32_at(head, pos + 8) + LOG_OVERHEAD_BYTES
        if head[pos + 16] != MAGIC or int16_at(head, pos + COVERED_FROM) & NOT_PLAIN:
            break
        if batch_end > end or batch_end - pos < HEADER_BYTES:
            break
        if base_offset < due_offset or base_offset > OFFSET_MAX or last_offset_delta < 0:
            break
        if extend_bytes(0, data[pos + COVERED_FROM : batch_end]) != int32_at(head, pos + 17) & UINT32_MAX:
            break
        try:
            if not take_records(data, pos + HEADER_BYTES, batch_end, int32_at(head, pos + 57), newest):
                break
        except CorruptBatch:
            break
        due_offset = base_offset + last_offset_delta + 1
        pos = batch_end
    return pos, due_offset


def take_records(data: bytes, pos: int, end: int, count: int, newest: dict[bytes, bytes | None]) -> bool:
    """The records of one batch; False where one is not plain. Raises CorruptBatch."""
    section = data
    if count < 0 or count > (end - pos) // RECORD_BYTES_MIN:
        return False
    for _ in range(count):
        size, pos = read_size(section, pos, end)
        if size < RECORD_BYTES_MIN - 1:
            return False
        record_end = pos + size
        _, pos = read_varint(section, pos + 1, record_end)
        delta, pos = read_int32(section, pos, record_end)
        if delta > INT32_MAX or delta < -INT32_MAX:
            return False
        size, pos = read_size(section, pos, record_end)
        if size < 0:
            return False
        key = data[pos : pos + size]
        pos += size
        size, pos = read_size(section, pos, record_end)
        value = None
        if size >= 0:
            value = data[pos : pos + size]
            pos += size
        if pos + 1 != record_end or section[pos] != 0:
            return False
        pos = record_end
        if key in newest:
            if newest[key] is None:
                return False
            del newest[key]
        newest[key] = value
    return pos == end
