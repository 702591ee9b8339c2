"""CRC-32C (Castagnoli), the checksum of record batches and of our snapshot files.

google-crc32c where its C part is there, else the `crc32c` wheel, else a table in Python (about 10 MB/s, enough to work
but not to recover gigabytes; `implementation()` says which one is in use, and `oncelog doctor` shows it). google-crc32c takes
`bytes` alone, so anything else is copied for it unless its C function can be called where the data lies (`crc32c_in_place.py`).
The `crc32c` wheel reads any buffer, but its import takes 60 ms and 6 MiB: a broker's start is worth more.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from oncelog.wire import crc32c_in_place

Data: TypeAlias = bytes | bytearray | memoryview

_POLYNOMIAL_REVERSED = 0x82F63B78


def _table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        remainder = byte
        for _ in range(8):
            remainder = (remainder >> 1) ^ _POLYNOMIAL_REVERSED if remainder & 1 else remainder >> 1
        table.append(remainder)
    return tuple(table)


_TABLE = _table()


def crc32c_python(data: Data, crc: int = 0) -> int:
    """The checksum in plain Python: what `crc32c` is when no wheel is there."""
    table = _TABLE
    remainder = crc ^ 0xFFFFFFFF
    for byte in memoryview(data).cast("B"):
        remainder = table[(remainder ^ byte) & 0xFF] ^ (remainder >> 8)
    return remainder ^ 0xFFFFFFFF


class _Choice(NamedTuple):
    name: str
    checksum: Callable[..., int]
    extend_bytes: Callable[[int, bytes], int]


def _choose() -> _Choice:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns when its C part is missing; the next choice is taken then
            import google_crc32c

        if google_crc32c.implementation == "c":
            extend: Callable[[int, bytes], int] = google_crc32c.extend

            def checksum(data: Data, crc: int = 0) -> int:
                return extend(crc, data if type(data) is bytes else bytes(data))

            library = sys.modules.get("google_crc32c._crc32c")  # private: only if it is there
            if library is not None and crc32c_in_place.find(str(library.__file__)):
                checksum = crc32c_in_place.extend

            return _Choice("google-crc32c", checksum, extend)
    except ImportError:
        pass
    try:
        import crc32c as wheel
    except ImportError:
        return _Choice("python", crc32c_python, lambda crc, data: crc32c_python(data, crc))
    return _Choice("crc32c", wheel.crc32c, lambda crc, data: int(wheel.crc32c(data, crc)))


_CHOICE = _choose()

crc32c: Callable[..., int] = _CHOICE.checksum
"""`crc32c(data, crc=0)`: CRC-32C of `data`; `crc` is the checksum of what came before it."""

extend_bytes = _CHOICE.extend_bytes
"""`extend_bytes(crc, data)`: the same of bytes alone, in half the time for a hundred of them."""


def implementation() -> str:
    """`google-crc32c`, `crc32c` or `python`."""
    return _CHOICE.name
