"""The five codecs of record batches, each able to stop at a limit while it decompresses.

A batch's record section is compressed as one block. The compressed size protects nothing (gzip of zeros grows
1,028 : 1), so every decompression takes `bytes_max` and stops there. Snappy is written in the framing of Java's
snappy-java ("xerial"), which every client reads; the bare blocks of librdkafka are read as well.

A codec's library is imported when it is first asked for something: the three take 2.7 MiB, and many a process needs none.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

from oncelog.errors import CorruptBatch
from oncelog.wire.crc32c import Data

XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_MAGIC = XERIAL_HEADER[:8]
_XERIAL_BLOCK_BYTES = 32 * 1024
_SNAPPY_GROWTH_MAX = 22  # a copy element of 3 bytes makes at most 64
_ZSTD_INPUT_BYTES = 256
_LZ4_ROOM_BYTES_MIN = 4096
_LZ4_GROWTH = 4  # as text does; what grows more takes another call
_GZIP_MAGIC = b"\x1f\x8b"
_FRAMES_MAX = 64  # frames or members one after the other: each costs a context, and Kafka's clients write one
_ZSTD_WINDOW_BYTES_MAX = 1 << 27  # what zstd-jni and libzstd accept by default
_int32 = struct.Struct(">i")


class Codec(IntEnum):
    """Compression of a batch, with the ids of its attributes' bits 0-2."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class Compression(NamedTuple):
    """How to compress: the codec, and its own scale's level (None: its default)."""

    codec: Codec
    level: int | None = None


class DecompressedTooLarge(CorruptBatch):
    """The data would grow past the reader's limit."""


def compress(codec: Codec, data: Data, level: int | None = None) -> bytes:
    """`data` compressed as Kafka's clients write it. `level` is the codec's own scale; None is its default."""
    if codec is Codec.GZIP:
        compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec is Codec.SNAPPY:
        return _xerial_compress(data)
    if codec is Codec.LZ4:
        import lz4.frame

        # Kafka's framing: independent 64 KiB blocks, neither content size nor content checksum.
        compressed: bytes = lz4.frame.compress(
            bytes(data),
            compression_level=0 if level is None else level,
            block_size=lz4.frame.BLOCKSIZE_MAX64KB,
            block_linked=False,
            store_size=False,
        )
        return compressed
    if codec is Codec.ZSTD:
        import zstandard

        return bytes(zstandard.ZstdCompressor(level=3 if level is None else level).compress(data))
    return bytes(data)


def decompress(codec: int, data: Data, bytes_max: int) -> bytes:
    """The decompressed bytes; `DecompressedTooLarge` past `bytes_max`, `CorruptBatch` for anything unreadable."""
    if codec == Codec.NONE:
        if len(data) > bytes_max:
            raise DecompressedTooLarge(f"{len(data)} bytes of records, the limit is {bytes_max}")
        return bytes(data)
    read = _DECOMPRESSORS.get(codec)
    if read is None:
        raise CorruptBatch(f"unknown compression codec {codec}")
    return read(data, bytes_max)


def _too_large(codec: Codec, bytes_max: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"the {codec.name.lower()} data grows past the limit of {bytes_max} bytes")


def _gzip_decompress(data: Data, bytes_max: int) -> bytes:
    parts: list[bytes] = []
    size_bytes = 0
    rest: Data = data
    for _ in range(_FRAMES_MAX):
        member = zlib.decompressobj(31)
        try:
            part = member.decompress(rest, bytes_max - size_bytes + 1)
        except zlib.error as error:
            raise CorruptBatch(f"bad gzip data: {error}") from None
        size_bytes += len(part)
        if size_bytes > bytes_max:
            raise _too_large(Codec.GZIP, bytes_max)
        if not member.eof:
            raise CorruptBatch("bad gzip data: it is cut short")
        parts.append(part)
        rest = member.unused_data
        if not rest.startswith(_GZIP_MAGIC):  # Java's reader does not look at bytes after the last member
            return b"".join(parts)
    raise CorruptBatch(f"bad gzip data: more than {_FRAMES_MAX} members")


def _xerial_compress(data: Data) -> bytes:
    import cramjam

    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(view[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_int32.pack(len(block)), block)
    return b"".join(parts)


def _snappy_decompress(data: Data, bytes_max: int) -> bytes:
    view = memoryview(data)
    if view[:8] != _XERIAL_MAGIC:
        return _snappy_block(view, bytes_max)
    if len(view) < len(XERIAL_HEADER):
        raise CorruptBatch("bad snappy data: it is cut short")
    parts: list[bytes] = []
    size_bytes = 0
    position = len(XERIAL_HEADER)
    while position < len(view):
        if position + 4 > len(view):
            raise CorruptBatch("bad snappy data: it is cut short")
        (block_bytes,) = _int32.unpack_from(view, position)
        position += 4
        if not 0 < block_bytes <= len(view) - position:
            raise CorruptBatch(f"bad snappy data: a block of {block_bytes} bytes")
        part = _snappy_block(view[position : position + block_bytes], bytes_max - size_bytes)
        size_bytes += len(part)
        parts.append(part)
        position += block_bytes
    return b"".join(parts)


def _snappy_block(view: memoryview, bytes_max: int) -> bytes:
    import cramjam

    # The block says its size first; it is believed only where the data could really grow that much.
    size_bytes = 0
    for index in range(5):
        if index >= len(view):
            raise CorruptBatch("bad snappy data: it is cut short")
        size_bytes |= (view[index] & 0x7F) << (7 * index)
        if view[index] < 0x80:
            break
    if size_bytes > _SNAPPY_GROWTH_MAX * len(view):
        raise CorruptBatch(f"bad snappy data: {len(view)} bytes claim to be {size_bytes}")
    if size_bytes > bytes_max:
        raise _too_large(Codec.SNAPPY, bytes_max)
    try:
        return bytes(cramjam.snappy.decompress_raw(view))
    except cramjam.DecompressionError as error:
        raise CorruptBatch(f"bad snappy data: {error}") from None


def _lz4_decompress(data: Data, bytes_max: int) -> bytes:
    import lz4.frame

    # The library allocates all it may return before it reads a byte: a bound of 64 MiB for every batch of a few hundred
    # bytes costs milliseconds where fresh pages are dear. So it is given what is likely, and more where that was filled.
    decompressor = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    size_bytes = 0
    rest = bytes(data)
    room_bytes = max(_LZ4_ROOM_BYTES_MIN, _LZ4_GROWTH * len(rest))
    while True:
        room_bytes = min(room_bytes, bytes_max - size_bytes + 1)
        try:
            part: bytes = decompressor.decompress(rest, max_length=room_bytes)
        except RuntimeError as error:
            raise CorruptBatch(f"bad lz4 data: {error}") from None
        size_bytes += len(part)
        if size_bytes > bytes_max:
            raise _too_large(Codec.LZ4, bytes_max)
        if decompressor.eof:
            # One frame, as Java's reader takes it: bytes after its end are not looked at.
            return b"".join((*parts, part)) if parts else part
        if len(part) < room_bytes:
            raise CorruptBatch("bad lz4 data: it is cut short")
        parts.append(part)
        rest = b""  # the decompressor keeps what it has not read
        room_bytes *= 2


def _zstd_decompress(data: Data, bytes_max: int) -> bytes:
    import zstandard

    # A block makes at most 128 KiB, and takes 4 bytes at least: so small pieces of input pass the limit by 8 MiB at
    # most, and unlike zstandard's stream_reader this tells a frame that is cut short from one that has ended.
    parts: list[bytes] = []
    size_bytes = 0
    rest = bytes(data)
    context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES_MAX)
    for _ in range(_FRAMES_MAX):
        frame = context.decompressobj()
        position = 0
        try:
            while not frame.eof and position < len(rest):
                part = frame.decompress(rest[position : position + _ZSTD_INPUT_BYTES])
                position += _ZSTD_INPUT_BYTES
                size_bytes += len(part)
                if size_bytes > bytes_max:
                    raise _too_large(Codec.ZSTD, bytes_max)
                parts.append(part)
        except zstandard.ZstdError as error:
            raise CorruptBatch(f"bad zstd data: {error}") from None
        if not frame.eof:
            raise CorruptBatch("bad zstd data: it is cut short")
        rest = frame.unused_data + rest[position:]
        if not rest:
            return b"".join(parts)
    raise CorruptBatch(f"bad zstd data: more than {_FRAMES_MAX} frames")


_DECOMPRESSORS: dict[int, Callable[[Data, int], bytes]] = {
    Codec.GZIP: _gzip_decompress,
    Codec.SNAPPY: _snappy_decompress,
    Codec.LZ4: _lz4_decompress,
    Codec.ZSTD: _zstd_decompress,
}
