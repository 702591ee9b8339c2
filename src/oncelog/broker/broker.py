"""The broker: all its parts, put together. What starts in which order is the table in `startup`.

`async with Broker(data_dir=None, config={}) as broker: broker.bootstrap_servers`
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from oncelog.broker import startup
from oncelog.broker.config.addresses import Address, advertised_address, listen_addresses
from oncelog.broker.config.config import BrokerConfig, config_from, rules, text_of
from oncelog.broker.config.config_view import BrokerValues, broker_key_kind
from oncelog.broker.config.dynamic_config import dynamic_fault
from oncelog.broker.coordinators.groups import Groups
from oncelog.broker.coordinators.marker_sender import MarkerSender
from oncelog.broker.coordinators.marker_writer import MarkerWriter
from oncelog.broker.coordinators.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.coordinators.transaction_gate import TransactionGate
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.gauges import register_gauges
from oncelog.broker.handlers import MODULES, handler_for
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.peer import Peer
from oncelog.broker.network.server import Server
from oncelog.broker.partitions.flusher import Flusher
from oncelog.broker.partitions.log_cleaner import LogCleaner
from oncelog.broker.partitions.measured_syncer import MeasuredSyncer
from oncelog.broker.partitions.partitions import Partitions
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import Request
from oncelog.core.leader.fetch_session import FetchSessions
from oncelog.core.leader.gate import GateConfig
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.configs import BrokerKeys
from oncelog.core.metadata.features import api_version_max
from oncelog.host.host import Host, real_host
from oncelog.host.network import Listener
from oncelog.host.tasks import Tasks
from oncelog.log.files import Lock
from oncelog.log.open_files import OpenFiles
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.log_records.cluster_metadata import MetadataRecord

if TYPE_CHECKING:
    from oncelog.broker.admission.authorization import Authorization
    from oncelog.broker.admission.quotas import Quotas

_log = logging.getLogger("oncelog.broker")

DRAIN_TIMEOUT_S = 10.0
THROTTLED = frozenset(
    (ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.CREATE_TOPICS, ApiKey.CREATE_PARTITIONS, ApiKey.DELETE_TOPICS)
)


class Broker:
    """A Kafka-compatible broker in this process.

    `data_dir` None keeps the data in a temporary directory, removed at the end. `config` has Kafka's keys; `listen` is
    "host:port" (port 0: a free one), used where the config names no `listeners`. Raises, on entering: ConfigInvalid,
    NetworkFailed (port in use), StorageError (directory locked by another server, disk), DamagedLog.
    """

    def __init__(
        self,
        data_dir: str | None = None,
        config: Mapping[str, object] | None = None,
        host: Host | None = None,
        listen: str | Sequence[str] = "127.0.0.1:0",
    ) -> None:
        self.host = host or real_host()
        self._owns_host = host is None
        self.static_config, self.config_warnings = config_from(config or {})
        self.static_keys = frozenset(config or {})
        self.config = self.static_config
        self._is_ephemeral = data_dir is None and not self.config.log_dirs and not self.config.log_dir
        self._data_dir = data_dir or self.config.log_dirs.split(",")[0] or self.config.log_dir
        self._listen = [listen] if isinstance(listen, str) else list(listen)
        self.metrics = Metrics()
        self.tasks = Tasks(self._task_failed)
        self.failure: asyncio.Future[BaseException] | None = None
        self.cluster_id = ""
        self.lock: Lock | None = None
        self.is_clean_start = False
        self.metrics_listener: Listener | None = None
        self._is_started = False
        self._quotas: Quotas | None = None

    # what startup puts together

    def assemble(self) -> None:
        """Make every part; none of them touches the disk or network yet."""
        if self._is_ephemeral:
            self._data_dir = self.host.new_temporary_directory()
        clock, files = self.host.clock, OpenFiles(self.host.files)

        def in_force() -> BrokerConfig:
            return self.config

        self.files = files
        self.flusher = Flusher(
            MeasuredSyncer(self.host.syncer, self.metrics),
            policy=self.config.flush_policy,
            interval_ms=self.config.flush_interval_ms,
        )
        self.metrics.show_histogram("sync_commits", self.flusher.commits)
        self.store = MetadataStore(
            files,
            self._data_dir,
            self.host.syncer,
            clock,
            self.tasks,
            lambda: self.config.metadata_log_max_record_bytes_between_snapshots,
        )
        self.store.on_change = self._metadata_changed
        self.authorization = self._authorization()
        self.partitions = Partitions(
            files, self._data_dir, self.store.metadata, in_force, self.flusher, self.host.worker, self.host.syncer
        )
        self.log_cleaner = LogCleaner(
            files, self.partitions, self.host.worker, self.host.syncer, clock, in_force, self.metrics
        )
        self.topics = Topics(
            self.store, self.partitions, in_force, self.host.random, self.node_id, self._topic_deleted, self.metrics
        )
        self.producer_id_blocks = ProducerIdBlocks(self.store)
        self.transactions = Transactions(
            self.metadata,
            self.partitions,
            self.topics,
            self.producer_id_blocks,
            clock,
            in_force,
            on_completed=lambda transactional_id: self.gate.completed(transactional_id),
            metrics=self.metrics,
        )
        self.groups = Groups(self.metadata, self.partitions, self.topics, clock, in_force, self.metrics)
        self.fetch_sessions = FetchSessions(
            slots_max=self.config.max_incremental_fetch_session_cache_slots,
            partitions_max=lambda: self.config.oncelog_max_fetch_session_partitions,
            new_session_id=lambda: self.host.random.below(2**31 - 1) + 1,
        )
        self.server = Server(
            self.host.network,
            in_force,
            self.metrics,
            serves=self.serves,
            handle=self._handle,
            wait_ms_of=self._connection_wait_ms,
        )
        register_gauges(self)

    def _authorization(self) -> Authorization | None:
        if not self.config.authorizer_class_name:
            return None
        from oncelog.broker.admission.authorization import Authorization  # and with it the checks of all APIs

        return Authorization(self)

    def connect_to_itself(self) -> None:
        """A broker asks its own coordinators and partitions as it would a peer's."""
        self.gate_peer, self.marker_peer = self._peer_here("gate"), self._peer_here("markers")
        self.server.own_peers = (self.gate_peer, self.marker_peer)
        self.gate = TransactionGate(
            self.gate_peer,
            self.node_id,
            self.host.clock,
            lambda: GateConfig(
                self.config.add_partitions_to_txn_retry_backoff_ms,
                self.config.add_partitions_to_txn_retry_backoff_max_ms,
            ),
            self.metrics,
            self.transactions.vouches_for if self.host.network.has_shortcut else None,
        )
        self.marker_writer = MarkerWriter(self.partitions, self.groups, self.host.clock)
        sender = MarkerSender(
            self.marker_peer,
            self.metadata,
            self.transactions.markers_written,
            self.tasks,
            writer=self.marker_writer if self.host.network.has_shortcut else None,
        )
        self.marker_sender = sender
        self.transactions.use(sender)

    def _peer_here(self, purpose: str) -> Peer | LocalPeer:
        client_id = f"oncelog-{self.node_id}-{purpose}"
        if self.host.network.has_shortcut:
            # Not through the access rules: nobody but this broker asks.
            return LocalPeer(
                lambda request: handler_for(request.api_key)(self, request), self.tasks, client_id=client_id
            )
        host, port = self.addresses[0]
        near = "127.0.0.1" if host in ("", "0.0.0.0", "::") else host  # noqa: S104
        return Peer(self.host.network, near, port, client_id=client_id, timeout_ms=self.config.request_timeout_ms)

    # what handlers ask

    @property
    def node_id(self) -> int:
        """This broker's id."""
        return self.config.node_id

    @property
    def metadata(self) -> ClusterMetadata:
        """The cluster's metadata as of now."""
        return self.store.metadata

    @property
    def data_directory(self) -> str:
        """Where everything is kept."""
        return self._data_dir

    @property
    def addresses(self) -> list[Address]:
        """The addresses listened on."""
        return [Address(listener.host, listener.port) for listener in self.server.listeners]

    @property
    def advertised_address(self) -> Address:
        """The address clients are told."""
        return advertised_address(self.config, self.addresses)

    @property
    def bootstrap_servers(self) -> str:
        """What a client in this process connects to, "host:port"."""
        return str(self.addresses[0])

    def wanted_addresses(self) -> list[Address]:
        """The addresses to listen on. Raises ConfigInvalid."""
        return listen_addresses(self.config, self._listen)

    def served_apis(self) -> list[ApiKey]:
        """The APIs that are served, and so advertised."""
        return sorted(MODULES)

    def max_version(self, api_key: int) -> int:
        """The newest version of an API that is served now: InitProducerId v6 needs `transaction.version` 3."""
        return api_version_max(api_key, APIS[api_key].max_version, self.metadata.features)

    def serves(self, api_key: int, api_version: int) -> bool:
        """Whether a request of this API and version is answered."""
        return api_key in MODULES and APIS[api_key].min_version <= api_version <= self.max_version(api_key)

    def dynamic_keys(self) -> BrokerKeys:
        """What may be altered while the broker runs."""
        return BrokerKeys(
            self.node_id,
            lambda name: broker_key_kind(name) == "list",
            dynamic_fault,
            self.config_value,
            self.config.oncelog_max_config_resources,
        )

    def config_value(self, key: str) -> str | None:
        """The value in force of a broker's key; None for a key that it has not."""
        return text_of(getattr(self.config, key.replace(".", "_"))) if key in rules() else None

    def config_values(self) -> BrokerValues:
        """Where this broker's values come from."""
        dynamic = self.metadata.broker_configs
        return BrokerValues(
            self.static_config, self.static_keys, dynamic.get(str(self.node_id), {}), dynamic.get("", {})
        )

    def configs_changed(self) -> None:
        """Take over the dynamic configuration of the metadata."""
        dynamic = self.metadata.dynamic_broker_configs(self.node_id)
        self.config, _ = config_from(dynamic, base=self.static_config)
        self.partitions.configs_changed()

    @property
    def is_ready(self) -> bool:
        """Whether requests are served and nothing inside has failed."""
        return self._is_started and self.failure is not None and not self.failure.done()

    # inside

    def _handle(self, request: Request) -> Any:
        if self.metadata.client_quotas and (request.api_key in THROTTLED or self.metadata.has_request_quotas):
            return self._quotas_in_use().handle(request, self._answer)
        return self._answer(request)

    def _connection_wait_ms(self, host: str) -> int:
        return self._quotas_in_use().connection_wait_ms(host) if self.metadata.client_quotas else 0

    def _quotas_in_use(self) -> Quotas:
        if self._quotas is None:
            from oncelog.broker.admission.quotas import Quotas

            self._quotas = Quotas(self)
        return self._quotas

    def _answer(self, request: Request) -> Any:
        handler = handler_for(request.api_key)
        if self.authorization is not None:
            return self.authorization.handle(request, handler)
        return handler(self, request)

    def _metadata_changed(self, _records: Sequence[MetadataRecord]) -> None:
        self.metrics.add("metadata_changes")

    async def _topic_deleted(self, topic: Topic) -> None:
        await self.groups.topic_deleted(topic)

    def _task_failed(self, error: BaseException) -> None:
        _log.critical("a part of the broker failed: %r", error, exc_info=error)
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(error)

    # life

    async def start(self) -> None:
        """Start in the order of `startup.STEPS`; when a step fails, what was begun is ended again."""
        self.failure = asyncio.get_running_loop().create_future()
        for warning in self.config_warnings:
            _log.warning("%s", warning)
        try:
            for name, step in startup.STEPS:
                _log.debug("start: %s", name)
                await step(self)
        except BaseException:
            await self._abandon()
            raise
        self._is_started = True

    async def stop(self) -> None:
        """Stop accepting, finish what is in flight, sync, write snapshots and checkpoints, release the directory."""
        if not self._is_started:
            return
        self._is_started = False
        self.server.stop_accepting()
        await self.server.drain(DRAIN_TIMEOUT_S)
        self.groups.close()
        await self.flusher.sync_all()
        await self._abandon(is_clean=True)

    async def _abandon(self, *, is_clean: bool = False) -> None:
        if self.metrics_listener is not None:
            self.metrics_listener.close()
        if hasattr(self, "server"):
            await self.server.close()
        if hasattr(self, "store"):
            await self.store.settled()  # a change in the middle of its sync could not be closed over
        await self.tasks.close()
        if hasattr(self, "marker_peer"):
            self.gate_peer.close()
            self.marker_peer.close()
        if self.lock is not None:
            try:
                if is_clean:
                    await startup.close_directory(self)
                self.files.close()
            finally:
                self.lock.close()
                self.lock = None
        if self._owns_host:
            self.host.syncer.close()
        if self._is_ephemeral and self._data_dir:
            self.host.files.remove_directory(self._data_dir)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
