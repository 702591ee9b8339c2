"""The door to randomness: ids and jitter. The simulator hands out a seeded one instead."""

from __future__ import annotations

import os
from typing import Protocol


class Random(Protocol):
    """What the shells draw: ids that must not collide, and jitter."""

    def token_bytes(self, count: int) -> bytes:
        """`count` random bytes (cluster ids, topic ids, member ids)."""
        ...

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high` (back-off jitter)."""
        ...

    def below(self, bound: int) -> int:
        """An integer in 0..bound-1."""
        ...


class RealRandom:
    """The operating system's randomness: whoever seeds Python's own generator draws the same with us beside it as without."""

    def token_bytes(self, count: int) -> bytes:
        """`count` random bytes."""
        return os.urandom(count)

    def uniform(self, low: float, high: float) -> float:
        """A number between `low` and `high`."""
        import random  # a start draws bytes only

        return random.SystemRandom().uniform(low, high)

    def below(self, bound: int) -> int:
        """An integer in 0..bound-1."""
        import secrets

        return secrets.randbelow(bound)


def random_uuid(random: Random) -> bytes:
    """A random version-4 UUID, 16 bytes (a topic id, the cluster id)."""
    drawn = bytearray(random.token_bytes(16))
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    return bytes(drawn)
