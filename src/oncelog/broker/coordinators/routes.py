"""Which process is asked, and which is sent markers, where several share the work (`oncelog serve --processes N`).

A question goes to the process whose partition of `__transaction_state` keeps the transactional id; markers go to the processes
that lead the transaction's partitions, each with a queue of its own: one that is down holds up nobody else's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from oncelog.broker.coordinators.marker_sender import MarkerSender, Written
from oncelog.broker.coordinators.transaction_gate import Refusals, TransactionGate
from oncelog.broker.network.peer import Peer
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Request
from oncelog.core.decision import MarkersToWrite
from oncelog.core.leader.gate_errors import ClientVersion
from oncelog.core.leader.verdict import AskCoordinator
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.metadata.topic_configs import TRANSACTION_STATE_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.lazy_dataclass import replace
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.schema import Struct


class RoutedGate:
    """A `TransactionGate` for each process; the same methods. `gates` has this process's own under its id."""

    def __init__(self, gates: Mapping[int, TransactionGate], metadata: ClusterMetadata, leadership: Leadership) -> None:
        self._gates = gates
        self._metadata = metadata
        self._leadership = leadership

    def __len__(self) -> int:
        return sum(map(len, self._gates.values()))

    def _node_of(self, transactional_id: str) -> int:
        topic = self._metadata.topics.get(TRANSACTION_STATE_TOPIC)
        if topic is None:  # then nobody knows the id; this process's coordinators say so
            return self._leadership.node_id
        return self._leadership.leader_of(topic, coordinator_partition(transactional_id, topic.partition_count))

    def begin(
        self,
        request: Request,
        client: ClientVersion,
        asked: Mapping[TopicPartition, AskCoordinator],
        then: Callable[[Refusals], None],
    ) -> int:
        """As of `TransactionGate`; the token says which of the gates has it, too."""
        node_id = self._node_of(next(iter(asked.values())).transactional_id)
        node_ids = self._leadership.node_ids
        return self._gates[node_id].begin(request, client, asked, then) * len(node_ids) + node_ids.index(node_id)

    def drop(self, token: int) -> None:
        """Nobody waits for this any more."""
        own_token, index = divmod(token, len(self._gates))
        self._gates[self._leadership.node_ids[index]].drop(own_token)

    async def ask(
        self, request: Request, client: ClientVersion, asked: Mapping[TopicPartition, AskCoordinator]
    ) -> Refusals:
        """As of `TransactionGate`."""
        node_id = self._node_of(next(iter(asked.values())).transactional_id)
        return await self._gates[node_id].ask(request, client, asked)

    def completed(self, transactional_id: str) -> None:
        """This process's coordinator completed a transaction of the id."""
        self._gates[self._leadership.node_id].completed(transactional_id)

    async def run(self) -> None:
        """For ever: ask what is due."""
        await asyncio.gather(*(each.run() for each in self._gates.values()))


class LeaderPeer:
    """The peer that leads the first partition of a topic, as of each call: `peers` has this process's own under its id."""

    def __init__(
        self, peers: Mapping[int, Peer | LocalPeer], metadata: ClusterMetadata, leadership: Leadership, topic_name: str
    ) -> None:
        self._peers = peers
        self._metadata = metadata
        self._leadership = leadership
        self._topic_name = topic_name

    async def call(self, api_key: ApiKey, message: Struct) -> Any:
        """As of `Peer`. Raises PeerLost."""
        topic = self._metadata.topics.get(self._topic_name)
        node_id = self._leadership.node_id if topic is None else self._leadership.leader_of(topic, 0)
        return await self._peers[node_id].call(api_key, message)


class RoutedMarkers:
    """A `MarkerSender` for each process; the same methods. `senders` has this process's own under its id."""

    is_local = False  # not all of one transaction's markers are in this process's journal

    def __init__(self, senders: Mapping[int, MarkerSender], metadata: ClusterMetadata, leadership: Leadership) -> None:
        self._senders = senders
        self._metadata = metadata
        self._leadership = leadership

    def __len__(self) -> int:
        return sum(map(len, self._senders.values()))

    @property
    def written(self) -> Written:
        """Who hears what became of markers."""
        return self._senders[self._leadership.node_id].written

    @written.setter
    def written(self, written: Written) -> None:
        for each in self._senders.values():
            each.written = written

    def send(self, markers: MarkersToWrite) -> None:
        """Queue markers, each partition's with its leader's."""
        for node_id, part in self._by_leader(markers):
            self._senders[node_id].send(part)

    def send_later(self, markers: Iterable[MarkersToWrite]) -> None:
        """Queue markers that were refused, after a pause."""
        for each in markers:
            for node_id, part in self._by_leader(each):
                self._senders[node_id].send_later((part,))

    def _by_leader(self, markers: MarkersToWrite) -> list[tuple[int, MarkersToWrite]]:
        parts: dict[int, set[TopicPartition]] = {}
        for name in markers.partitions:
            topic = self._metadata.topics.get(name.topic)
            # Of a topic that is gone nobody needs a marker: this process's own sender says so.
            leader_id = self._leadership.node_id if topic is None else self._leadership.leader_of(topic, name.partition)
            parts.setdefault(leader_id, set()).add(name)
        if not parts:
            return [(self._leadership.node_id, markers)]
        return [(node_id, replace(markers, partitions=frozenset(names))) for node_id, names in sorted(parts.items())]

    async def run(self) -> None:
        """For ever: send what is queued."""
        await asyncio.gather(*(each.run() for each in self._senders.values()))
