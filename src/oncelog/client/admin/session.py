"""An admin client's connection to the cluster, and what it asks every broker: the ground of the other admin files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Self, TypeVar, Unpack

from oncelog.client import arguments
from oncelog.client.backoff import Deadline, one_deadline
from oncelog.client.cluster.cluster import VERSION_MAX, Cluster
from oncelog.client.cluster.instance_id import HasInstanceId
from oncelog.client.config import AdminConfig, snake_case
from oncelog.client.option_types import AdminOptions
from oncelog.client.rights import OF_TOPICS, RIGHTS, Rights
from oncelog.core.placement import coordinator_partition
from oncelog.errors import (
    CoordinatorNotAvailable,
    ErrorCode,
    KafkaError,
    Network,
    NotController,
    NotCoordinator,
    RequestTimedOut,
)
from oncelog.host.host import Host, real_host
from oncelog.lazy_dataclass import dataclass
from oncelog.types import CoordinatorKey, Node, TopicPartition
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.schema import Struct

log = logging.getLogger("oncelog.client")

T = TypeVar("T")
Unreachable = dict[Node, KafkaError]
COORDINATOR_TOPIC_OF_KEY_TYPE = ("__consumer_offsets", "__transaction_state")


class _OfflineCoordinator(CoordinatorNotAvailable):
    """Nobody coordinates it before somebody mends a disk: to ask again would be in vain. It reads as what the broker said."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message)
        self.args = (f"{self.code.name}: {message}",)


@dataclass(frozen=True, slots=True)
class Features:
    """Feature levels of the cluster; `features_epoch` grows with each change."""

    finalized: Mapping[str, int]
    supported: Mapping[str, tuple[int, int]]
    features_epoch: int


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """The cluster as one broker sees it."""

    cluster_id: str
    controller_id: int
    nodes: tuple[Node, ...]


class AdminSession(HasInstanceId):
    """Life and shared questions of an admin client."""

    def __init__(self, *, host: Host | None = None, **config: Unpack[AdminOptions]) -> None:
        self._config = AdminConfig.of(config)
        self._host = host or real_host()
        self._cluster = Cluster(self._config, self._host, self._broken)
        self._leaderless_patience_ms: float | None = None  # None: offline coordinators are waited for like others

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, host: Host | None = None, **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        return cls(host=host, **{**snake_case(config), **more})

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Connect. Raises RequestTimedOut."""
        try:
            await self._cluster.start()
        except BaseException:
            await self._cluster.close()
            raise

    async def stop(self) -> None:
        """Close."""
        if self._cluster.is_closed:
            return
        self._cluster.check_loop()
        await self._cluster.close()

    def _broken(self, error: BaseException) -> None:
        if not isinstance(error, KafkaError):
            log.error("the admin client met an error of its own", exc_info=error)

    # -- the cluster

    async def describe_cluster(self) -> ClusterDescription:
        """Cluster id, controller and brokers."""
        response = await self._ask_any("describe the cluster", DescribeClusterRequest(), is_question=True)
        nodes = tuple(Node(b.broker_id, b.host, b.port) for b in sorted(response.brokers, key=lambda b: b.broker_id))
        return ClusterDescription(response.cluster_id, response.controller_id, nodes)

    async def describe_features(self) -> Features:
        """Finalized and supported feature levels, asked for anew."""
        versions = await self._cluster.retry("describe features", lambda _: self._cluster.features_of_anybody())
        return Features(dict(versions.finalized_features), dict(versions.supported_features), versions.features_epoch)

    # -- asking

    def _within_one_time(self, what: str) -> AbstractContextManager[Deadline]:
        """Around what asks more than once: all of it takes default_api_timeout_ms at most."""
        return one_deadline(self._config.default_api_timeout_ms, what)

    def _refusal(
        self, request: type[Struct], error_code: int, what: str, name: str = "", *, told: str | None = None
    ) -> KafkaError:
        """The error of a code that such a request was answered with, about the topic, group or transactional id `name`, or the
        cluster; `told` is the broker's own text. Of a missing right it says nothing: which it is, and what gives it, is said
        instead."""
        text = told if told and error_code not in RIGHTS else what
        return self._cluster.refusal(error_code, text, name, request)

    def _raise_top_level(self, request: type[Struct], response: Any, what: str) -> None:
        code = getattr(response, "error_code", 0)
        if code:
            raise self._refusal(request, code, what, told=getattr(response, "error_message", None))

    async def _ask_any(self, what: str, message: Struct, *, version_min: int = 0, is_question: bool) -> Any:
        """Ask any broker. A question may reach several; what changes something reaches one at a time."""

        async def attempt(_: Deadline) -> Any:
            ask = self._cluster.ask_anybody if is_question else partial(self._cluster.request, None)
            response = await ask(message, version_min=version_min)
            self._raise_top_level(type(message), response, what)
            return response

        return await self._cluster.retry(what, attempt)

    async def _ask_controller(
        self,
        what: str,
        message: Struct,
        check: Callable[[Any], None],
        check_repeated: Callable[[Any], None] | None = None,
    ) -> Any:
        """Ask the controller; `check` raises what the response says, `check_repeated` where an answer before it was lost, so
        that the request may have been done by then. A controller that moved is looked for again."""
        may_be_done = False

        async def attempt(_: Deadline) -> Any:
            nonlocal may_be_done
            controller = await self._cluster.controller()
            await self._cluster.connection(controller)  # where there is none, nothing is sent
            try:
                response = await self._cluster.request(controller, message)
            except KafkaError:
                may_be_done = True
                raise
            try:
                (check_repeated if may_be_done and check_repeated is not None else check)(response)
            except NotController:
                await self._cluster.refresh(())
                raise
            return response

        return await self._cluster.retry(what, attempt)

    async def _ask_node(self, what: str, node: Node, message: Struct, *, version_min: int = 0) -> Any:
        await self._connected(node)

        async def attempt(_: Deadline) -> Any:
            response = await self._cluster.request(node, message, version_min=version_min)
            self._raise_top_level(type(message), response, what)
            return response

        return await self._cluster.retry(what, attempt)

    async def _ask_every_node(
        self,
        what: str,
        message: Callable[[], Struct],
        *,
        version_min: int = 0,
        unreachable: Unreachable | None = None,
    ) -> list[tuple[Node, Any]]:
        """The answers of all nodes. With `unreachable`: of those that answer in time, where any does; the others go there."""
        _clear(unreachable)

        async def ask(node: Node) -> Any:
            return await self._ask_node(what, node, message(), version_min=version_min)

        with self._within_one_time(what):
            await self._cluster.retry(what, lambda _: self._cluster.refresh(()))
            return await _of_those_that_answer(sorted(self._cluster.view.nodes.values()), ask, unreachable)

    async def _connected(self, node: Node) -> None:
        """Who takes a connection and says nothing is not asked again and again. Raises RequestTimedOut for that; who refuses it
        may be starting: the question is tried for as long as it may take."""
        timeout_ms, where = self._config.default_api_timeout_ms, f"{node.host}:{node.port}"
        deadline = Deadline(timeout_ms, f"connect to {where}")
        with suppress(Network):
            try:
                async with asyncio.timeout(deadline.left_ms / 1000):
                    await self._cluster.connection(node)
            except TimeoutError:  # said as the connection says it: which of both times ends first is chance
                raise RequestTimedOut(f"no connection to {where} within {timeout_ms} ms") from None

    async def _ask_coordinator(
        self,
        what: str,
        key: CoordinatorKey,
        message: Struct,
        *,
        error_of: Callable[[Any], int],
        version_min: int = 0,
        version_max: int = VERSION_MAX,
        timeout_ms: int | None = None,
    ) -> Any:
        """Ask the coordinator of a key until its answer is none of the errors that pass by themselves."""

        async def attempt(_: Deadline) -> Any:
            response = await self._cluster.ask_coordinator(
                key, message, version_min=version_min, version_max=version_max
            )
            code = error_of(response)
            if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
                self._cluster.forget_coordinator(key)
            if code:
                raise self._refusal(type(message), code, what, key.key)
            return response

        watched = self._unless_offline(key.key_type, [key.key], attempt)
        return await self._cluster.retry(what, watched, timeout_ms=timeout_ms)

    def _unless_offline(
        self, key_type: int, keys: Sequence[str], attempt: Callable[[Deadline], Awaitable[T]]
    ) -> Callable[[Deadline], Awaitable[T]]:
        """`attempt`, which asks for the coordinators of keys or asks them; where `ends_where_coordinators_are_offline`, one whose
        partition is offline ends it."""
        began_ms = self._cluster.now_ms()

        async def watched(deadline: Deadline) -> T:
            try:
                return await attempt(deadline)
            except (CoordinatorNotAvailable, NotCoordinator) as error:
                patience_ms = self._leaderless_patience_ms
                if patience_ms is not None and not isinstance(error, _OfflineCoordinator):
                    await self._check_led(key_type, keys, is_late=self._cluster.now_ms() - began_ms >= patience_ms)
                raise

        return watched

    async def _check_led(self, key_type: int, keys: Sequence[str], *, is_late: bool) -> None:
        """Raises _OfflineCoordinator for the first of these keys whose partition its leader cannot serve; where `is_late` or it
        has no leader, too."""
        topic = COORDINATOR_TOPIC_OF_KEY_TYPE[key_type]
        await self._cluster.refresh((topic,))
        view = self._cluster.view.topics.get(topic)
        partitions = {} if view is None else view.partitions
        for key in keys if partitions else ():
            number = coordinator_partition(key, len(partitions))
            found = partitions.get(number)
            if found is not None and found.is_offline and (found.leader_id >= 0 or is_late):
                where = TopicPartition(topic, number)
                raise _OfflineCoordinator(f"the coordinator of {key!r} is not available: {where} is offline")

    async def _coordinators(self, key_type: int, keys: Iterable[str], request: type[Struct]) -> dict[Node, list[str]]:
        """Keys by the broker that coordinates them, for such a request."""
        wanted = list(dict.fromkeys(keys))

        async def attempt(_: Deadline) -> dict[Node, list[str]]:
            message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=wanted)
            response = await self._cluster.ask_anybody(message, version_min=4)
            found: dict[Node, list[str]] = {}
            for each in response.coordinators:
                if each.error_code:
                    raise self._cluster.rights.no_coordinator(each.error_code, each.key, request)
                found.setdefault(Node(each.node_id, each.host, each.port), []).append(each.key)
            return found

        watched = self._unless_offline(key_type, wanted, attempt)
        return await self._cluster.retry("find coordinators", watched) if wanted else {}

    async def _by_coordinator(
        self,
        what: str,
        key_type: int,
        keys: Iterable[str],
        request: type[Struct],
        ask: Callable[[Node, list[str]], Awaitable[T]],
        *,
        unreachable: Unreachable | None = None,
    ) -> list[T]:
        """Ask each coordinator about its keys by such requests; all over again where one moved. `unreachable`: as above."""
        _clear(unreachable)
        first: dict[Node, list[str]] = {}

        async def answers_of(node: Node) -> list[T]:
            if unreachable is not None:
                await self._connected(node)
            mine = first[node]
            nodes = {node: mine}

            async def attempt(_: Deadline) -> list[T]:
                nonlocal nodes
                asked, nodes = nodes or await self._coordinators(key_type, mine, request), {}
                return list(await asyncio.gather(*(ask(each, its) for each, its in asked.items())))

            return await self._cluster.retry(what, self._unless_offline(key_type, mine, attempt))

        with self._within_one_time(what):
            first = await self._coordinators(key_type, keys, request)
            answers = await _of_those_that_answer(first, answers_of, unreachable)
        return [each for _, found in answers for each in found]


def _clear(unreachable: Unreachable | None) -> None:
    if unreachable is not None:
        arguments.instance("unreachable", unreachable, dict).clear()


async def _of_those_that_answer(
    nodes: Iterable[Node], ask: Callable[[Node], Awaitable[T]], unreachable: Unreachable | None
) -> list[tuple[Node, T]]:
    """Ask all at once. With `unreachable`: those that do not answer in time go there, where any of the others does."""
    silent: Unreachable = {}

    async def one(node: Node) -> list[tuple[Node, T]]:
        try:
            return [(node, await ask(node))]
        except RequestTimedOut as error:
            if unreachable is None:
                raise
            silent[node] = error
            return []

    found = [each for some in await asyncio.gather(*map(one, nodes)) for each in some]
    if silent and not found:
        raise next(iter(silent.values()))
    if unreachable is not None:
        unreachable.update(silent)
    return found


def waited_for_once(admin: AdminSession) -> AbstractContextManager[None]:
    """Around several questions that only look: a broker that takes a connection and says nothing is waited for by one of them."""
    return admin._cluster.anybody.waited_for_once()


def look_for_a(admin: AdminSession, kind: str) -> None:
    """It looks for what such a client, "consumer" or "producer", does next: of missing rights that one's are named, which bring
    along what a look needs."""
    rights = admin._cluster.rights
    admin._cluster.rights = Rights(OF_TOPICS[kind], rights.user)


def ends_where_coordinators_are_offline(admin: AdminSession, *, leaderless_patience_ms: float) -> None:
    """A group or transactional id whose coordinator's partition is offline is not asked for until the time is over: somebody
    waits for the answer. A partition without a leader may have one soon, as a broker or process is started again."""
    admin._leaderless_patience_ms = leaderless_patience_ms
