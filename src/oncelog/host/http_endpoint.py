"""What answers GET requests with a text: a minimal HTTP, for numbers and health checks, on any loop.

One request per connection, answered and closed. Bounded: bytes of a request, connections, time, answers that nobody reads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

REQUEST_SIZE_BYTES_MAX = 8192
CONNECTIONS_MAX = 50  # a scraper needs one
DEADLINE_S = 10.0  # from the connection to its last byte
UNSENT_BYTES_MAX = 64 << 20  # of all connections; who takes longest makes room
NOT_FOUND = ("404 Not Found", "not found\n")
Answer = tuple[str, str]


class HttpEndpoint:
    """What listens: it makes a protocol for each connection, and has so many at most.

    `answer` is given the path of a GET (its query left out; "" for any other request), and tells status and text, at once
    or later.
    """

    def __init__(self, answer: Callable[[str], Answer | Awaitable[Answer]]) -> None:
        self.answer = answer
        self.connections: dict[HttpConnection, None] = {}  # the oldest first

    def make_room(self, size_bytes: int) -> None:
        """Give up those that have taken longest, where not everything can wait that they have not read."""
        unsent = {each: each.unsent_bytes for each in self.connections}
        left_bytes = sum(unsent.values())
        for connection, bytes_of_it in unsent.items():
            if left_bytes + size_bytes <= UNSENT_BYTES_MAX:
                return
            if bytes_of_it:
                connection.abort()
                left_bytes -= bytes_of_it

    def __call__(self) -> HttpConnection:
        return HttpConnection(self)


class HttpConnection(asyncio.Protocol):
    """One HTTP connection."""

    def __init__(self, endpoint: HttpEndpoint) -> None:
        self._endpoint = endpoint
        self._received = b""
        self._transport: asyncio.Transport | None = None
        self._is_asked = False
        self._answering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None

    @property
    def unsent_bytes(self) -> int:
        """What waits until it is read at the other end."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def abort(self) -> None:
        """End it, whatever is left to be said."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the request's head."""
        transport = cast("asyncio.Transport", transport)
        if len(self._endpoint.connections) >= CONNECTIONS_MAX:
            transport.abort()
            return
        self._transport = transport
        self._endpoint.connections[self] = None
        self._deadline = asyncio.get_running_loop().call_later(DEADLINE_S, transport.abort)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Make room."""
        self._transport = None
        self._endpoint.connections.pop(self, None)
        for each in (self._deadline, self._answering):
            if each is not None:
                each.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer once the head is complete."""
        if self._is_asked or self._transport is None:
            return
        self._received += data
        if len(self._received) > REQUEST_SIZE_BYTES_MAX:
            self._is_asked = True
            self.abort()
        elif b"\r\n\r\n" in self._received:
            self._is_asked = True
            words = self._received.split(b"\r\n", 1)[0].split(b" ")
            path = words[1].split(b"?")[0].decode("latin-1") if len(words) == 3 and words[0] == b"GET" else ""
            answer = self._endpoint.answer(path)
            if isinstance(answer, tuple):
                self._send(answer)
            else:
                self._answering = asyncio.get_running_loop().create_task(self._send_later(answer))

    async def _send_later(self, answer: Awaitable[Answer]) -> None:
        self._send(await answer)

    def _send(self, answer: Answer) -> None:
        status, text = answer
        body = text.encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        if self._transport is not None:
            self._endpoint.make_room(len(body))
            self._transport.write(head.encode("ascii") + body)
            self._transport.close()
