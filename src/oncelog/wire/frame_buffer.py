"""Frames out of a stream that is received straight into their memory (`asyncio.BufferedProtocol`): no joining, no copy.

Small frames are staged and copied out. A large one gets memory of its own, which is used again for a later one when
nobody looks at the former frame any more: fresh pages for every fetch would cost more than reading it.
"""

from __future__ import annotations

from oncelog.errors import MalformedFrame
from oncelog.wire.frame import SIZE_BYTES_MAX, frame_size

STAGE_BYTES = 16_384
FIRST_BYTES = 1 << 20  # taken for a frame before more of it has come: a size alone is not believed
KEPT_BYTES_MIN, KEPT_BYTES_MAX, KEPT_COUNT_MAX = 1 << 18, 1 << 21, 3


class FrameBuffer:
    """One connection's. `room`, then bytes go there, then `take` with their count."""

    def __init__(self, size_bytes_max: int = SIZE_BYTES_MAX) -> None:
        self._size_bytes_max = size_bytes_max
        self._stage = bytearray(STAGE_BYTES)
        self._staged = 0
        self._frame: bytearray | None = None  # of the large frame that is coming
        self._size_bytes = self._filled = 0  # its size; what of it has come
        self._kept: list[bytearray] = []

    def room(self) -> memoryview:
        """Where the next bytes belong. Not empty."""
        if self._frame is None:
            return memoryview(self._stage)[self._staged :]
        if self._filled == len(self._frame):
            grown = bytearray(min(2 * self._filled, self._size_bytes))
            grown[: self._filled] = self._frame
            self._frame = grown
        return memoryview(self._frame)[self._filled : self._size_bytes]

    def take(self, count: int) -> list[memoryview]:
        """The frames that the next `count` bytes complete, without their sizes. They do not change while somebody has a
        view of them. Raises MalformedFrame, and again with every further call."""
        if self._frame is None:
            self._staged += count
            return self._staged_frames()
        self._filled += count
        if self._filled < self._size_bytes:
            return []
        frame, self._frame = self._frame, None
        if KEPT_BYTES_MIN <= len(frame) <= KEPT_BYTES_MAX and len(self._kept) < KEPT_COUNT_MAX:
            self._kept.append(frame)
        return [memoryview(frame)[: self._size_bytes]]

    def _staged_frames(self) -> list[memoryview]:
        frames, pos, end = [], 0, self._staged
        with memoryview(self._stage) as stage:
            try:
                while end - pos >= 4:
                    size_bytes = frame_size(stage, pos, self._size_bytes_max)
                    start = pos + 4
                    if size_bytes <= end - start:
                        pos = start + size_bytes
                        frames.append(memoryview(bytes(stage[start:pos])))
                        continue
                    if size_bytes > STAGE_BYTES - 4:
                        self._begin(size_bytes, stage[start:end])
                        pos = end
                    break
            except MalformedFrame:
                end = pos + 4  # stays in front, for further calls
                raise
            finally:
                rest = bytes(stage[pos:end])
                stage[: len(rest)] = rest
                self._staged = len(rest)
        return frames

    def _begin(self, size_bytes: int, begun: memoryview) -> None:
        self._frame = self._memory(size_bytes)
        self._frame[: len(begun)] = begun
        self._size_bytes, self._filled = size_bytes, len(begun)

    def _memory(self, size_bytes: int) -> bytearray:
        for i, kept in enumerate(self._kept):
            if len(kept) >= size_bytes and _is_free(kept):
                return self._kept.pop(i)
        if len(self._kept) == KEPT_COUNT_MAX:  # all are looked at, or too small
            self._kept.pop(0)
        return bytearray(min(size_bytes, FIRST_BYTES))


def _is_free(memory: bytearray) -> bool:
    """Whether nobody has a view of it: what is viewed cannot be resized."""
    try:
        memory.append(memory.pop())
    except BufferError:
        return False
    return True
