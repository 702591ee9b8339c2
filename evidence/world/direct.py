"""A network in memory without delay of its own, and a raw client that hears a reply at the moment the broker writes it.

A power cut must not fall between a reply's leaving the broker and its being written down as acknowledged, so what goes to
a client is delivered at once; what goes to the broker, in a later turn of the loop.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any
from zlib import crc32

from evidence.world.files import SimFiles
from evidence.world.network import feed
from oncelog.broker.broker import Broker
from oncelog.errors import StorageError
from oncelog.host.host import Host
from oncelog.host.network import ConnectFailed
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request, response_correlation_id

DATA = "data"
ADDRESS = ("127.0.0.1", 9092)
START_MS = 1_750_000_000_000


class Transport(asyncio.Transport):
    """One end."""

    def __init__(self, name: tuple[str, int], *, is_immediate: bool) -> None:
        super().__init__()
        self.name = name
        self._is_immediate = is_immediate
        self.peer: Transport
        self.protocol: Any
        self._is_closing = False
        self._on_the_way: deque[bytes] = deque()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self.peer.name, "sockname": self.name}.get(name, default)

    def is_closing(self) -> bool:
        return self._is_closing

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        return None

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        return None

    def resume_reading(self) -> None:
        return None

    def write(self, data: Any) -> None:
        if not self._is_closing:
            self._deliver(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(part) for part in list_of_data))

    def _deliver(self, data: bytes) -> None:
        if self._is_immediate:
            self.peer.take(data)
        else:
            # The loop may run what is ready in any order; a connection's bytes stay in theirs.
            self._on_the_way.append(data)
            asyncio.get_running_loop().call_soon(lambda: self.peer.take(self._on_the_way.popleft()))

    def take(self, data: bytes) -> None:
        if self._is_closing:
            return
        feed(self.protocol, data)

    def close(self) -> None:
        for end in (self, self.peer):
            if not end._is_closing:
                end._is_closing = True
                asyncio.get_running_loop().call_soon(end.protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()


class DirectNetwork:
    """The Network door of everybody in one loop."""

    def __init__(self) -> None:
        self._listening: Callable[[], asyncio.BaseProtocol] | None = None
        self.host, self.port = ADDRESS
        self.has_shortcut = False
        self._next_port = 40_000

    async def listen(self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]) -> DirectNetwork:
        self._listening = protocol_factory
        return self

    def close(self) -> None:
        self._listening = None

    async def connect(
        self, host: str, port: int, protocol_factory: Callable[[], asyncio.BaseProtocol]
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        if self._listening is None:
            raise ConnectFailed("nobody listens")
        self._next_port += 1
        here, there = (
            Transport(("127.0.0.1", self._next_port), is_immediate=False),
            Transport(ADDRESS, is_immediate=True),
        )
        here.peer, there.peer = there, here
        there.protocol, here.protocol = self._listening(), protocol_factory()
        there.protocol.connection_made(there)
        here.protocol.connection_made(here)
        return here, here.protocol


class ConnectionClosed(Exception):
    """The broker closed the connection."""


class Client(asyncio.Protocol):
    """One connection with one request at a time. `heard(reply)` is called before the broker does anything else."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._waiting: tuple[ApiKey, int, Callable[[Any], None] | None, asyncio.Future[Any]] | None = None
        self._transport: asyncio.Transport

    @classmethod
    async def connect(cls, network: DirectNetwork) -> Client:
        _, protocol = await network.connect(*ADDRESS, cls)
        assert isinstance(protocol, Client)
        return protocol

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and not self._waiting[3].done():
            self._waiting[3].set_exception(ConnectionClosed())

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.receive(data):
            assert self._waiting is not None
            key, version, heard, done = self._waiting
            assert response_correlation_id(frame) == 1
            _, reply = decode_response(key, version, frame)
            if heard is not None:
                heard(reply)
            done.set_result(reply)

    async def call(self, message: Any, version: int, heard: Callable[[Any], None] | None = None) -> Any:
        """Raises ConnectionClosed."""
        done = asyncio.get_running_loop().create_future()
        key = ApiKey(message.KEY)
        self._waiting = (key, version, heard, done)
        if self._transport.is_closing():
            raise ConnectionClosed
        self._transport.writelines(encode_request(key, version, 1, "crash", message))
        try:
            return await done
        finally:
            self._waiting = None


class _Clock:
    def now_ms(self) -> int:
        return START_MS + int(asyncio.get_running_loop().time() * 1000)


class _Random:
    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(f"doors {seed}")

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class SlowSyncer:
    """Syncs files one after another, each at its own moment: other work runs in between."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(f"syncer {seed}")

    async def sync(self, files: Any) -> None:
        failed = None
        for file in files:
            await asyncio.sleep(self._random.uniform(0.001, 0.004))
            try:
                file.sync()
            except StorageError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def close(self) -> None:
        return None


def broker_on(files: SimFiles, network: DirectNetwork, seed: int | str, config: dict[str, object]) -> Broker:
    """A broker whose data directory is DATA on that disk; its seed says whether it has a journal, whatever the one before had."""
    return Broker(DATA, {"journal": "on" if has_journal(seed) else "off"} | config, direct_host(files, network, seed))


def has_journal(seed: int | str) -> bool:
    """Whether the broker of this seed has one: an even number's; of a restart, whose seed is a text, by its letters."""
    return seed % 2 == 0 if isinstance(seed, int) else crc32(seed.encode()) % 2 == 1


def direct_host(files: SimFiles, network: DirectNetwork, seed: int | str) -> Host:
    """A Host of virtual doors; `network` may be shared with clients."""
    return Host(
        _Clock(),
        network,
        files,
        SlowSyncer(seed),
        _Random(seed),
        new_temporary_directory=lambda: "tmp",
        boot_id=lambda: f"power {files.power_count}",
    )
