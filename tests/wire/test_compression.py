import contextlib
import gzip
import random
import struct
import tracemalloc

import cramjam
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import CorruptBatch
from oncelog.wire.compression import XERIAL_HEADER, Codec, DecompressedTooLarge, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog; " * 40


@settings(deadline=None)
@given(st.sampled_from(Codec), st.binary(max_size=3000), st.integers(1, 40))
def test_round_trip(codec, data, times):
    data *= times
    assert decompress(codec, compress(codec, data), len(data)) == data


SIZES_BYTES = [0, 1, 100, 4095, 4096, 4097, 16_384, 65_536, 131_073, 1_000_000]
PEERS = {
    Codec.NONE: (bytes, bytes),
    Codec.GZIP: (gzip.compress, gzip.decompress),
    Codec.SNAPPY: (lambda data: bytes(cramjam.snappy.compress_raw(data)), lambda data: _unframed(data)),
    Codec.LZ4: (
        lambda data: lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX4MB, content_checksum=True),
        lz4.frame.decompress,
    ),
    Codec.ZSTD: (zstandard.compress, zstandard.decompress),
}


def _unframed(data: bytes) -> bytes:
    """As a reader of snappy-java's framing that is not ours."""
    parts, position = [], len(XERIAL_HEADER)
    while position < len(data):
        (size,) = struct.unpack_from(">i", data, position)
        parts.append(bytes(cramjam.snappy.decompress_raw(data[position + 4 : position + 4 + size])))
        position += 4 + size
    return b"".join(parts)


@pytest.mark.parametrize("fill", ["zeros", "text", "noise"])
@pytest.mark.parametrize("codec", Codec)
def test_every_size_of_batch_is_read_from_others_and_by_others(codec, fill):
    others_compress, others_decompress = PEERS[codec]
    whole = {"zeros": bytes(1_000_000), "text": TEXT * 600, "noise": random.Random(3).randbytes(1_000_000)}[fill]
    for size in SIZES_BYTES:
        data = whole[:size]
        assert others_decompress(compress(codec, data)) == data
        for compressed in (compress(codec, data), others_compress(data)):
            assert decompress(codec, memoryview(compressed), 64 << 20) == data


@pytest.mark.parametrize("codec", Codec)
def test_a_small_batch_takes_little_memory_whatever_the_limit_is(codec):
    """lz4 allocated the whole limit for each batch: 3,000 of them took 22 s where fresh pages are dear."""
    compressed = compress(codec, TEXT)
    tracemalloc.start()
    try:
        assert decompress(codec, compressed, 64 << 20) == TEXT
        assert tracemalloc.get_traced_memory()[1] < 256 << 10
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", COMPRESSING)
def test_levels_are_taken(codec):
    assert decompress(codec, compress(codec, TEXT, 1), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec):
    compressed = compress(codec, TEXT)
    assert decompress(codec, compressed, len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, compressed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_cut_at_any_byte_is_corrupt(codec):
    compressed = compress(codec, TEXT)
    for size in range(len(compressed)):
        if codec is Codec.SNAPPY and size == len(XERIAL_HEADER):
            assert decompress(codec, compressed[:size], len(TEXT)) == b""  # no block at all
            continue
        with pytest.raises(CorruptBatch):
            decompress(codec, compressed[:size], len(TEXT))


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_flipped_bit_gives_bytes_or_corrupt(codec):
    compressed = bytearray(compress(codec, TEXT))
    for bit in range(8 * len(compressed)):
        compressed[bit >> 3] ^= 1 << (bit & 7)
        with contextlib.suppress(CorruptBatch):
            assert len(decompress(codec, compressed, 100_000)) <= 100_000
        compressed[bit >> 3] ^= 1 << (bit & 7)


@settings(deadline=None)
@given(st.sampled_from(COMPRESSING), st.binary(max_size=200))
def test_any_bytes_give_bytes_or_corrupt(codec, data):
    with contextlib.suppress(CorruptBatch):
        assert len(decompress(codec, data, 1000)) <= 1000


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_corrupt(codec):
    with pytest.raises(CorruptBatch, match="unknown compression codec"):
        decompress(codec, b"", 100)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_bomb_stops_at_the_limit(codec):
    """256 MiB of zeros cost no more than the limit and 16 MiB."""
    bomb = BOMBS[codec]
    tracemalloc.start()
    try:
        with pytest.raises(DecompressedTooLarge):
            decompress(codec, bomb, 1 << 20)
        assert tracemalloc.get_traced_memory()[1] < (1 << 20) + (16 << 20)
    finally:
        tracemalloc.stop()


def _bombs() -> dict[Codec, bytes]:
    zeros = bytes(4 << 20)
    zstd_maker = zstandard.ZstdCompressor().compressobj()
    lz4_maker = lz4.frame.LZ4FrameCompressor()
    parts = [lz4_maker.begin()] + [lz4_maker.compress(zeros) for _ in range(64)] + [lz4_maker.flush()]
    return {
        Codec.GZIP: gzip.compress(bytes(64 << 20), 1),
        Codec.SNAPPY: XERIAL_HEADER + _snappy_block(zeros) * 64,
        Codec.LZ4: b"".join(parts),
        Codec.ZSTD: b"".join([zstd_maker.compress(zeros) for _ in range(64)]) + zstd_maker.flush(),
    }


def _snappy_block(data: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(data))
    return struct.pack(">i", len(block)) + block


BOMBS = _bombs()


def test_snappy_is_read_with_and_without_java_framing():
    """librdkafka writes bare blocks, Java frames of 32 KiB."""
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT
    big = TEXT * 100
    framed = compress(Codec.SNAPPY, big)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Codec.SNAPPY, framed, len(big)) == big


@pytest.mark.parametrize("size", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x01", b"\xff" * 6])
def test_a_snappy_block_that_lies_about_its_size_is_corrupt(size):
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, size + b"\x00a", 1 << 30)


@pytest.mark.parametrize("length", [-1, 0, 5, 2**31 - 1])
def test_a_snappy_frame_that_lies_about_its_block_is_corrupt(length):
    with pytest.raises(CorruptBatch):
        decompress(Codec.SNAPPY, XERIAL_HEADER + struct.pack(">i", length) + b"abc", 1000)


def test_members_and_frames_one_after_the_other():
    assert decompress(Codec.GZIP, gzip.compress(b"one ") + gzip.compress(b"two"), 100) == b"one two"
    two = zstandard.compress(b"one ") + zstandard.compress(b"two")
    assert decompress(Codec.ZSTD, two, 100) == b"one two"
    with pytest.raises(CorruptBatch, match="more than 64"):
        decompress(Codec.GZIP, gzip.compress(b"") * 65, 100)
    with pytest.raises(CorruptBatch, match="more than 64"):
        decompress(Codec.ZSTD, zstandard.compress(b"") * 65, 100)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4])
def test_bytes_after_the_end_are_ignored_as_java_does(codec):
    """Seen with Apache Kafka 4.3: such a batch is accepted, so it may be in a log."""
    assert decompress(codec, compress(codec, b"one") + b"x", 100) == b"one"


def test_zstd_with_bytes_after_the_end_is_corrupt():
    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, compress(Codec.ZSTD, b"one") + b"x", 100)


def test_zstd_of_unknown_and_of_known_size():
    maker = zstandard.ZstdCompressor().compressobj()
    streamed = maker.compress(TEXT) + maker.flush()  # as zstd-jni writes it
    assert zstandard.frame_content_size(streamed) == -1
    assert decompress(Codec.ZSTD, streamed, len(TEXT)) == TEXT
    assert decompress(Codec.ZSTD, zstandard.compress(TEXT), len(TEXT)) == TEXT


def test_lz4_is_framed_as_kafkas_clients_do():
    """LZ4's frame format: version 1, independent blocks of at most 64 KiB, neither content size nor checksums."""
    frame = compress(Codec.LZ4, TEXT * 50)
    assert frame[4:6] == bytes([0b0110_0000, 4 << 4])
