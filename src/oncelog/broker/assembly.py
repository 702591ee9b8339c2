"""A broker's parts and how they are put together. Nothing here touches the disk or the network yet: `startup` does."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from oncelog.broker.admission.admission import RequestAdmission, authorization_of
from oncelog.broker.admission.deeds import Deeds
from oncelog.broker.config.addresses import Address, advertised_address
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.config.listeners import ListenerConfig, listeners_of, warnings_of
from oncelog.broker.coordinators.audit_topic import AuditTopic
from oncelog.broker.coordinators.groups import Groups
from oncelog.broker.coordinators.marker_sender import MarkerSender
from oncelog.broker.coordinators.marker_writer import MarkerWriter
from oncelog.broker.coordinators.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.coordinators.routes import LeaderPeer, RoutedGate, RoutedMarkers
from oncelog.broker.coordinators.transaction_gate import TransactionGate
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.gauges import register_gauges
from oncelog.broker.handlers import answer, serves
from oncelog.broker.metadata.metadata_store import MetadataStore, TurnWait
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.log_budget import LogBudget
from oncelog.broker.network.peer import Peer
from oncelog.broker.network.server import Server
from oncelog.broker.node import Node
from oncelog.broker.partitions.flusher import Flusher, flusher_for
from oncelog.broker.partitions.journal_flusher import JournalFlusher
from oncelog.broker.partitions.log_cleaner import LogCleaner
from oncelog.broker.partitions.measured_syncer import MeasuredSyncer
from oncelog.broker.partitions.partitions import Partitions
from oncelog.broker.partitions.telling_syncer import TellingSyncer
from oncelog.broker.peers import Peers
from oncelog.broker.processes import ALONE, Processes
from oncelog.broker.requests.audit import Audit
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Outcome, Request
from oncelog.broker.share.share_groups import ShareGroups
from oncelog.core.access.listeners import NamedAddress
from oncelog.core.leader.fetch_session import FetchSessions
from oncelog.core.leader.gate import GateConfig
from oncelog.core.metadata.cluster import ClusterMetadata, Topic, alters_configs
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.host.clock import Clock
from oncelog.host.host import Host
from oncelog.host.network import Listener
from oncelog.host.tasks import Tasks
from oncelog.host.worker import Worker
from oncelog.lazy_dataclass import dataclass
from oncelog.log.files import Lock
from oncelog.log.journal import Journal
from oncelog.log.open_files import OpenFiles
from oncelog.wire.log_records.cluster_metadata import MetadataRecord

if TYPE_CHECKING:
    from oncelog.broker.metadata.followed_metadata import FollowedMetadata
    from oncelog.broker.metadata.metadata_leader import MetadataLeader
    from oncelog.broker.metrics.client_metrics import ClientMetrics

_log = logging.getLogger("oncelog.broker")

InForce = Callable[[], BrokerConfig]


@dataclass(slots=True, kw_only=True, eq=False)
class Assembly:
    """Every part of one broker. What handlers may ask is `node`; the rest is for starting and stopping."""

    host: Host
    tasks: Tasks
    files: OpenFiles
    flusher: Flusher | JournalFlusher
    log_cleaner: LogCleaner
    marker_sender: MarkerSender | RoutedMarkers
    audit_topic: AuditTopic
    peers: Peers
    metadata_leader: MetadataLeader | None  # in the process that others follow
    server: Server
    node: Node
    listen: Sequence[str]  # where, if the configuration names no `listeners`
    is_ready: Callable[[], bool] = bool  # whether requests are served; not before the broker says so
    lock: Lock | None = None
    is_clean_start: bool = False
    metrics_listener: Listener | None = None

    @property
    def addresses(self) -> list[Address]:
        """The addresses listened on."""
        return [Address(listener.host, listener.port) for listener in self.server.listeners]

    @property
    def listening(self) -> list[NamedAddress]:
        """The addresses listened on, with their listeners' names."""
        return [
            NamedAddress(name, *address)
            for name, address in zip(self.server.listener_names, self.addresses, strict=False)
        ]

    def metadata_changed(self, records: Sequence[MetadataRecord], removed: Sequence[Topic]) -> None:
        """The metadata has changed, here or in another process: what follows from that, in the same step."""
        if not records or alters_configs(records):
            self.node.configs_changed()
        if removed:
            self.node.topics.deleted(removed)

    def wanted_listeners(self) -> list[ListenerConfig]:
        """What to listen on, and what holds there. Raises ConfigInvalid."""
        found = listeners_of(self.node.config, self.listen)
        for warning in warnings_of(found, self.node.config):
            _log.warning("%s", warning)
        return found


def assemble(
    host: Host,
    configuration: Configuration,
    metrics: Metrics,
    tasks: Tasks,
    data_directory: str,
    listen: Sequence[str],
    processes: Processes = ALONE,
) -> Assembly:
    """Make every part of a broker, each from those before it."""
    in_force, clock, files = configuration.in_force, host.clock, OpenFiles(host.files)
    leadership = processes.leadership(in_force().node_id)
    flusher, syncer = _flusher(host, in_force(), metrics, data_directory, lambda: partitions.checkpoint_aside())
    store, leader, metadata = _store(host, files, data_directory, tasks, in_force, metrics, processes, lambda: parts)
    partitions = Partitions(files, data_directory, metadata, in_force, flusher, host.worker, syncer, leadership)
    topics = Topics(store, partitions, in_force, host.random, leadership, lambda topic: forget(topic), tasks, metrics)
    groups, shares, forget = _groups(metadata, partitions, topics, clock, in_force, metrics)

    def handle_here(request: Request) -> Outcome:
        return answer(node, request)  # the broker asks itself past the access rules

    peers = Peers(host, in_force(), tasks, processes, handle_here, lambda: parts.addresses[0])
    marker_writer, marker_sender = _markers(peers, metadata, leadership, host, tasks, partitions, groups)
    blocks, sessions = ProducerIdBlocks(store, tasks), _fetch_sessions(host, in_force)
    transactions = Transactions(metadata, partitions, topics, blocks, clock, in_force, marker_sender, metrics)
    gate = _gate(peers, metadata, leadership, host, in_force, metrics, transactions)
    authorization = authorization_of(metadata, in_force, metrics, audit := _audit(in_force, clock))
    transactions.entries = audit_topic = _audit_topic(peers, metadata, leadership, in_force, topics, clock, metrics)
    transactions.deeds = deeds = Deeds(_log_budget(in_force), audit_topic, metadata)
    admission = RequestAdmission(metadata, in_force, metrics, clock, authorization, handle_here, deeds, sessions)
    server = _server(host, in_force, metrics, metadata, admission, peers.own, audit, shares.connection_lost)
    node = Node(
        configuration=configuration,
        leadership=leadership,
        store=store,
        partitions=partitions,
        topics=topics,
        producer_id_blocks=blocks,
        transactions=transactions,
        groups=groups,
        gate=gate,
        marker_writer=marker_writer,
        fetch_sessions=sessions,
        share_groups=shares,
        authorization=authorization,
        metrics=metrics,
        client_metrics=_client_metrics(metadata, in_force, metrics, host.worker),
        clock=clock,
        random=host.random,
        data_directory=data_directory,
        disk_space=host.disk_space,
        fetch_bytes_max=server.fetch_bytes_max,
        advertised=lambda name: advertised_address(in_force(), parts.listening, name),
    )
    parts = Assembly(
        host=host,
        tasks=tasks,
        files=files,
        flusher=flusher,
        log_cleaner=LogCleaner(files, partitions, host.worker, syncer, clock, in_force, metrics),
        marker_sender=marker_sender,
        audit_topic=audit_topic,
        peers=peers,
        metadata_leader=leader,
        server=server,
        node=node,
        listen=listen,
    )
    register_gauges(node, parts.log_cleaner, marker_sender, flusher.journal)
    return parts


def _groups(
    metadata: ClusterMetadata,
    partitions: Partitions,
    topics: Topics,
    clock: Clock,
    in_force: InForce,
    metrics: Metrics,
) -> tuple[Groups, ShareGroups, Callable[[Topic], Coroutine[Any, Any, None]]]:
    """Groups, what share groups have, and what both do when a topic is gone."""
    groups = Groups(metadata, partitions, topics, clock, in_force, metrics)
    shares = ShareGroups(metadata, partitions, topics, clock, in_force)

    async def forget(topic: Topic) -> None:
        await groups.topic_deleted(topic)
        await shares.topic_deleted(topic)

    return groups, shares, forget


def _client_metrics(
    metadata: ClusterMetadata, in_force: InForce, metrics: Metrics, worker: Worker
) -> Callable[[], ClientMetrics]:
    @cache
    def made() -> ClientMetrics:
        from oncelog.broker.metrics.client_metrics import ClientMetrics  # for clients that push: many a broker has none

        return ClientMetrics(
            lambda: metadata.client_metrics_configs, lambda: metadata.client_metrics_version, in_force, metrics, worker
        )

    return made


def _log_budget(in_force: InForce) -> LogBudget:
    return LogBudget(lambda: in_force().oncelog_log_max_lines_per_minute)


def _audit(in_force: InForce, clock: Clock) -> Audit:
    return Audit(_log_budget(in_force), clock.now_ms)


def _flusher(
    host: Host,
    config: BrokerConfig,
    metrics: Metrics,
    data_directory: str,
    store_recovery_points: Callable[[], Awaitable[bool]],
) -> tuple[Flusher | JournalFlusher, TellingSyncer]:
    """Who commits, and the syncer of all others, whose failures it hears of."""
    syncer = MeasuredSyncer(host.syncer, metrics)
    flusher: Flusher | JournalFlusher
    if config.has_journal:
        journal = Journal(host.files, data_directory, size_bytes_max=config.oncelog_journal_max_bytes)
        flusher = JournalFlusher(syncer, journal, store_recovery_points, metrics)
    else:
        flusher = flusher_for(config.flush_policy, syncer, host.syncer, interval_ms=config.flush_interval_ms)
    metrics.show_histogram("sync_commits", flusher.commits)
    return flusher, TellingSyncer(host.syncer, flusher.sync_failed)


def _store(
    host: Host,
    files: OpenFiles,
    data_directory: str,
    tasks: Tasks,
    in_force: InForce,
    metrics: Metrics,
    processes: Processes,
    parts: Callable[[], Assembly],
) -> tuple[MetadataStore | FollowedMetadata, MetadataLeader | None, ClusterMetadata]:
    """What keeps the cluster's metadata, in the controller whom the other processes follow, and the metadata."""

    def changed(records: Sequence[MetadataRecord], removed: Sequence[Topic]) -> None:
        metrics.add("metadata_changes")
        parts().metadata_changed(records, removed)

    turn_wait = TurnWait(lambda: in_force().request_timeout_ms, lambda: metrics.limit_hit("request.timeout.ms"))
    node_id = in_force().node_id
    if processes.index:
        from oncelog.broker.metadata.followed_metadata import FollowedMetadata

        followed = FollowedMetadata(
            host.network, processes.metadata_host, node_id, processes.count, host.clock, tasks, turn_wait
        )
        followed.on_change = changed
        return followed, None, followed.metadata
    store = MetadataStore(
        files,
        data_directory,
        host.syncer,
        host.clock,
        tasks,
        lambda: in_force().metadata_log_max_record_bytes_between_snapshots,
        turn_wait,
    )
    store.on_change = changed
    if processes.count == 1:
        return store, None, store.metadata
    from oncelog.broker.metadata.metadata_leader import MetadataLeader

    return store, MetadataLeader(store, tasks, processes.count, lambda: parts().node.topics.forgotten()), store.metadata


def _server(
    host: Host,
    in_force: InForce,
    metrics: Metrics,
    metadata: ClusterMetadata,
    admission: RequestAdmission,
    own_peers: tuple[Peer | LocalPeer, ...],
    audit: Audit,
    when_lost: Callable[[int], None],
) -> Server:
    return Server(
        host.network,
        in_force,
        metrics,
        serves=lambda api_key, api_version: serves(metadata, api_key, api_version),
        handle=admission.handle,
        wait_ms_of=admission.connection_wait_ms,
        own_peers=own_peers,
        credentials=metadata.scram_credentials,
        tokens=metadata.delegation_tokens,
        random=host.random,
        audit=audit,
        now_ms=host.clock.now_ms,
        when_lost=when_lost,
    )


def _fetch_sessions(host: Host, in_force: InForce) -> FetchSessions:
    return FetchSessions(
        slots_max=in_force().max_incremental_fetch_session_cache_slots,
        partitions_max=lambda: in_force().oncelog_max_fetch_session_partitions,
        new_session_id=lambda: host.random.below(2**31 - 1) + 1,
    )


NEAR_BACKOFF_MS = 1  # another process of this machine, which nobody can wake this one from: markers take about as long


def _gate_config(config: BrokerConfig, *, is_own: bool) -> GateConfig:
    backoff_ms = config.add_partitions_to_txn_retry_backoff_ms
    return GateConfig(
        backoff_ms if is_own else min(backoff_ms, NEAR_BACKOFF_MS), config.add_partitions_to_txn_retry_backoff_max_ms
    )


def _gate(
    peers: Peers,
    metadata: ClusterMetadata,
    leadership: Leadership,
    host: Host,
    in_force: InForce,
    metrics: Metrics,
    transactions: Transactions,
) -> TransactionGate | RoutedGate:
    is_verified = transactions.is_verified if host.network.has_shortcut else None

    def gate_of(node_id: int) -> TransactionGate:
        is_own = node_id == leadership.node_id
        return TransactionGate(
            peers.gate[node_id],
            node_id,
            lambda: _gate_config(in_force(), is_own=is_own),
            metrics,
            is_verified if is_own else None,
        )

    gates = {node_id: gate_of(node_id) for node_id in leadership.node_ids}
    gate = gates[leadership.node_id] if leadership.is_alone else RoutedGate(gates, metadata, leadership)
    transactions.when_completed(gate.completed)
    return gate


def _audit_topic(
    peers: Peers,
    metadata: ClusterMetadata,
    leadership: Leadership,
    in_force: InForce,
    topics: Topics,
    clock: Clock,
    metrics: Metrics,
) -> AuditTopic:
    to_audit = LeaderPeer(peers.audit, metadata, leadership, AUDIT_TOPIC)
    return AuditTopic(lambda: in_force().oncelog_audit_topic, topics, to_audit, clock, metrics)


def _markers(
    peers: Peers,
    metadata: ClusterMetadata,
    leadership: Leadership,
    host: Host,
    tasks: Tasks,
    partitions: Partitions,
    groups: Groups,
) -> tuple[MarkerWriter, MarkerSender | RoutedMarkers]:
    writer = MarkerWriter(partitions, groups, host.clock)
    own = writer if host.network.has_shortcut else None
    senders = {
        node_id: MarkerSender(peer, metadata, tasks, writer=own if node_id == leadership.node_id else None)
        for node_id, peer in peers.markers.items()
    }
    if leadership.is_alone:
        return writer, senders[leadership.node_id]
    return writer, RoutedMarkers(senders, metadata, leadership)
