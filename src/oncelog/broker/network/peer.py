"""A connection to a broker, as brokers have them to one another (and to themselves): markers and the gate use it.

Versions are negotiated by ApiVersions on every new connection. Nothing is retried here: a lost connection fails what
was in flight with PeerLost, and the next call connects again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from oncelog.errors import MalformedFrame, MalformedMessage
from oncelog.host.network import ConnectFailed, Network
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request, response_correlation_id
from oncelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog.wire.schema import Struct

RESPONSE_SIZE_BYTES_MAX = 16 * 1024 * 1024
IPV4_MAPPED = "::ffff:"


SocketAddress = tuple[str, int]


def client_host_of(peer_name: object) -> str:
    """The address a connection comes from, as rules name it: an IPv4 one as such, also on a socket of both families."""
    if not isinstance(peer_name, tuple):
        return ""
    host = str(peer_name[0])
    mapped = host[len(IPV4_MAPPED) :] if host.lower().startswith(IPV4_MAPPED) else ""
    return mapped if "." in mapped else host


def socket_address(name: object) -> SocketAddress | None:
    """Host and port of a socket's end as asyncio names it; None where it has none."""
    if not isinstance(name, tuple) or len(name) < 2:
        return None
    return client_host_of(name), int(name[1])


class PeerLost(Exception):
    """The peer could not be reached, closed the connection, did not answer in time, or answered nonsense."""


class _PeerProtocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.waiting: dict[int, tuple[ApiKey, int, asyncio.Future[Any]]] = {}
        self._reader = FrameReader(RESPONSE_SIZE_BYTES_MAX)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._reader.receive(data):
                self._take(frame)
        except (MalformedFrame, MalformedMessage):
            if self.transport is not None:
                self.transport.abort()

    def _take(self, frame: memoryview) -> None:
        asked = self.waiting.pop(response_correlation_id(frame), None)
        if asked is None:
            raise MalformedMessage("a response to nothing that was asked")
        api_key, version, done = asked
        _, message = decode_response(api_key, version, frame)
        if not done.done():
            done.set_result(message)

    def connection_lost(self, _exc: Exception | None) -> None:
        self.transport = None
        waiting, self.waiting = self.waiting, {}
        for _, _, done in waiting.values():
            if not done.done():
                done.set_exception(PeerLost("the connection was lost"))


class Peer:
    """One lazily opened connection to what `address` says then; `client_id` shows in the peer's logs what it is for."""

    def __init__(
        self, network: Network, address: Callable[[], SocketAddress], *, client_id: str, timeout_ms: int
    ) -> None:
        self._network = network
        self._address = address
        self._client_id = client_id
        self._timeout_s = timeout_ms / 1000
        self._protocol: _PeerProtocol | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._connecting = asyncio.Lock()
        self._next_correlation_id = 0

    async def call(self, api_key: ApiKey, message: Struct, *, version_max: int | None = None) -> Any:
        """Send a request in the highest version both sides have and wait for its response. Raises PeerLost."""
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._connect()
                return await self._send(api_key, self._version(api_key, version_max), message)
        except TimeoutError as error:
            self.close()
            raise PeerLost(f"no answer within {self._timeout_s} s") from error

    def version_of(self, api_key: ApiKey) -> int:
        """The highest version both sides have, -1 while not connected or where the peer does not have the API."""
        bounds = self._versions.get(api_key)
        return min(bounds[1], APIS[api_key].max_version) if bounds else -1

    def _version(self, api_key: ApiKey, version_max: int | None) -> int:
        version = self.version_of(api_key)
        if version < 0:
            raise PeerLost(f"the peer does not serve {api_key.name}")
        return version if version_max is None else min(version, version_max)

    async def _connect(self) -> None:
        async with self._connecting:
            if self._protocol is not None and self._protocol.transport is not None:
                return
            try:
                _, protocol = await self._network.connect(*self._address(), _PeerProtocol)
            except ConnectFailed as error:
                raise PeerLost(str(error)) from error
            assert isinstance(protocol, _PeerProtocol)
            self._protocol = protocol
            asked = ApiVersionsRequest(client_software_name="oncelog", client_software_version="0")
            response = await self._send(ApiKey.API_VERSIONS, 3, asked)
            assert isinstance(response, ApiVersionsResponse)
            self._versions = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}

    async def _send(self, api_key: ApiKey, version: int, message: Struct) -> Any:
        assert self._protocol is not None
        transport = self._protocol.transport
        if transport is None or transport.is_closing():
            raise PeerLost("the connection was lost")
        self._next_correlation_id += 1
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._protocol.waiting[self._next_correlation_id] = (api_key, version, done)
        transport.writelines(encode_request(api_key, version, self._next_correlation_id, self._client_id, message))
        return await done

    @property
    def own_address(self) -> SocketAddress | None:
        """The address of this end, None while not connected: nobody else can have it meanwhile."""
        transport = None if self._protocol is None else self._protocol.transport
        return None if transport is None else socket_address(transport.get_extra_info("sockname"))

    def close(self) -> None:
        """Close; what is in flight fails with PeerLost."""
        if self._protocol is not None and self._protocol.transport is not None:
            self._protocol.transport.abort()
