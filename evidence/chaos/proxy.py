"""A TCP proxy between clients and the broker that delays, holds back and cuts; it runs in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

from oncelog.host.listening_sockets import stop_listening


@dataclass
class Weather:
    """What happens to bytes now. Delays in seconds; a blocked direction keeps its bytes until it is open again."""

    delay_s: float = 0.0
    is_blocked_up: bool = False  # towards the broker
    is_blocked_down: bool = False
    is_refusing: bool = False


@dataclass(eq=False)
class _Link:
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    def cut(self) -> None:
        """RST both ends: what is under way is lost."""
        for writer in self.writers:
            with contextlib.suppress(OSError):
                sock = writer.get_extra_info("socket")
                if sock is not None:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            writer.transport.abort()


class Proxy:
    """Listens on `port` and passes on to `target_port`, as `weather` allows."""

    def __init__(self, target_port: int, seed: int) -> None:
        self._target_port = target_port
        self._random = random.Random(f"proxy {seed}")
        self.weather = Weather()
        self._links: set[_Link] = set()
        self._changed: asyncio.Event
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self.port = 0
        self.byte_count = 0
        self.connection_count = 0
        self._server: asyncio.Server
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()
        assert self._ready.wait(60)

    def close(self) -> None:
        """End all."""
        if self._thread.is_alive():
            self._call(self._shut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(60)

    # what the nemesis does

    def set(self, **weather: Any) -> None:
        """Change the weather."""
        self._call(self._set(weather))

    def cut_all(self) -> int:
        """Cut every connection; how many there were."""
        return self._call(self._cut())

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    async def _set(self, weather: dict[str, Any]) -> None:
        self.weather = Weather(**weather)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _cut(self) -> int:
        links = list(self._links)
        for link in links:
            link.cut()
        return len(links)

    # inside

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._listen())
        self._ready.set()
        self._loop.run_forever()
        self._loop.close()

    async def _shut(self) -> None:
        stop_listening(self._server)
        await self._cut()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0.05)  # transports close in the loop's next turns

    async def _listen(self) -> None:
        self._changed = asyncio.Event()
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = _Link([writer])
        self.connection_count += 1
        try:
            if self.weather.is_refusing:
                link.cut()
                return
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            link.cut()
            return
        link.writers.append(there_writer)
        self._links.add(link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pass(link, reader, there_writer, is_up=True))
                both.create_task(self._pass(link, there_reader, writer, is_up=False))
        except (asyncio.CancelledError, ExceptionGroup):
            pass
        finally:
            self._links.discard(link)
            link.cut()

    async def _pass(
        self, link: _Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_up: bool
    ) -> None:
        while True:
            data = await reader.read(65536)
            if not data:
                break
            self.byte_count += len(data)
            while self.weather.is_blocked_up if is_up else self.weather.is_blocked_down:
                await self._changed.wait()
            if self.weather.delay_s:
                await asyncio.sleep(self.weather.delay_s * self._random.uniform(0.2, 1.8))
            writer.write(data)
            await writer.drain()
        link.cut()  # half-closed connections are not kept
