"""What answers GET requests with a text: a minimal HTTP, for numbers and health checks, on any loop.

One request per connection, answered and closed. Bounded: bytes of a request, connections, time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

REQUEST_SIZE_BYTES_MAX = 8192
CONNECTIONS_MAX = 50  # a scraper needs one
DEADLINE_S = 10.0  # from the connection to its last byte
NOT_FOUND = ("404 Not Found", "not found\n")


class HttpEndpoint:
    """What listens: it makes a protocol for each connection, and has so many at most.

    `answer` is given the path of a GET (its query left out; "" for any other request), and tells status and text.
    """

    def __init__(self, answer: Callable[[str], tuple[str, str]]) -> None:
        self.answer = answer
        self.connections: set[HttpConnection] = set()

    def __call__(self) -> HttpConnection:
        return HttpConnection(self)


class HttpConnection(asyncio.Protocol):
    """One HTTP connection."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request's head."""
        transport = cast("asyncio.Transport", transport)
        if len(self._endpoint.connections) >= CONNECTIONS_MAX:
            transport.abort()
            return
        self._transport = transport
        self._endpoint.connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(DEADLINE_S, transport.abort)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Make room."""
        self._transport = None
        self._endpoint.connections.discard(self)
        if self._deadline is not None:
            self._deadline.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer once the head is complete."""
        self._received += data
        transport = self._transport
        if transport is None:
            return
        if len(self._received) > REQUEST_SIZE_BYTES_MAX:
            self._transport = None
            transport.abort()
        elif b"\r\n\r\n" in self._received:
            self._transport = None
            words = self._received.split(b"\r\n", 1)[0].split(b" ")
            path = words[1].split(b"?")[0].decode("latin-1") if len(words) == 3 and words[0] == b"GET" else ""
            status, text = self._endpoint.answer(path)
            body = text.encode()
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            transport.write(head.encode("ascii") + body)
            transport.close()
