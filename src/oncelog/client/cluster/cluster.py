"""A client's way to a cluster: finds brokers, keeps connections and metadata, retries what may be retried.

Everything is bounded: connecting and each request have timeouts, retries end with their caller's deadline. A node has
one connection per `lane`, so that a Fetch that waits for data holds up nobody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from oncelog.client.backoff import Backoff, Deadline
from oncelog.client.cluster.anybody import Anybody
from oncelog.client.cluster.connection import BrokerVersions, Connection
from oncelog.client.cluster.logins import Logins
from oncelog.client.cluster.telemetry import Telemetry
from oncelog.client.cluster.topics_in_use import Question, TopicsInUse
from oncelog.client.cluster.view import ClusterView, TopicView
from oncelog.client.config import ClientConfig
from oncelog.client.rights import OF_TOPICS, Rights
from oncelog.client.security import tls_context
from oncelog.client.telemetry_points import ADMIN, broker_points
from oncelog.client.traffic import TrafficByBroker
from oncelog.core.known_coordinators import KnownCoordinators
from oncelog.errors import (
    AuthenticationFailed,
    CoordinatorNotAvailable,
    ErrorCode,
    IllegalState,
    KafkaError,
    LeaderNotAvailable,
    Network,
    NotController,
    RequestTimedOut,
    UnknownTopicOrPartition,
    UnsupportedVersion,
    error_for,
)
from oncelog.host.host import Host
from oncelog.host.tasks import Tasks
from oncelog.types import CoordinatorKey, Node, TopicPartition
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.schema import Struct

log = logging.getLogger("oncelog.client")

T = TypeVar("T")
VERSION_MAX = 32767
GOODBYE_S = 1.0
TOLD_MAX = 10
WHAT_A_NAME_HAS = ": a name has 1 to 249 of the characters a-z, A-Z, 0-9, '.', '_', '-'"
UNKNOWN_TOPIC_PATIENCE_MS = (
    10_000  # a new topic takes a moment to be known everywhere, at most broker.session.timeout.ms
)


class Cluster:
    """Connections, metadata and routing of one client."""

    def __init__(
        self,
        config: ClientConfig,
        host: Host,
        on_failure: Callable[[BaseException], None],
        on_metadata: Callable[[], None] = lambda: None,
    ) -> None:
        self.config, self.host, self._on_metadata = config, host, on_metadata
        self._security = config.security()
        self._tls = None if self._security.tls is None else tls_context(self._security.tls)
        self.rights = Rights(OF_TOPICS.get(config.KIND, "describe"), self._security.user)
        self.view = ClusterView()
        self.versions = BrokerVersions()  # of the broker with the newest features
        self.tasks = Tasks(on_failure)
        sasl = self._security.sasl
        self._logins = None if sasl is None else Logins(sasl, host, self.tasks.start, config.request_timeout_ms)
        self.traffic = TrafficByBroker()
        self.anybody = Anybody(self._pick, self.tasks.start, timeout_ms=config.default_api_timeout_ms)
        self.telemetry = Telemetry(config, host, lambda: self.versions, lambda: self.connection(self.any_node()))
        self.telemetry.tells(lambda: list(broker_points(ADMIN, self.traffic.snapshot())))
        self.is_closed = False
        self.tracks_all = False  # whether every topic is looked at, as new ones may match a pattern
        self._loop: asyncio.AbstractEventLoop | None = None  # in which it was started
        self._told: set[str] = set()  # what kept it from connecting
        self._bootstrap = [Node(-1 - i, name, port) for i, (name, port) in enumerate(config.bootstrap_addresses())]
        self._connections: dict[tuple[Node, str], asyncio.Task[Connection]] = {}
        self._awaited: dict[tuple[Node, str], asyncio.Task[Connection]] = {}
        self._refused: dict[Node, tuple[float, Backoff]] = {}
        self._coordinators = KnownCoordinators()
        self._refresh_task: asyncio.Task[None] | None = None
        self._soon_task: asyncio.Task[None] | None = None
        self._refreshed_ms = float("-inf")
        self._refreshed: frozenset[str] | None = frozenset()  # the topics asked for then; None: all
        self._wanted: set[str] = set()
        self._wanted_soon: set[str] = set()
        self._is_wanted_soon = False  # also of no particular topics
        self._wants_all = False
        self.topics = TopicsInUse(idle_ms=config.metadata_idle_ms, now_ms=self.now_ms)

    # -- life

    async def start(self) -> None:
        """Reach any bootstrap server. Raises RequestTimedOut naming what was tried."""
        self._loop = asyncio.get_running_loop()

        async def attempt(deadline: Deadline) -> None:
            try:
                await self.refresh(())
            except KafkaError as error:
                self._tell(error, deadline.timeout_ms)
                raise

        await self.retry("connect to the cluster", attempt)
        self.tasks.start(self._keep_fresh(), name="oncelog-metadata")
        if self.config.enable_metrics_push:
            self.tasks.start(self.telemetry.run(), name="oncelog-telemetry")

    def _tell(self, error: KafkaError, limit_ms: float) -> None:
        """Each reason is logged once: who waits for the start should not have to wait for its end to hear it."""
        if error.retriable and str(error) not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(str(error))
            log.warning("%s: not connected yet, tried for %d ms at most: %s", self.config.KIND, limit_ms, error)

    def call_soon(self, work: Callable[[], None]) -> None:
        """Run `work` in the loop that it was started in; from any thread. Nothing before the start, or where that loop ended."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(work)

    def check_usable(self) -> None:
        """Raise IllegalState for a client that is closed, or that another event loop runs."""
        if self.is_closed:
            raise IllegalState("this client was closed")
        self.check_loop()

    def check_loop(self) -> None:
        """Raise IllegalState in another event loop than the one it was started in: it would wait there for ever."""
        if self._loop is not None and asyncio.get_running_loop() is not self._loop:
            raise IllegalState(
                "this client was started in another event loop: make one in each (every asyncio.run makes a loop of its own; "
                "oncelog.sync has clients for threads)"
            )

    async def close(self) -> None:
        """Close all connections; before it, push the last metrics where the broker wants any."""
        try:
            await self.telemetry.last_push()
        finally:
            await self._close()

    async def _close(self) -> None:
        self.is_closed = True
        self.telemetry.end()
        closing = [
            task.result()
            for task in self._connections.values()
            if task.done() and not task.cancelled() and task.exception() is None
        ]
        for connection in closing:
            connection.close()
        await self.tasks.close()
        if self._tls is not None:
            await asyncio.gather(*(connection.hung_up(GOODBYE_S) for connection in closing))
            await asyncio.sleep(0)  # in which the loop closes what was cut

    async def _keep_fresh(self) -> None:
        while True:
            await asyncio.sleep(self.config.metadata_max_age_ms / 1000)
            try:
                await self.refresh(None if self.tracks_all else ())
            except KafkaError as error:
                log.warning("metadata could not be refreshed: %s", error)

    def now_ms(self) -> float:
        """The loop's monotonic milliseconds."""
        return asyncio.get_running_loop().time() * 1000

    def new_backoff(self) -> Backoff:
        """The back-off of one call."""
        return Backoff(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, self.host.random)

    async def retry(
        self,
        what: str,
        attempt: Callable[[Deadline], Awaitable[T]],
        *,
        timeout_ms: int | None = None,
        unknown_patience_ms: float = UNKNOWN_TOPIC_PATIENCE_MS,
    ) -> T:
        """Call `attempt` until it succeeds, fails with an error that is not retriable, or the time is over. What does not
        exist is not waited for as long: UnknownTopicOrPartition is raised after `unknown_patience_ms`."""
        self.check_usable()
        deadline = Deadline(self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms, what)
        backoff = self.new_backoff()
        last_error: KafkaError | None = None
        unknown_since_ms: float | None = None
        while True:
            try:
                async with asyncio.timeout(max(deadline.left_ms, 1) / 1000):
                    return await attempt(deadline)
            except TimeoutError:
                why = self.why_late(last_error)
                raise deadline.passed(why) from why
            except KafkaError as error:
                if not error.retriable or self.is_closed or self.anybody.has_given_up(error):
                    raise
                if not isinstance(error, UnknownTopicOrPartition):
                    unknown_since_ms = None
                elif unknown_since_ms is None:
                    unknown_since_ms = self.now_ms()
                elif self.now_ms() - unknown_since_ms > unknown_patience_ms:
                    text = (error.message or "").rstrip(".")
                    raise UnknownTopicOrPartition(f"{text}: create it, or look at its name") from error
                last_error = error
            await deadline.wait(backoff, self.why_late(last_error))

    def why_late(self, last_error: KafkaError | None) -> KafkaError | None:
        """Why a wait is not over: what failed last or, where that says nothing, a login that failed or is not answered."""
        if self._logins is not None and (last_error is None or isinstance(last_error, RequestTimedOut)):
            return self._logins.why_waiting() or last_error
        return last_error

    def refusal(self, error_code: int, text: str, name: str, request: type[Struct] | None = None) -> KafkaError:
        """The error of a code that a broker answered (such a request) with about the topic, group or transactional id `name`;
        where rights are missing, with the way out."""
        return self.rights.refusal(error_code, text, name, request)

    # -- connections

    async def connection(self, node: Node, lane: str = "") -> Connection:
        """An open connection to the node. Raises Network or RequestTimedOut."""
        self.check_usable()
        self.anybody.check_not_given_up(node)
        task = self._connections.get(key := (node, lane))
        if task is None or (task.done() and (task.cancelled() or task.exception() or task.result().is_closed)):
            task = self.tasks.start(self._connect(node), name=f"oncelog-connect-{node.node_id}")
            self._connections[key] = task
        return await self._shared(task)

    async def _shared(self, task: asyncio.Task[T]) -> T:
        """The result of a task that others wait for too; where the client is closed meanwhile, that is what is told."""
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if task.cancelled() and (own is None or not own.cancelling()):
                raise IllegalState("this client was closed") from None
            raise

    def open_connection(self, node: Node, when_open: Callable[[], None], lane: str = "") -> Connection | None:
        """The connection, if it is open now and not throttled; else `when_open` is called when to ask again."""
        key = (node, lane)
        task = self._connections.get(key)
        if task is not None and task.done() and self._is_connected(node, lane):
            connection = task.result()
            return None if connection.is_throttled(when_open) else connection
        if task is None or task.done():
            task = self.tasks.start(self._connect(node), name=f"oncelog-connect-{node.node_id}")
            self._connections[key] = task
        if self._awaited.get(key) is not task:  # somebody else may have begun to open it
            self._awaited[key] = task

            def was_awaited(_: asyncio.Task[Connection]) -> None:
                self._awaited.pop(key, None)
                when_open()

            task.add_done_callback(was_awaited)
        return None

    def take_refusal(self, node: Node, lane: str = "") -> AuthenticationFailed | None:
        """Why the last attempt to log in there was refused, told once; who wants to can try again with `open_connection`."""
        task = self._connections.get((node, lane))
        if task is None or not task.done() or task.cancelled():
            return None
        error = task.exception()
        if not isinstance(error, AuthenticationFailed):
            return None
        del self._connections[node, lane]
        return error

    def ready_connection(self, node: Node, lane: str) -> Connection | None:
        """The connection, if a request can leave on it at once."""
        if self.is_closed or not self._is_connected(node, lane):
            return None
        connection = self._connections[node, lane].result()
        return connection if connection.may_write else None

    async def _connect(self, node: Node) -> Connection:
        loop = asyncio.get_running_loop()
        not_before, backoff = self._refused.get(node, (0.0, None))
        if backoff is not None and not_before > loop.time():
            await asyncio.sleep(not_before - loop.time())
        timeout_ms = self.config.socket_connection_setup_timeout_ms
        try:
            connection = await Connection.open(
                self.host.network,
                node.host,
                node.port,
                self.config.client_id,
                timeout_ms,
                self.traffic.of(node),
                None if self._logins is None else self._logins.log_in,
                self._tls,
            )
        except KafkaError as error:
            if isinstance(error, RequestTimedOut):
                self.anybody.was_silent(node, error)
            if backoff is None:
                first_ms, max_ms = self.config.reconnect_backoff_ms, self.config.reconnect_backoff_max_ms
                backoff = Backoff(first_ms, max_ms, self.host.random)
            self._refused[node] = (loop.time() + backoff.next_ms() / 1000, backoff)
            raise
        self._refused.pop(node, None)
        if connection.versions.features_epoch >= self.versions.features_epoch:
            self.versions = connection.versions
        return connection

    def any_node(self) -> Node:
        """A broker to ask what every broker knows: one that answers and is connected, else one that has not just refused."""
        node = self._pick(())
        assert node is not None, "there is a bootstrap server"
        return node

    def _pick(self, asked: Sequence[Node]) -> Node | None:
        """The same, but none of those that were asked already, under whatever name."""
        known = list(self.view.nodes.values()) or self._bootstrap
        everywhere = [*known, *(n for n in self._bootstrap if n not in known)]
        if asked:
            addresses = {(each.host, each.port) for each in asked}
            known, everywhere = (
                [n for n in nodes if (n.host, n.port) not in addresses] for nodes in (known, everywhere)
            )
        now = asyncio.get_running_loop().time()
        fit = [n for n in everywhere if self._refused.get(n, (0.0,))[0] <= now and not self.anybody.is_silent(n)]
        answered = {(n.host, n.port) for n in fit if self._is_connected(n)}  # perhaps as a bootstrap server only
        choices = (
            [n for n in known if self._is_connected(n) and not self.anybody.is_silent(n)],
            [n for n in fit if n in known and (n.host, n.port) in answered],
            [n for n in fit if n in known],  # before bootstrap servers that may be no part of the cluster
            fit,
            everywhere,
        )
        nodes = next((each for each in choices if each), [])
        return nodes[self.host.random.below(len(nodes))] if nodes else None

    async def ask_anybody(self, message: Struct, *, version_min: int = 0) -> Any:
        """One question that every broker can answer, and that may be asked twice: of who answers first (anybody.py)."""
        return await self.anybody.ask(lambda node: self.request(node, message, version_min=version_min))

    async def features_of_anybody(self) -> BrokerVersions:
        """Feature levels and versions, asked for anew: of who answers first."""

        async def question(node: Node) -> BrokerVersions:
            return await (await self.connection(node)).refresh_versions(self.config.request_timeout_ms)

        return await self.anybody.ask(question)

    def _is_connected(self, node: Node, lane: str = "") -> bool:
        task = self._connections.get((node, lane))
        return bool(
            task and task.done() and not task.cancelled() and task.exception() is None and not task.result().is_closed
        )

    def node(self, node_id: int) -> Node:
        """A broker by its id. Raises LeaderNotAvailable where it is not known (any more)."""
        found = self.view.nodes.get(node_id)
        if found is None:
            raise LeaderNotAvailable(f"broker {node_id} is not known")
        return found

    async def request(
        self,
        node: Node | None,
        message: Struct,
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int | None = None,
        lane: str = "",
    ) -> Any:
        """One request to a node (None: any), one attempt. Raises Network, RequestTimedOut, UnsupportedVersion."""
        response, _ = await self.request_with_version(
            node, message, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms, lane=lane
        )
        return response

    async def request_with_version(
        self,
        node: Node | None,
        message: Struct,
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int | None = None,
        lane: str = "",
    ) -> tuple[Any, int]:
        """As `request`; gives the version used as well."""
        connection = await self.connection(node or self.any_node(), lane)
        return await connection.request(
            message,
            version_min=version_min,
            version_max=version_max,
            timeout_ms=self.config.request_timeout_ms if timeout_ms is None else timeout_ms,
        )

    # -- coordinators and the controller

    async def coordinator(self, key: CoordinatorKey, request: type[Struct] | None = None) -> Node:
        """Who serves a group or transactional id (for such a request). Raises retriable errors while nobody does."""
        known = self._coordinators.of(key)
        if known is not None:
            return known
        message = FindCoordinatorRequest(key_type=key.key_type, coordinator_keys=[key.key])
        response = await self.ask_anybody(message, version_min=4)
        if not response.coordinators:
            raise CoordinatorNotAvailable(f"the coordinator of {key.key!r} is not in the answer")
        found = response.coordinators[0]
        if found.error_code:
            raise self.rights.no_coordinator(found.error_code, key.key, request)
        return self._coordinators.found(key, Node(found.node_id, found.host, found.port))

    def forget_coordinator(self, key: CoordinatorKey) -> None:
        """It moved, or does not answer."""
        self._coordinators.forget(key)

    async def ask_coordinator(
        self,
        key: CoordinatorKey,
        message: Struct,
        *,
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int | None = None,
        lane: str = "coordinator",
    ) -> Any:
        """One request to a coordinator; one that does not answer, or not in time, is looked for again next time."""
        node = await self.coordinator(key, type(message))
        try:
            return await self.request(
                node, message, version_min=version_min, version_max=version_max, timeout_ms=timeout_ms, lane=lane
            )
        except (Network, RequestTimedOut, CoordinatorNotAvailable):
            self.forget_coordinator(key)
            raise

    async def controller(self) -> Node:
        """The broker that takes changes of topics. Raises NotController (retriable) where none is known."""
        node = self.view.nodes.get(self.view.controller_id)
        if node is None:
            await self.refresh(())
            node = self.view.nodes.get(self.view.controller_id)
        if node is None:
            raise NotController("the cluster has no controller now")
        return node

    # -- metadata

    async def refresh(self, topics: Iterable[str] | None) -> None:
        """Ask for metadata: of these topics and the tracked ones, or of all topics (None). One request at a time."""
        self.check_usable()
        if topics is None:
            self._wants_all = True
        else:
            self._wanted |= self.topics.asked_for(topics)
        if self._refresh_task is None or self._refresh_task.done():
            self._refresh_task = self.tasks.start(self._refresh(), name="oncelog-refresh")
        await self._shared(self._refresh_task)

    async def _refresh(self) -> None:
        await asyncio.sleep(0)  # let everybody who wants something now be part of it
        while True:
            wanted = None if self._wants_all else self._wanted
            self._wanted, self._wants_all = set(), False
            await self._refresh_once(wanted)
            if not self._wanted and not self._wants_all:
                return

    async def _refresh_once(self, wanted: set[str] | None) -> None:
        self.view.forget(self.topics.forget_idle())
        if wanted is None:
            self._refreshed_ms, self._refreshed = self.now_ms(), None
            await self._ask_for_metadata(None)
            return
        questions = self.topics.questions(wanted, self.view.topics)
        self._refreshed_ms = self.now_ms()
        self._refreshed = frozenset(name for question in questions for name in question.names)
        for question in questions:
            await self._ask_for_metadata(question)

    async def _ask_for_metadata(self, question: Question | None) -> None:
        """Ask for these topics, or for all (None)."""
        message = MetadataRequest(
            topics=None if question is None else [MetadataRequestTopic(name=name) for name in question.names],
            allow_auto_topic_creation=question is not None and question.may_create,
        )
        response = await self.ask_anybody(message, version_min=1)
        if response.error_code:
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED:  # KIP-1102
                self.view.nodes.clear()
                raise LeaderNotAvailable("the broker asks to begin at the bootstrap servers again")
            raise error_for(response.error_code, "Metadata")
        self.view.update(response, is_complete=question is None)
        if question is None:
            self.topics.listed(self.view.topics)
        self._forget_nodes()
        self._on_metadata()

    def _forget_nodes(self) -> None:
        """Addresses that no broker has any more."""
        known = {*self.view.nodes.values(), *self._bootstrap, *self._coordinators.nodes()}
        for key in [key for key in self._connections if key[0] not in known]:
            if self._connections[key].done() and not self._is_connected(*key):
                del self._connections[key]
        for node in self._refused.keys() - known:
            del self._refused[node]

    def refresh_soon(self, topics: Iterable[str] = ()) -> None:
        """Metadata turned out to be old; do not wait for the new. The same is asked for at most once per back-off."""
        if self.is_closed:
            return
        self._wanted_soon.update(topics)
        self._is_wanted_soon = True
        if self._soon_task is None or self._soon_task.done():
            self._soon_task = self.tasks.start(self._refresh_soon(), name="oncelog-refresh-soon")

    async def _refresh_soon(self) -> None:
        while self._is_wanted_soon:  # again for what came while a request was on its way: nobody else would ask for it
            left_ms = self._refreshed_ms + self.config.retry_backoff_ms - self.now_ms()
            is_known = self._refreshed is None or self._wanted_soon <= self._refreshed
            if left_ms > 0 and is_known:
                await asyncio.sleep(left_ms / 1000)
            wanted, self._wanted_soon = self._wanted_soon, set()
            self._is_wanted_soon = False
            try:
                await self.refresh(wanted)
            except KafkaError as error:
                log.debug("metadata could not be refreshed: %s", error)  # who still needs it asks again

    async def topic(
        self, name: str, *, timeout_ms: int, may_create: bool = False, was_created: bool = False
    ) -> TopicView:
        """A topic's metadata, waiting until it has a leader somewhere. Raises what the broker says, or RequestTimedOut.

        `was_created`: it certainly exists, however long it takes until a broker knows it.
        """
        found = self.view.topics.get(name)
        if found is not None and found.can_be_written:
            self.topics.asked_for((name,))
            return found
        self.topics.track((name,))

        async def attempt(_: Deadline) -> TopicView:
            await self.refresh((name,))
            topic = self.view.topics.get(name)
            if topic is None or topic.error_code:
                code = topic.error_code if topic else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                why = WHAT_A_NAME_HAS if code == ErrorCode.INVALID_TOPIC_EXCEPTION else ""
                raise self.refusal(code, f"topic {name!r}{why}", name)
            if not topic.led_partitions:
                raise LeaderNotAvailable(f"no partition of topic {name!r} has a leader")
            return topic

        patience_ms = timeout_ms if was_created else UNKNOWN_TOPIC_PATIENCE_MS
        what = f"metadata of topic {name!r}"
        with self.topics.awaiting(name, may_create=may_create):
            return await self.retry(what, attempt, timeout_ms=timeout_ms, unknown_patience_ms=patience_ms)

    async def leader(self, topic_partition: TopicPartition, request: type[Struct] | None = None) -> Node:
        """The partition's leader, from what is known; refreshes where nothing is. Raises retriable errors."""
        found = self.view.leader_of(topic_partition)
        if found is None or found.leader_id not in self.view.nodes:
            await self.refresh((topic_partition.topic,))
        return self.known_leader(topic_partition, request)

    def known_leader(self, topic_partition: TopicPartition, request: type[Struct] | None = None) -> Node:
        """The partition's leader by the metadata that is here. Raises what that says, or LeaderNotAvailable."""
        topic, found = self.view.topics.get(topic_partition.topic), self.view.leader_of(topic_partition)
        if found is None:
            if topic is not None and topic.error_code:
                raise self.refusal(topic.error_code, f"topic {topic.name!r}", topic.name, request)
            if topic is None or topic_partition.partition not in topic.partitions:
                raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(topic_partition))
            raise LeaderNotAvailable(f"{topic_partition} has no leader now")
        return self.node(found.leader_id)

    def feature_level(self, name: str) -> int:
        """The finalized level of a feature, 0 where it is off."""
        return self.versions.finalized_features.get(name, 0)

    def needs_feature(self, name: str, level: int, what: str) -> None:
        """Raise UnsupportedVersion where the cluster's level is lower."""
        if self.feature_level(name) < level:
            text = f"{what} needs {name} {level}; this cluster is at {self.feature_level(name)}"
            raise UnsupportedVersion(
                f"{text}: where it has that level, oncelog features upgrade {name}={level} raises it"
            )
