"""A relay between clients and a broker that notes which API versions they send: each request's first eight bytes say."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import socket
import threading
from typing import Self

CHUNK_BYTES = 1 << 16
HEADER_BYTES = 8  # size, API key, API version


class Spy:
    """Listens on `port`; the broker at `target`, which may be told later, advertises that address. `seen`: (API key, version)."""

    def __init__(self, port: int, target: tuple[str, int] | None = None, source: str = "") -> None:
        """`source` is the address of this machine that the broker sees, 127.0.0.1 unless named."""
        self.port, self.target, self._source = port, target, source
        self.seen: set[tuple[int, int]] = set()

    def __enter__(self) -> Self:
        ready: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run(ready)), name="spy", daemon=True)
        self._thread.start()
        ready.result(60)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(60)

    def connect(self) -> socket.socket:
        """A connection through it."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)

    async def _run(self, ready: concurrent.futures.Future[None]) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        server = await asyncio.start_server(self._relay, "127.0.0.1", self.port)
        ready.set_result(None)
        await self._ended.wait()
        server.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the end of the block ends what is open
            if self.target is None:
                raise ConnectionRefusedError
            there, back = await asyncio.open_connection(
                *self.target, local_addr=(self._source, 0) if self._source else None
            )
            await asyncio.gather(self._requests(reader, back), copy(there, writer))
        writer.close()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                header = await reader.readexactly(HEADER_BYTES)
                self.seen.add((int.from_bytes(header[4:6]), int.from_bytes(header[6:8])))
                writer.write(header)
                rest = int.from_bytes(header[:4]) - 4
                while rest:
                    data = await reader.readexactly(min(rest, CHUNK_BYTES))
                    rest -= len(data)
                    writer.write(data)
                    await writer.drain()
        writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Everything, and the end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()
    writer.close()
