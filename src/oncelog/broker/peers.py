"""How this broker asks itself and the other processes of its machine: by plain calls, by sockets, or over a network.

Of each kind there is one for every process, by its id: for the gate, for markers, for the audit topic. None waits for another's
answers.
"""

from __future__ import annotations

from collections.abc import Callable

from oncelog.broker.config.addresses import Address
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.network.peer import Peer
from oncelog.broker.processes import Processes
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Outcome, Request
from oncelog.host.host import Host
from oncelog.host.tasks import Tasks

ByNode = dict[int, Peer | LocalPeer]


class Peers:
    """`handle` answers what this broker asks itself; `address` is where it listens."""

    def __init__(
        self,
        host: Host,
        config: BrokerConfig,
        tasks: Tasks,
        processes: Processes,
        handle: Callable[[Request], Outcome],
        address: Callable[[], Address],
    ) -> None:
        self._host = host
        self._config = config
        self._tasks = tasks
        self._handle = handle
        self._address = address
        self.processes = processes
        node_ids = processes.leadership(config.node_id).node_ids
        self.gate: ByNode = {node_id: self._peer("gate", node_id) for node_id in node_ids}
        self.markers: ByNode = {node_id: self._peer("markers", node_id) for node_id in node_ids}
        self.audit: ByNode = {node_id: self._peer("audit", node_id) for node_id in node_ids}

    @property
    def own(self) -> tuple[Peer | LocalPeer, ...]:
        """Those by which this broker asks itself."""
        node_id = self._config.node_id
        return self.gate[node_id], self.markers[node_id], self.audit[node_id]

    def close(self) -> None:
        """Close every connection; what is in flight fails."""
        for kind in (self.gate, self.markers, self.audit):
            for peer in kind.values():
                peer.close()

    def _peer(self, purpose: str, node_id: int) -> Peer | LocalPeer:
        client_id = f"oncelog-{self._config.node_id}-{purpose}"
        if node_id != self._config.node_id:
            host = self.processes.requests_host(node_id)
            return self._over(lambda: (host, 0), client_id)
        if self._host.network.has_shortcut:
            return LocalPeer(self._handle, self._tasks, client_id=client_id)
        return self._over(self._near, client_id)

    def _over(self, address: Callable[[], tuple[str, int]], client_id: str) -> Peer:
        return Peer(self._host.network, address, client_id=client_id, timeout_ms=self._config.request_timeout_ms)

    def _near(self) -> tuple[str, int]:
        name, port = self._address()
        return "127.0.0.1" if name in ("", "0.0.0.0", "::") else name, port  # noqa: S104
