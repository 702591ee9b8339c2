"""`metrics.listen`: the broker's numbers for Prometheus, and whether it is ready, over a minimal HTTP.

One request per connection, answered and closed: /metrics (text format 0.0.4), /readyz and /livez. Nothing else is served.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from oncelog.broker.metrics.metrics import Metrics

REQUEST_SIZE_BYTES_MAX = 8192
CONNECTIONS_MAX = 50  # a scraper needs one
DEADLINE_S = 10.0  # from the connection to its last byte


class MetricsEndpoint:
    """What listens: it makes a protocol for each connection, and has so many at most."""

    def __init__(self, metrics: Metrics, is_ready: Callable[[], bool]) -> None:
        self.metrics = metrics
        self.is_ready = is_ready
        self.connections: set[HttpConnection] = set()

    def __call__(self) -> HttpConnection:
        return HttpConnection(self)


class HttpConnection(asyncio.Protocol):
    """One HTTP connection."""

    def __init__(self, endpoint: MetricsEndpoint) -> None:
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
            status, body = self._answer(path)
            head = (
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            )
            transport.write(head.encode("ascii") + body)
            transport.close()

    def _answer(self, path: str) -> tuple[str, bytes]:
        if path == "/metrics":
            return "200 OK", exposition(self._endpoint.metrics).encode()
        if path == "/livez":
            return "200 OK", b"alive\n"
        if path == "/readyz":
            return ("200 OK", b"ready\n") if self._endpoint.is_ready() else ("503 Service Unavailable", b"not ready\n")
        return "404 Not Found", b"not found\n"


def exposition(metrics: Metrics) -> str:
    """All metrics in Prometheus' text format."""
    lines = []
    for family, samples in metrics.families():
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for suffix, labels, value in samples:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(
                f"{family.name}{suffix}{{{shown}}} {_number(value)}"
                if shown
                else f"{family.name}{suffix} {_number(value)}"
            )
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
