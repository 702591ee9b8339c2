"""How the process's allocator keeps what was freed.

A megabyte of records is a buffer that comes and goes for every request. As it comes, glibc gives such memory back to the
system each time, and each page is faulted in and zeroed anew: three quarters of what a produced megabyte cost the broker
(docs/performance.md). Kept, it costs up to `KEPT_SIZE_BYTES` of resident memory after a large load.
"""

from __future__ import annotations

KEPT_SIZE_BYTES = 64 << 20
OWN_MAPPING_SIZE_BYTES = 16 << 20  # from this size on a buffer is mapped by itself, and given back when it is freed

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3


def keep_freed_memory() -> bool:
    """For a process that is a broker and nothing else; whether this system's allocator can be told."""
    import ctypes

    try:
        tell = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    return bool(tell(_M_TRIM_THRESHOLD, KEPT_SIZE_BYTES) and tell(_M_MMAP_THRESHOLD, OWN_MAPPING_SIZE_BYTES))
