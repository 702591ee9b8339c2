"""A fixed loop that does what a broker does, for no purpose: the unit that the broker's cost is told in.

Headers packed and cut with `struct`, small bytes copied, objects with slots made and dropped, dictionaries asked and
changed, methods called through methods, callbacks queued and run. A faster interpreter or machine makes this loop faster
as it makes the broker; a busy neighbour slows both. There are many copies of each step, compiled one by one, because the
broker's code does not fit into the processor's nearest cache either.

Never change this file without recording all ratios anew (`python -m bench.in_process --record`): they would mean nothing.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Callable
from struct import Struct
from typing import Any

COPIES = 48

_STEP = """
class Item{n}:
    __slots__ = ("key", "version", "number", "name", "payload", "owner")

    def __init__(self, key, version, number, name, payload, owner):
        self.key = key
        self.version = version
        self.number = number
        self.name = name
        self.payload = payload
        self.owner = owner

    @property
    def size_bytes(self):
        return len(self.payload)

    def is_of(self, owner):
        return self.owner is owner


class State{n}:
    def __init__(self):
        self.items = {{}}
        self.offsets = {{}}
        self.waiting = deque()
        self.end_offset = 0

    def check(self, item):
        if item.version < 0 or item.size_bytes > 1000:
            raise ValueError("cannot be")
        known = self.offsets.get(item.name)
        return known is None or known <= item.number

    def append(self, item):
        offset = self.end_offset
        data = HEADER.pack(offset, item.size_bytes, item.key, item.version, item.number) + item.payload
        self.items[offset % 64] = (item, data)
        self.offsets[item.name] = item.number
        self.end_offset = offset + 1
        self.waiting.append((offset, item))
        return zlib.crc32(data)

    def commit(self, until):
        waiting, done = self.waiting, []
        while waiting and waiting[0][0] <= until:
            offset, item = waiting.popleft()
            done.append((item.name, offset, item.number))
        return done


def decode_{n}(frame, owner):
    key, version, number, length = REQUEST.unpack_from(frame)
    position = REQUEST.size
    name = str(frame[position : position + length], "utf-8")
    position += length
    fields = []
    for _ in range(3):
        (size_bytes,) = SIZE.unpack_from(frame, position)
        position += 4
        fields.append(bytes(frame[position : position + size_bytes]))
        position += size_bytes
    return Item{n}(key, version, number, name, b"".join(fields), owner)


def encode_{n}(results, checksum):
    parts = [b""]
    for name, offset, number in results:
        raw = name.encode()
        parts.append(SIZE.pack(len(raw)))
        parts.append(raw)
        parts.append(RESULT.pack(offset, number, checksum & 0x7FFF))
    parts[0] = SIZE.pack(sum(map(len, parts)))
    return b"".join(parts)


def handle_{n}(loop, frame):
    view = memoryview(frame)
    state = loop.states[{n}]
    item = decode_{n}(view[4:], loop)
    loop.counts[item.key] = loop.counts.get(item.key, 0) + 1
    if not state.check(item) or not item.is_of(loop):
        raise ValueError("cannot be")
    checksum = state.append(item)

    def done():
        loop.sent += len(encode_{n}(state.commit(item.number + state.end_offset), checksum))

    loop.ready.append((done, ()))
"""


class Calibration:
    """`slice(count)` does `count` rounds of the loop, each through every copy."""

    def __init__(self) -> None:
        self.ready: deque[tuple[Callable[..., Any], tuple[Any, ...]]] = deque()
        self.counts: dict[int, int] = {}
        self.sent = 0
        room: dict[str, Any] = {
            "HEADER": Struct(">qihhq"),
            "REQUEST": Struct(">hhqh"),
            "RESULT": Struct(">qqh"),
            "SIZE": Struct(">i"),
            "deque": deque,
            "zlib": zlib,
        }
        for n in range(COPIES):
            exec(compile(_STEP.format(n=n), f"<calibration {n}>", "exec"), room)  # the text above and nothing else
        self.states = [room[f"State{n}"]() for n in range(COPIES)]
        self._handlers = {n: room[f"handle_{n}"] for n in range(COPIES)}
        request, size = room["REQUEST"], room["SIZE"]
        self._frames = []
        for n in range(COPIES):
            name = b"client-%d" % n
            body = request.pack(n % 7, n % 5, 1, len(name)) + name
            for length in (8, 40, 100):
                body += size.pack(length) + bytes(length)
            self._frames.append(size.pack(len(body)) + body)

    def slice(self, count: int) -> None:
        """So many rounds; always the same work."""
        ready, handlers, frames = self.ready, self._handlers, self._frames
        for _ in range(count):
            for n, frame in enumerate(frames):
                ready.append((handlers[n], (self, frame)))
            while ready:
                call, arguments = ready.popleft()
                call(*arguments)
