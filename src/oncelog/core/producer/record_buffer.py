"""The records of one batch that is being filled, each encoded as it comes: the producer's hot loop.

Compiled by Cython where a compiler is there (`record_buffer.pxd` has the C types), the same source in plain Python else.
Rule: a record is there as a whole or not at all, whatever is raised while it is written. Compiled, `put` and `give_back` run
no Python code and make nothing that the collector looks at, so that no other thread comes in between (under the GIL).
"""

from __future__ import annotations

from collections.abc import Sequence

try:
    import cython
except ImportError:
    from oncelog.wire import uncompiled as cython

if not cython.compiled:  # compiled, they come as C functions through the .pxd
    from oncelog.wire.record_codec import encode_headers
    from oncelog.wire.varint import delta_between, put_varint, varint_bytes

# C variables when compiled, so not for others to import.
LENGTH_BYTES_MAX = 5
FIRST_BYTES = 512  # what the first record makes room for, at least


class RecordBuffer:
    """What a batch holds while records come: `content` up to `content_bytes` is their section, uncompressed.

    `size_bytes` is what it counts in the producer's buffer (an upper bound of its size, before compression);
    `limit_bytes` is how far that may grow without asking again, 0 where no more is taken.
    """

    def __init__(self, size_bytes: int) -> None:
        self.content = bytearray()
        self.content_bytes = 0
        self.record_count = 0
        self.size_bytes = size_bytes
        self.limit_bytes = 0
        self.base_timestamp_ms = 0
        self.max_timestamp_ms = 0

    def add(
        self,
        timestamp_ms: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
        size_bytes: int,
    ) -> int:
        """Take one more record, which counts `size_bytes`; gives its index. OverflowError where 64 bits cannot hold the
        timestamp's distance from the first one's."""
        section = bytes(encode_headers(headers)) if headers else b"\x00"
        return self.put(timestamp_ms, key, value, section, size_bytes)

    def put(
        self, timestamp_ms: int, key: bytes | None, value: bytes | None, header_section: bytes, size_bytes: int
    ) -> int:
        """`add`, of headers that are encoded already."""
        index = self.record_count
        if index == 0:
            self.base_timestamp_ms = timestamp_ms
            self.max_timestamp_ms = timestamp_ms
        delta = delta_between(self.base_timestamp_ms, timestamp_ms)
        key_bytes = -1 if key is None else len(key)
        value_bytes = -1 if value is None else len(value)
        size = 1 + varint_bytes(delta) + varint_bytes(index) + varint_bytes(key_bytes) + varint_bytes(value_bytes)
        size += max(key_bytes, 0) + max(value_bytes, 0) + len(header_section)
        pos = self.content_bytes
        if pos + size + LENGTH_BYTES_MAX > len(self.content):
            self.make_room(pos + size + LENGTH_BYTES_MAX)
        out = self.content
        pos = put_varint(out, pos, size)
        out[pos] = 0
        pos = put_varint(out, pos + 1, delta)
        pos = put_varint(out, pos, index)
        pos = put_varint(out, pos, key_bytes)
        if key is not None:
            pos = put_bytes(out, pos, key, key_bytes)
        pos = put_varint(out, pos, value_bytes)
        if value is not None:
            pos = put_bytes(out, pos, value, value_bytes)
        self.content_bytes = put_bytes(out, pos, header_section, len(header_section))
        self.record_count = index + 1
        self.size_bytes += size_bytes
        if timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = timestamp_ms
        return index

    def give_back(self) -> int:
        """The room that it was granted and did not use: it has none any more."""
        left = self.limit_bytes - self.size_bytes
        self.limit_bytes = self.size_bytes
        return left

    def make_room(self, needed_bytes: int) -> None:
        size_bytes = max(needed_bytes, 2 * len(self.content), FIRST_BYTES)
        if cython.compiled:  # without zeros, which nobody reads
            PyByteArray_Resize(self.content, size_bytes)  # type: ignore[name-defined] # noqa: F821
        else:
            self.content.extend(bytes(size_bytes - len(self.content)))

    def section(self) -> memoryview:
        """The records as they stand, without a copy; none may be added while it is in use."""
        return memoryview(self.content)[: self.content_bytes]

    def forget(self) -> None:
        """Give the bytes away; the counts stay."""
        self.content = bytearray()
        self.content_bytes = 0


def put_bytes(out: bytearray, pos: int, data: bytes, size: int) -> int:
    if cython.compiled:
        source = data
        memcpy(out + pos, source, size)  # type: ignore[name-defined,operator] # noqa: F821
    else:
        out[pos : pos + size] = data
    return pos + size
