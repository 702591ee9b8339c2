"""The cleaner's memory: the last offset of each key in the dirty part of a log.

Bounded by a count of keys. Long keys are kept as a hash of 20 bytes (two keys with one hash would lose a record; that is
as likely as a disk that lies). One more batch than the bound allows is taken, so a cleaning always gets on.
"""

from __future__ import annotations

from hashlib import blake2b

KEY_BYTES_MAX = 16  # longer keys are hashed
HASH_BYTES = 20  # not a length that a key kept as it is can have
KEY_COST_BYTES = (
    224  # what one entry takes of memory at most (measured): the slot of a dict that has just grown, key, offset
)


class OffsetMap:
    """Keys of decided records, and `latest_offset`: everything up to there is in it (inclusive; -1: nothing yet)."""

    __slots__ = ("_keys_max", "_offsets", "latest_offset")

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def is_full(self) -> bool:
        """Whether no further batch may be added."""
        return len(self._offsets) >= self._keys_max

    @property
    def utilization(self) -> float:
        """The share of the bound that is used."""
        return len(self._offsets) / self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Note that `key` is at `offset`, which is later than all before."""
        self._offsets[key if len(key) <= KEY_BYTES_MAX else _hashed(key)] = offset

    def last_offset_of(self, key: bytes) -> int:
        """The last offset of `key`; -1 where the dirty part does not have it."""
        return self._offsets.get(key if len(key) <= KEY_BYTES_MAX else _hashed(key), -1)


def _hashed(key: bytes) -> bytes:
    return blake2b(key, digest_size=HASH_BYTES).digest()


def keys_max_for(buffer_size_bytes: int, load_factor: float) -> int:
    """How many keys log.cleaner.dedupe.buffer.size has room for."""
    return max(int(buffer_size_bytes * load_factor) // KEY_COST_BYTES, 1)
