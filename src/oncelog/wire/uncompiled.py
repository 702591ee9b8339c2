"""Stands in for the `cython` module where Cython is not installed: this is plain Python, and says so.

And what compiled modules have as C functions of their `.pxd`: big-endian numbers at a position.
"""

from __future__ import annotations

compiled = False


def int64_at(data: bytes, pos: int) -> int:
    """Eight bytes, signed."""
    return int.from_bytes(data[pos : pos + 8], "big", signed=True)


def int32_at(data: bytes, pos: int) -> int:
    """Four bytes, signed."""
    return int.from_bytes(data[pos : pos + 4], "big", signed=True)


def int16_at(data: bytes, pos: int) -> int:
    """Two bytes, unsigned."""
    return int.from_bytes(data[pos : pos + 2], "big")
