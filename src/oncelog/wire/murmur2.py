"""Kafka's hash of a key, 32-bit murmur2: bit for bit Java's, else one key lands in two partitions.

Compiled by Cython where a compiler is there (`murmur2.pxd` has the C types), the same source in plain Python else.
"""

from __future__ import annotations

# C variables when compiled, so not for others to import.
HASH_SEED = 0x9747B28C
HASH_FACTOR = 0x5BD1E995
UINT32_MAX = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """The hash of `data`, unsigned."""
    return hash_of(data, 0, len(data))


def hash_of(data: bytes | memoryview, start: int, size: int) -> int:
    """The hash of the `size` bytes from `start` on, unsigned."""
    value = HASH_SEED ^ size
    whole = size & ~3
    for pos in range(start, start + whole, 4):
        word = data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16 | data[pos + 3] << 24
        word = word * HASH_FACTOR & UINT32_MAX
        word = (word ^ word >> 24) * HASH_FACTOR & UINT32_MAX
        value = value * HASH_FACTOR & UINT32_MAX ^ word
    if size & 3:
        word = 0
        for index in range(size & 3):
            word |= data[start + whole + index] << 8 * index
        value = (value ^ word) * HASH_FACTOR & UINT32_MAX
    value = (value ^ value >> 13) * HASH_FACTOR & UINT32_MAX
    return value ^ value >> 15
