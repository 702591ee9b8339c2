"""Frames that are received straight into their memory: the same frames under any chunking, and nobody's view changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedFrame
from oncelog.wire import frame_buffer
from oncelog.wire.frame_buffer import FIRST_BYTES, KEPT_BYTES_MIN, STAGE_BYTES, FrameBuffer


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


def received(buffer: FrameBuffer, data: bytes, size_bytes_max: int = 1 << 30) -> list[memoryview]:
    """As a socket that has so many bytes at a time."""
    frames, pos = [], 0
    while pos < len(data):
        room = buffer.room()
        assert len(room) > 0
        count = min(len(room), size_bytes_max, len(data) - pos)
        room[:count] = data[pos : pos + count]
        room.release()
        frames += buffer.take(count)
        pos += count
    return frames


SIZES = (1, 7, 40, STAGE_BYTES - 5, STAGE_BYTES - 4, STAGE_BYTES - 3, STAGE_BYTES, 40_000, KEPT_BYTES_MIN, 300_000)


@given(st.lists(st.tuples(st.sampled_from(SIZES), st.integers(0, 255)), max_size=8), st.data())
def test_chunking_does_not_matter(wanted: list[tuple[int, int]], data: st.DataObject) -> None:
    payloads = [bytes([byte]) * size for size, byte in wanted]
    stream, buffer, frames, pos = framed(*payloads), FrameBuffer(), [], 0
    while pos < len(stream):
        size = data.draw(st.sampled_from((1, 3, 4, 5, 1000, STAGE_BYTES, 100_000, 1 << 20)))
        frames += received(buffer, stream[pos : pos + size])
        pos += size
    assert frames == payloads  # also the first ones: nothing wrote over them later


def test_every_byte_alone() -> None:
    frames = received(FrameBuffer(), framed(b"one", b"two", b"x" * (STAGE_BYTES + 1)), size_bytes_max=1)
    assert [bytes(frame) for frame in frames] == [b"one", b"two", b"x" * (STAGE_BYTES + 1)]


def test_memory_is_used_again_only_when_nobody_looks_at_it() -> None:
    buffer = FrameBuffer()
    (first,) = received(buffer, framed(b"a" * KEPT_BYTES_MIN))
    (second,) = received(buffer, framed(b"b" * KEPT_BYTES_MIN))
    assert second.obj is not first.obj
    kept, part = first.obj, first[10:20]
    first.release()
    (third,) = received(buffer, framed(b"c" * KEPT_BYTES_MIN))
    assert third.obj is not kept  # `part` looks at it
    assert part == b"a" * 10
    part.release()
    (fourth,) = received(buffer, framed(b"d" * (KEPT_BYTES_MIN - 7)))
    assert fourth.obj is kept
    assert fourth == b"d" * (KEPT_BYTES_MIN - 7)
    assert (second, third) == (b"b" * KEPT_BYTES_MIN, b"c" * KEPT_BYTES_MIN)


def test_little_is_kept() -> None:
    buffer = FrameBuffer()
    for size_bytes in (STAGE_BYTES, frame_buffer.KEPT_BYTES_MAX + 1):
        (frame,) = received(buffer, framed(b"x" * size_bytes))
        memory = frame.obj
        frame.release()
        (frame,) = received(buffer, framed(b"y" * size_bytes))
        assert frame.obj is not memory
    views = [received(buffer, framed(b"x" * KEPT_BYTES_MIN)) for _ in range(10)]
    assert len(views) == 10
    assert len(buffer._kept) == frame_buffer.KEPT_COUNT_MAX


def test_a_size_is_not_believed_before_its_bytes_have_come() -> None:
    buffer = FrameBuffer()
    size_bytes = 100_000_000
    assert received(buffer, size_bytes.to_bytes(4, "big") + b"x" * STAGE_BYTES) == []
    assert memoryview(buffer.room().obj).nbytes == FIRST_BYTES
    assert received(buffer, b"x" * FIRST_BYTES) == []
    assert memoryview(buffer.room().obj).nbytes == 2 * FIRST_BYTES
    (frame,) = received(buffer, b"x" * (size_bytes - STAGE_BYTES - FIRST_BYTES))
    assert (len(frame), bytes(frame[:3]), bytes(frame[-3:])) == (size_bytes, b"xxx", b"xxx")


@pytest.mark.parametrize("size_bytes", [0, -1, 11, -(1 << 31), (1 << 31) - 1])
def test_impossible_sizes_end_the_connection(size_bytes: int) -> None:
    buffer = FrameBuffer(10)
    header = size_bytes.to_bytes(4, "big", signed=True)
    assert received(buffer, framed(b"good") + header[:3]) == [b"good"]
    with pytest.raises(MalformedFrame, match=f"a frame of {size_bytes} bytes is not between 1 and 10"):
        received(buffer, header[3:])
    for more in (b"x", framed(b"abc"), b"x" * STAGE_BYTES):
        with pytest.raises(MalformedFrame):
            received(buffer, more)


def test_the_largest_frame_passes() -> None:
    assert received(FrameBuffer(40_000), framed(b"x" * 40_000, b"x" * 10)) == [b"x" * 40_000, b"x" * 10]
