"""An attacker's connection: raw bytes, or requests one after another, and what came of them."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Iterator
from typing import Any, Self

from oncelog.core.login.mechanisms import login_of
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import decode_response, encode_request
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest
from oncelog.wire.schema import Struct

WAIT_S = 20.0  # for a hang
CLOSED = "closed"
NONCE = b"n" * 24
Step = tuple[Any, int]


def codes_of(message: Any) -> Iterator[int]:
    """Every error code of an answer, in its order."""
    for name in (each.name for each in message.FIELDS):
        value = getattr(message, name)
        if name.endswith("error_code"):
            yield int(value)
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, Struct):
                    yield from codes_of(each)


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    """The request that names a mechanism."""
    return SaslHandshakeRequest(mechanism=mechanism), version


def token(data: bytes, version: int = 2) -> Step:
    """The request with a mechanism's bytes."""
    return SaslAuthenticateRequest(auth_bytes=data), version


def plain(user: str, password: str, authorization_id: str = "") -> Step:
    """PLAIN's one token."""
    return token(f"{authorization_id}\0{user}\0{password}".encode())


class Peer:
    """One connection. A broker that closes gives None in an answer's place."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._number = 0

    @classmethod
    async def connect(
        cls, address: tuple[str, int], source: str, tls: ssl.SSLContext | None = None, name: str = "127.0.0.1"
    ) -> Self:
        """From the loopback address `source`. Raises OSError, where the handshake fails ssl.SSLError too."""
        async with asyncio.timeout(WAIT_S):
            more: dict[str, Any] = {"ssl": tls, "server_hostname": name} if tls is not None else {}
            return cls(*await asyncio.open_connection(*address, local_addr=(source, 0), **more))

    def send(self, data: bytes) -> None:
        """Whatever bytes."""
        self._writer.write(data)

    def close(self) -> None:
        """Without a goodbye."""
        self._writer.transport.abort()

    def tls(self) -> Any:
        """What the handshake agreed on."""
        return self._writer.get_extra_info("ssl_object")

    async def read(self, count: int) -> bytes | None:
        """So many bytes, None at the end."""
        try:
            async with asyncio.timeout(WAIT_S):
                return await self._reader.readexactly(count)
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def frame(self) -> bytes | None:
        """One answer's bytes."""
        size = await self.read(4)
        return None if size is None else await self.read(struct.unpack(">i", size)[0])

    async def is_closed(self) -> bool:
        """Wait for the end; what comes before it is dropped. False where the broker goes on for `WAIT_S`."""
        with contextlib.suppress(OSError):
            try:
                async with asyncio.timeout(WAIT_S):
                    await self._reader.read()
            except TimeoutError:
                return False
        return True

    def post(self, message: Any, version: int | None = None, *, client_id: str = "attacker") -> tuple[int, int]:
        """Send a request without waiting."""
        key = ApiKey(message.KEY)
        version = APIS[key].max_stable_version if version is None else version
        self._number += 1
        self._writer.writelines(encode_request(key, version, self._number, client_id, message))
        return key, version

    async def ask(self, message: Any, version: int | None = None, *, client_id: str = "attacker") -> Any:
        """A request's answer, None where the broker closed."""
        key, version = self.post(message, version, client_id=client_id)
        frame = await self.frame()
        return None if frame is None else decode_response(key, version, frame)[1]

    async def is_served(self) -> bool:
        """Whether a request is answered that only who has come in may make."""
        answer = await self.ask(MetadataRequest(topics=[]), 12)
        return answer is not None and bool(answer.cluster_id)

    async def log_in(self, user: str, password: str, mechanism: str = "PLAIN", *, is_token: bool = False) -> Any:
        """The last answer of a whole login."""
        await self.ask(*handshake(mechanism))
        login = login_of(mechanism, user, password, NONCE, is_token=is_token)
        answer = await self.ask(*token(login.first()))
        if mechanism != "PLAIN" and answer is not None and not answer.error_code:
            answer = await self.ask(*token(login.next(bytes(answer.auth_bytes)) or b""))
        return answer

    async def converse(self, *steps: Step) -> str:
        """One request after the other; what the last was told, and whether anything is served then."""
        told = "nothing"
        for step in steps:
            answer = await self.ask(*step)
            if answer is None:
                return CLOSED
            told = said(answer)
        return f"{told}, {await self.rest()}"

    async def rest(self) -> str:
        """Whether it is served now."""
        return "served" if await self.is_served() else CLOSED


def said(answer: Any) -> str:
    """The worst that an answer has to say: its code, "0" where all is well; "closed" where there is none."""
    return CLOSED if answer is None else str(next((code for code in codes_of(answer) if code), 0))
