"""The listening side: which connections there are, how many may be, and when a silent one ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

from oncelog.broker.config import BrokerConfig
from oncelog.broker.connection import Connection
from oncelog.broker.metrics import Metrics
from oncelog.broker.request import Request
from oncelog.host.network import Listener, Network
from oncelog.host.tasks import Tasks

_log = logging.getLogger("oncelog.server")

FRAME_DEADLINE_S = 30.0  # a client that trickles one request's bytes for longer is cut off
SWEEP_INTERVAL_S = 5.0


class Server:
    """Accepts connections and hands their requests to `handle`; owns every handler's task."""

    def __init__(
        self,
        network: Network,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
        *,
        serves: Callable[[int, int], bool],
        handle: Callable[[Request], Any],
    ) -> None:
        self._network = network
        self._config = config
        self.metrics = metrics
        self.serves = serves
        self.handle = handle
        self.tasks = Tasks(self._handler_failed)
        self.listeners: list[Listener] = []
        self._connections: dict[Connection, None] = {}  # in the order of their arrival
        self._per_host: Counter[str] = Counter()
        self._next_connection_id = 0
        self._is_draining = False
        self._all_closed: asyncio.Event | None = None
        metrics.gauge("connections", lambda: len(self._connections))

    async def listen(self, host: str, port: int) -> Listener:
        """Open a listening address. Raises NetworkFailed."""
        listener = await self._network.listen(host, port, self._new_connection)
        self.listeners.append(listener)
        return listener

    def _new_connection(self) -> Connection:
        self._next_connection_id += 1
        return Connection(self, self._next_connection_id, self._config().socket_request_max_bytes)

    def accepted(self, connection: Connection) -> bool:
        """Take a new connection, unless there are too many already."""
        config = self._config()
        is_too_many = len(self._connections) >= config.max_connections
        if is_too_many or self._per_host[connection.client_host] >= config.max_connections_per_ip or self._is_draining:
            self.metrics.add("connections_refused")
            return False
        self._connections[connection] = None
        self._per_host[connection.client_host] += 1
        self.metrics.add("connections_accepted")
        return True

    def lost(self, connection: Connection) -> None:
        """Forget a closed connection."""
        if connection in self._connections:
            del self._connections[connection]
            self._per_host[connection.client_host] -= 1
            if not self._per_host[connection.client_host]:
                del self._per_host[connection.client_host]
        if not self._connections and self._all_closed is not None:
            self._all_closed.set()

    def _handler_failed(self, error: BaseException) -> None:
        self.metrics.add("handler_failures")
        _log.error("a request handler failed: %r", error, exc_info=error)

    async def sweep(self) -> None:
        """For ever: close connections that have been silent too long, or never finish a frame."""
        loop = asyncio.get_running_loop()
        while True:
            idle_max_s = self._config().connections_max_idle_ms / 1000
            await asyncio.sleep(
                min(SWEEP_INTERVAL_S, max(idle_max_s / 4, 0.05)) if idle_max_s > 0 else SWEEP_INTERVAL_S
            )
            now = loop.time()
            for connection in tuple(self._connections):
                if connection.frame_begun is not None and now - connection.frame_begun > FRAME_DEADLINE_S:
                    connection.refuse("a request was not sent completely in time")
                elif connection.is_idle and 0 < idle_max_s < now - connection.last_active:
                    self.metrics.add("connections_closed_idle")
                    connection.close()

    def stop_accepting(self) -> None:
        """Close the listeners; what is connected stays."""
        for listener in self.listeners:
            listener.close()

    async def drain(self, timeout_s: float) -> None:
        """Answer what is in flight for at most `timeout_s`, then end every connection and handler."""
        self._is_draining = True
        for connection in tuple(self._connections):
            connection.drain()
        self._all_closed = asyncio.Event()
        if self._connections:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._all_closed.wait(), timeout_s)
        await self.close()

    async def close(self) -> None:
        """End everything now."""
        self._is_draining = True
        self.stop_accepting()
        for connection in tuple(self._connections):
            connection.close()
        await self.tasks.close()
