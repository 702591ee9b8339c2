"""Relays: one that counts logins (KIP-368: more than one on a connection), one that comes from an address of its own."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

from evidence.compat.clients.spy import CHUNK_BYTES, HEADER_BYTES, Spy, copy
from oncelog.wire.api import ApiKey


class Elsewhere(Spy):
    """Only lets the broker see another address; TLS passes, too."""

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await copy(reader, writer)


class LoginSpy(Spy):
    """`logins`: by client id, for each of its connections, how many SaslHandshakes were sent over it."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.logins: dict[str, list[int]] = defaultdict(list)

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client_id, count = "", 0
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                header = await reader.readexactly(HEADER_BYTES)
                writer.write(header)
                rest = int.from_bytes(header[:4]) - 4
                if int.from_bytes(header[4:6]) == ApiKey.SASL_HANDSHAKE:
                    data = await reader.readexactly(rest)  # correlation id, client id, mechanism
                    client_id, count = data[6 : 6 + int.from_bytes(data[4:6])].decode("utf-8", "replace"), count + 1
                    writer.write(data)
                    rest = 0
                while rest:
                    data = await reader.readexactly(min(rest, CHUNK_BYTES))
                    rest -= len(data)
                    writer.write(data)
                    await writer.drain()
        if count:
            self.logins[client_id].append(count)
        writer.close()

    def of(self, client_id: str) -> list[int]:
        """Of the client's connections, which have ended by now."""
        return self.logins.get(client_id, [])
