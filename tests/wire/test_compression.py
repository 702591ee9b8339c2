import contextlib
import gzip
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
