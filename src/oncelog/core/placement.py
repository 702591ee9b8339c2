"""Which partition of an internal topic coordinates a group or a transactional id: Java's hash of the name, as in Kafka."""

from __future__ import annotations

from functools import lru_cache

REMEMBERED_KEY_LENGTH_MAX = 128


def coordinator_partition(key: str, partition_count: int) -> int:
    """The partition of an internal topic that keeps a transactional id or a group: Java's string hash, as in Kafka."""
    signed = _java_hash_of_short(key) if len(key) <= REMEMBERED_KEY_LENGTH_MAX else _java_hash(key)
    return 0 if signed == -(1 << 31) else abs(signed) % partition_count


def _java_hash(key: str) -> int:
    value = 0
    encoded = key.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(encoded), 2):
        value = (31 * value + (encoded[position] << 8 | encoded[position + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


_java_hash_of_short = lru_cache(maxsize=16384)(_java_hash)  # every request of a transaction asks
