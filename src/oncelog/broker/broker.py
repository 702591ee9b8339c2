"""The broker: its life. Its parts are put together in `assembly`; what starts in which order is the table in `startup`.

`async with Broker(data_dir=None, config={}) as broker: broker.bootstrap_servers`
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from oncelog.broker import arguments, startup
from oncelog.broker.assembly import Assembly, assemble
from oncelog.broker.config.addresses import Address
from oncelog.broker.config.config import BrokerConfig, ConfigInvalid
from oncelog.broker.config.configuration import Configuration
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.processes import ALONE, Processes
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.errors import IllegalState, StorageError
from oncelog.host.given_paths import AnyPath
from oncelog.host.host import Host, real_host
from oncelog.host.network import Listener, NetworkFailed
from oncelog.host.tasks import Tasks

_log = logging.getLogger("oncelog.broker")

DRAIN_TIMEOUT_S = 10.0
NOT_STARTED = "was not started: use `async with`, or await start()"


class Broker:
    """A Kafka-compatible broker in this process.

    `data_dir` None keeps the data in a temporary directory, removed at the end. `config` has Kafka's keys; `listen` is
    "host:port" (port 0: a free one), used where the config names no `listeners`. Raises InvalidArgument and ConfigInvalid;
    on entering: ConfigInvalid, NetworkFailed (port in use), StorageError (directory locked by another server, disk), DamagedLog.
    """

    def __init__(
        self,
        data_dir: AnyPath | None = None,
        config: Mapping[str, object] | None = None,
        host: Host | None = None,
        listen: str | Sequence[str] = "127.0.0.1:0",
        *,
        processes: Processes = ALONE,
    ) -> None:
        path = arguments.data_directory(data_dir, "its config is the second argument: Broker(config=...)")
        self._listen = arguments.addresses(listen)
        if host is not None:
            arguments.instance("host", host, Host, "an address is given as listen=")
        arguments.instance("processes", processes, Processes)
        self.configuration = Configuration(arguments.config_values(config))
        self.host = host or real_host()
        self._owns_host = host is None
        static = self.configuration.static
        self._data_dir = path or (static.log_dirs or static.log_dir).split(",")[0]
        self._is_ephemeral = not self._data_dir
        self.processes = processes  # which one this is of `oncelog serve --processes`
        self.metrics = Metrics()
        self.tasks = Tasks(self._task_failed)
        self.failure: asyncio.Future[BaseException] | None = None
        self._parts: Assembly | None = None
        self._is_started = False
        self._life = NOT_STARTED

    def _begin(self) -> None:
        """A broker has one life: its tasks and its directory's lock cannot be had again."""
        if self._life != NOT_STARTED:
            raise IllegalState(f"this broker {self._life}")
        self._life = "is being started: wait for that"

    def assemble(self) -> Assembly:
        """Make every part; none of them touches the disk or network yet."""
        if self._is_ephemeral:
            self._data_dir = self.host.new_temporary_directory()
        self.configuration.set_by_arguments(self._data_dir, self._listen)
        self._parts = parts = assemble(
            self.host,
            self.configuration,
            self.metrics,
            self.tasks,
            self._data_dir,
            self._listen,
            self.processes,
        )
        parts.is_ready = lambda: self.is_ready
        # What a test, a simulator or a person at a prompt looks at.
        node = self.node = parts.node
        self.store, self.partitions, self.topics = node.store, node.partitions, node.topics
        self.transactions, self.groups, self.gate = node.transactions, node.groups, node.gate
        self.share_groups = node.share_groups
        self.fetch_sessions, self.producer_id_blocks = node.fetch_sessions, node.producer_id_blocks
        self.flusher, self.log_cleaner, self.server = parts.flusher, parts.log_cleaner, parts.server
        self.marker_sender, self.files = parts.marker_sender, parts.files
        self.gate_peer, self.marker_peer, _ = parts.peers.own
        return parts

    @property
    def config(self) -> BrokerConfig:
        """The configuration in force."""
        return self.configuration.current

    @property
    def config_warnings(self) -> Sequence[str]:
        """What of the given configuration has no effect."""
        return self.configuration.warnings

    @property
    def metadata(self) -> ClusterMetadata:
        """The cluster's metadata as of now. Raises IllegalState before the start."""
        if self._parts is None:
            raise IllegalState(f"this broker {self._life}")
        return self.store.metadata

    @property
    def node_id(self) -> int:
        """This broker's id."""
        return self.configuration.static.node_id

    @property
    def cluster_id(self) -> str:
        """The cluster's id, once the directory was read."""
        return "" if self._parts is None else self._parts.node.cluster_id

    @property
    def is_clean_start(self) -> bool:
        """Whether the data directory was left by an orderly stop."""
        return self._parts is not None and self._parts.is_clean_start

    @property
    def metrics_listener(self) -> Listener | None:
        """Where the metrics are shown, if they are."""
        return None if self._parts is None else self._parts.metrics_listener

    @property
    def data_directory(self) -> str:
        """Where everything is kept. Raises IllegalState before the start, where that makes a temporary one."""
        if not self._data_dir:
            raise IllegalState(f"this broker {self._life}")
        return self._data_dir

    @property
    def addresses(self) -> list[Address]:
        """The addresses listened on."""
        return [] if self._parts is None else self._parts.addresses

    @property
    def advertised_address(self) -> Address:
        """The address clients are told. Raises IllegalState before the start."""
        if not self.addresses:
            raise IllegalState(f"this broker {self._life}")
        return self.node.advertised_address

    @property
    def bootstrap_servers(self) -> str:
        """What a client here connects to, "host:port"; also of one that was stopped. Raises IllegalState before the start."""
        if not self.addresses:
            raise IllegalState(f"this broker {self._life}")
        return str(self.addresses[0])

    @property
    def is_ready(self) -> bool:
        """Whether requests are served and nothing inside has failed."""
        return self._is_started and self.failure is not None and not self.failure.done()

    def _task_failed(self, error: BaseException) -> None:
        _log.critical("a part of the broker failed: %r", error, exc_info=error)
        if self.failure is not None and not self.failure.done():
            self.failure.set_result(error)

    # life

    async def start(self) -> None:
        """Start in the order of `startup.STEPS`; when a step fails, what was begun is ended again. Once (IllegalState)."""
        self._begin()
        self.failure = asyncio.get_running_loop().create_future()
        for warning in self.config_warnings:
            _log.warning("%s", warning)
        done: list[str] = []
        try:
            parts = self.assemble()
            for name, step in startup.STEPS:
                _log.debug("start: %s", name)
                await startup.recovered_by(step, parts)
                done.append(name)
        except (ConfigInvalid, NetworkFailed):
            # A port in use, say. What was recovered, or made in a new directory, is closed as by any stop.
            if startup.STOPPABLE_AFTER in done:
                await self._stop_in_order()
            else:
                if self.is_clean_start:
                    await self.flusher.sync_all()
                await self._abandon(is_clean=self.is_clean_start)
            raise
        except BaseException:
            await self._abandon()
            raise
        self._is_started, self._life = True, "runs already: bootstrap_servers says where"

    @asynccontextmanager
    async def without_serving(self) -> AsyncIterator[Assembly]:
        """The data directory as a start leaves it, and nobody is served: what a journal holds is put back, torn ends are cut and
        kept aside. At the end it is closed as by a clean stop, where no partition is damaged. Raises StorageError (a broker runs
        there), DamagedLog, ConfigInvalid, IllegalState."""
        self._begin()
        try:
            parts = self.assemble()
            for _, step in startup.RECOVERY_STEPS:
                await startup.recovered_by(step, parts)
            await parts.node.partitions.open_rest()
            yield parts
        except BaseException:
            await self._abandon()
            raise
        await self._abandon(is_clean=True)

    async def recover_directory(self) -> list[str]:
        """Bring the data directory to Kafka's form, as a start and a clean stop would. The partitions that are damaged, with the
        reasons: then the directory is not marked as cleanly closed. Raises what `without_serving` raises."""
        async with self.without_serving() as parts:
            partitions = parts.node.partitions
            await partitions.open_rest()
            for partition in tuple(partitions):
                try:
                    for segment in () if partition.is_offline else partition.log.segments:
                        _ = segment.largest_timestamp  # what a broker would notice at the first lookup by time
                except StorageError as error:
                    partition.go_offline(str(error))
            return partitions.damaged()

    async def stop(self) -> None:
        """Stop accepting, finish what is in flight, sync, write snapshots and checkpoints, release the directory."""
        if not self._is_started:
            return
        self._is_started, self._life = False, "is being stopped"
        await self._stop_in_order()

    async def _stop_in_order(self) -> None:
        self.server.stop_accepting()
        self.share_groups.close()
        await self.server.drain(DRAIN_TIMEOUT_S)
        self.groups.close()
        await self.flusher.sync_all()
        await self._abandon(is_clean=True)

    async def _abandon(self, *, is_clean: bool = False) -> None:
        self._life = "is over: make a new one"
        if self._parts is not None:
            await self._release(self._parts, is_clean=is_clean)
        if self._owns_host:
            self.host.syncer.close()
        if self._is_ephemeral and self._data_dir:
            self.host.files.remove_directory(self._data_dir)

    async def _release(self, parts: Assembly, *, is_clean: bool) -> None:
        parts.node.share_groups.end()
        if parts.metrics_listener is not None:
            parts.metrics_listener.close()
        if parts.metadata_leader is not None:
            parts.metadata_leader.close()
        await parts.server.close()
        await parts.node.store.last_change_over()  # a change in the middle of its sync could not be closed over
        if not isinstance(parts.node.store, MetadataStore):
            parts.node.store.unfollow()
        if is_clean:
            await parts.audit_topic.settle()
        await self.tasks.close()
        parts.peers.close()
        if parts.lock is not None:
            try:
                if is_clean:
                    await startup.close_directory(parts)
                parts.files.close()
            finally:
                parts.lock.close()
                parts.lock = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.stop()
