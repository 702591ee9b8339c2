"""Reading bytes inside an event loop: a slow pipe or a terminal must not stop what runs beside."""

from __future__ import annotations

import asyncio
import io
import os
import stat
import threading
from collections.abc import AsyncIterator
from typing import IO

CHUNK_BYTES = 1 << 16
CHUNKS_AHEAD = 4


async def byte_chunks(file: IO[bytes]) -> AsyncIterator[bytes]:
    """What can be read, as soon as it is there, until the end."""
    descriptor = _slow_descriptor(file)
    if descriptor is None:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
        return
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes] = asyncio.Queue()
    room = threading.Semaphore(CHUNKS_AHEAD)

    def feed() -> None:
        # A thread of its own that nobody waits for, on the bare descriptor: after Ctrl-C it may sit in read() for ever.
        while True:
            room.acquire()
            try:
                chunk = os.read(descriptor, CHUNK_BYTES)
            except OSError:
                chunk = b""
            try:
                loop.call_soon_threadsafe(queue.put_nowait, chunk)
            except RuntimeError:  # the loop is closed
                return
            if not chunk:
                return

    threading.Thread(target=feed, name="oncelog-stdin", daemon=True).start()
    while chunk := await queue.get():
        room.release()
        yield chunk


def _slow_descriptor(file: IO[bytes]) -> int | None:
    """The descriptor of a pipe, terminal or socket; None for what never waits."""
    try:
        descriptor = file.fileno()
    except (OSError, io.UnsupportedOperation):
        return None
    return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor
