"""CRC-32C of any buffer where it lies, by the C function behind google-crc32c, whose Python face takes `bytes` alone.

For a batch of 100 kB the copy into `bytes` costs twice the checksum. Compiled only (`crc32c_in_place.pxd` asks the dynamic linker
for the function): plain Python cannot call it without ctypes, whose import a start would wait 6 ms for.
"""

from __future__ import annotations

from typing import Any

try:
    import cython
except ImportError:
    from oncelog.wire import uncompiled as cython

if not cython.compiled:  # compiled, they come as C functions through the .pxd

    def find_function(_path: bytes) -> bool:
        return False

    def extend_where_it_lies(_data: object, _crc: int) -> int:
        raise NotImplementedError("compiled only; ask `find` first")


def find(path: str) -> bool:
    """Whether the extension module at `path`, which is loaded, has the function: then `extend` may be called."""
    return bool(find_function(path.encode()))


def extend(data: Any, crc: int = 0) -> int:
    """The checksum of `data` (any contiguous buffer), behind that of what came before it. Raises TypeError, BufferError."""
    return int(extend_where_it_lies(data, crc))
