"""The listening side: which connections there are, how many may be, and when a silent one ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.config.listeners import ListenerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.connection import Connection, new_stage
from oncelog.broker.network.connection_limits import Admission, ConnectionCounts, CreationRate, limits_of
from oncelog.broker.network.log_budget import LogBudget
from oncelog.broker.network.peer import Peer, socket_address
from oncelog.broker.network.peer_connection import PeerConnection
from oncelog.broker.network.strangers import Failures, Strangers
from oncelog.broker.requests.audit import Audit
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Outcome, Request
from oncelog.core.metadata.quotas import CONNECTION_CREATION_RATE
from oncelog.host.network import Listener, Network
from oncelog.host.randomness import Random
from oncelog.host.tasks import Tasks
from oncelog.wire.log_records.cluster_metadata import DelegationTokenRecord, ScramCredentialRecord

if TYPE_CHECKING:
    from oncelog.broker.network.secured_listeners import SecuredListeners

_log = logging.getLogger("oncelog.server")

SALT_SECRET_BYTES = 32
GOODBYE_S = 1.0
SLOWEST_BYTES_PER_S = 1024  # a request that comes slower than this is cut off after its time
SWEEP_INTERVAL_S = 5.0
FETCH_BYTES_MIN = 65_536  # what a fetch may always have, however many replies slow clients leave unread


class Server:
    """Accepts connections and hands their requests to `handle`; owns every handler's task."""

    def __init__(
        self,
        network: Network,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
        *,
        serves: Callable[[int, int], bool],
        handle: Callable[[Request], Outcome],
        wait_ms_of: Callable[[str], int] = lambda _host: 0,
        own_peers: tuple[Peer | LocalPeer, ...] = (),
        credentials: Mapping[tuple[str, int], ScramCredentialRecord],
        tokens: Mapping[str, DelegationTokenRecord],
        random: Random,
        audit: Audit,
        now_ms: Callable[[], int],
        when_lost: Callable[[int], None] = lambda _connection_id: None,
    ) -> None:
        self._now_ms = now_ms
        self._tokens = tokens
        self._network = network
        self._credentials = credentials
        self._random = random
        self._salt_secret = random.token_bytes(SALT_SECRET_BYTES)
        self.audit = audit
        self.strangers = Strangers(config, metrics)
        self.failures = Failures()
        self._config = config
        self.metrics = metrics
        self.serves = serves
        self.handle = handle
        self._wait_ms_of = wait_ms_of  # for how long a new connection of an address must wait, by its quota
        self.tasks = Tasks(self._handler_failed)
        self.listeners: list[Listener] = []
        self._secured: SecuredListeners | None = None
        self.listener_names: list[str] = []  # in the same order
        self._of_peers: list[Listener] = []
        self._connections: dict[Connection, None] = {}  # in the order of their arrival
        self._counts = ConnectionCounts()
        self._creation_rate = CreationRate()
        self._log_budget = LogBudget(lambda: config().oncelog_log_max_lines_per_minute)
        self._own_peers = own_peers  # by which the broker asks itself
        self.queued_count = 0  # requests that have come and are not begun
        self.stage = new_stage()
        self.stalled: dict[Connection, None] = {}  # their clients do not read
        self.unsent: dict[Connection, None] = {}  # were written to since somebody looked, or have something left
        self._next_connection_id = 0
        self._is_draining = False
        self._all_closed: asyncio.Event | None = None
        self._when_lost = when_lost  # hears of every connection that has ended, by its id
        metrics.gauge("connections", lambda: len(self._connections))
        metrics.gauge("requests_in_flight", lambda: sum(each.in_flight_count for each in self._connections))
        metrics.gauge("unsent_reply_bytes", lambda: sum(each.unsent_bytes for each in self._connections))

    async def listen(self, config: ListenerConfig) -> Listener:
        """Open a listening address. Raises NetworkFailed."""
        if config.is_plain:
            new_connection = partial(self._new_connection, config.name)
            listener = await self._network.listen(config.host, config.port, new_connection)
        else:
            listener = await self._secured_listeners().listen(config)
        self.listeners.append(listener)
        self.listener_names.append(config.name)
        return listener

    async def listen_to_peers(self, host: str) -> None:
        """Be asked by the other processes of this broker. Raises NetworkFailed."""
        self._of_peers.append(await self._network.listen(host, 0, self._new_peer_connection))

    def _new_peer_connection(self) -> PeerConnection:
        return PeerConnection(self, self.next_connection_id(), limits_of(self._config()))

    def next_connection_id(self) -> int:
        """Of a connection that comes now."""
        self._next_connection_id += 1
        return self._next_connection_id

    def _secured_listeners(self) -> SecuredListeners:
        if self._secured is None:
            from oncelog.broker.network.secured_listeners import SecuredListeners

            self._secured = SecuredListeners(
                self,
                self._network,
                self._config,
                self._credentials,
                self._tokens,
                self._random,
                self._salt_secret,
                self._now_ms,
            )
        return self._secured

    def _new_connection(self, listener_name: str = "") -> Connection:
        connection = Connection(self, self.next_connection_id(), limits_of(self._config()))
        connection.listener_name = listener_name
        return connection

    def accepted(self, connection: Connection) -> Admission | None:
        """Take a new connection and say from when on it is to be read; None where it must close."""
        config = self._config()
        limit = self._counts.refusal(config, connection.client_host, len(self._connections))
        if isinstance(connection, PeerConnection):
            limit = None  # without it nothing here would go on, however many clients there are
        if limit is not None:
            self.metrics.limit_hit(limit)
            if (note := self.note_for_log()) is not None:
                _log.warning("a connection from %s was closed: %s%s", connection.client_host, limit, note)
        if limit is not None or self._is_draining:
            self.metrics.add("connections_refused")
            return None
        self._connections[connection] = None
        self._counts.opened(connection.client_host)
        self.metrics.add("connections_accepted")
        wait_ms = self._wait_ms_of(connection.client_host)
        if wait_ms:
            self.metrics.limit_hit(CONNECTION_CREATION_RATE)
            self.metrics.add("connections_refused")
            return Admission(wait_ms / 1000, is_refused=True)
        delay_s = self._creation_rate.delay_s(config.max_connection_creation_rate, asyncio.get_running_loop().time())
        if delay_s > 0:
            self.metrics.limit_hit("max.connection.creation.rate")
        return Admission(delay_s)

    def is_own(self, peer_name: object) -> bool:
        """Whether a connection comes from the broker itself: from the very address of one that it has open."""
        address = socket_address(peer_name)
        own = (peer.own_address for peer in self._own_peers if isinstance(peer, Peer))
        return address is not None and address in own

    def lost(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self.stalled.pop(connection, None)
        self.unsent.pop(connection, None)
        if connection in self._connections:
            del self._connections[connection]
            self._counts.closed(connection.client_host)
            self._when_lost(connection.connection_id)
        if self._all_closed is not None and not self._has_clients():
            self._all_closed.set()

    def _has_clients(self) -> bool:
        return not all(connection.is_of_broker for connection in self._connections)

    def fetch_bytes_max(self) -> int:
        """How much a fetch may answer with: less where slow clients have left much unread.

        Long replies fill half of the bound, those who are given one batch each a quarter; the rest is for copies on the
        way to the system, and for what the allocator keeps. Where the three quarters are full, whoever has read nothing
        for longest makes room.
        """
        config = self._config()
        bound = config.oncelog_replies_max_unsent_bytes
        unsent_bytes = self.unsent_bytes()
        if not unsent_bytes:
            return config.fetch_max_bytes
        while unsent_bytes >= bound - bound // 4 and len(self.stalled) > 1:
            self._make_room()
            unsent_bytes = self.unsent_bytes()
        left = bound // 2 - unsent_bytes
        if left >= config.fetch_max_bytes:
            return config.fetch_max_bytes
        self.metrics.limit_hit("oncelog.replies.max.unsent.bytes")
        return max(left, FETCH_BYTES_MIN)

    def unsent_bytes(self) -> int:
        """Bytes of all replies that the system has not taken yet, or that wait for a reply before them."""
        total = 0
        for connection in tuple(self.unsent):
            size_bytes = connection.reply_bytes
            if size_bytes:
                total += size_bytes
            else:
                del self.unsent[connection]
        return total

    def _make_room(self) -> None:
        now = asyncio.get_running_loop().time()
        longest = max(self.stalled, key=lambda connection: connection.stalled_s(now))  # of equals the first one
        del self.stalled[longest]
        longest.refuse(
            "its client does not read, and the replies of all clients are at oncelog.replies.max.unsent.bytes"
        )

    def _handler_failed(self, error: BaseException) -> None:
        self.metrics.add("handler_failures")
        note = self.note_for_log()
        if note is not None:
            _log.error("a request handler failed: %r%s", error, note, exc_info=error)

    def note_for_log(self) -> str | None:
        """What to put behind a line about a client; None where there are too many such lines to say another."""
        left_out = self._log_budget.take(asyncio.get_running_loop().time())
        if left_out is None:
            self.metrics.limit_hit("oncelog.log.max.lines.per.minute")
            return None
        return f" ({left_out} lines were left out before)" if left_out else ""

    async def sweep(self) -> None:
        """For ever: close connections that have been silent too long, or never finish a frame."""
        loop = asyncio.get_running_loop()
        while True:
            config = self._config()
            idle_max_s = config.connections_max_idle_ms / 1000
            receive_s = config.oncelog_request_receive_timeout_ms / 1000
            shortest_s = min(idle_max_s if idle_max_s > 0 else receive_s, receive_s)
            await asyncio.sleep(min(SWEEP_INTERVAL_S, max(shortest_s / 4, 0.05)))
            now = loop.time()
            for connection in tuple(self._connections):
                self._judge(connection, now, idle_max_s, receive_s)
                connection.end_if_revoked()
            if self._secured is not None:
                self._secured.reload_tls()

    def _judge(self, connection: Connection, now: float, idle_max_s: float, receive_s: float) -> None:
        begun = connection.frame_begun
        if begun is not None and now - begun > receive_s + connection.partial_size_bytes / SLOWEST_BYTES_PER_S:
            self.metrics.limit_hit("oncelog.request.receive.timeout.ms")
            connection.refuse("a request was not sent completely in time")
        elif idle_max_s <= 0:
            return
        elif connection.stalled_s(now) > idle_max_s:
            self.metrics.limit_hit("connections.max.idle.ms")
            connection.refuse("its client does not read")
        elif connection.is_idle and now - connection.last_active > idle_max_s:
            self.metrics.limit_hit("connections.max.idle.ms")
            self.metrics.add("connections_closed_idle")
            connection.close()

    def stop_accepting(self) -> None:
        """Close the listeners; what is connected stays."""
        for listener in (*self.listeners, *self._of_peers):
            listener.close()

    async def drain(self, timeout_s: float) -> None:
        """Answer what is in flight for at most `timeout_s`, then end every connection and handler."""
        self._is_draining = True
        for connection in tuple(self.stalled):
            connection.abort()  # its client does not read: nobody would hear the rest
        for connection in tuple(self._connections):
            if not connection.is_of_broker:  # by its own come the markers that held requests wait for
                connection.drain()
        self._all_closed = asyncio.Event()
        if self._has_clients():
            try:
                await asyncio.wait_for(self._all_closed.wait(), timeout_s)
            except TimeoutError:
                count = sum(not connection.is_of_broker for connection in self._connections)
                _log.warning("stopping: %d connections were not answered within %.0f s and are cut", count, timeout_s)
        await self.close()

    async def close(self) -> None:
        """End everything now."""
        self._is_draining = True
        self.stop_accepting()
        for connection in tuple(self._connections):
            if connection.unsent_bytes:
                connection.abort()
            else:
                connection.close()
        await self.tasks.close()
        if self._secured is not None and self._secured.has_tls:
            await self._say_goodbye()

    async def _say_goodbye(self) -> None:
        """Until clients have taken the end of TLS, and its transports are closed."""
        self._all_closed = asyncio.Event()
        try:
            async with asyncio.timeout(GOODBYE_S):
                if self._connections:
                    await self._all_closed.wait()
        except TimeoutError:
            for connection in tuple(self._connections):
                connection.abort()
        await asyncio.sleep(0)  # in which the loop closes what was aborted
