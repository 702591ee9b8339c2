"""A consumer's membership in a group of KIP-848: heartbeats in the background, decisions in `core/consumer/membership`.

As with the classic protocol, partitions are taken over and given back only inside the application's own `poll`: until
then the member tells the broker that it still owns them, so nobody else gets them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.group_offsets import FIND_AGAIN, group_key
from oncelog.client.config import ConsumerConfig
from oncelog.client.obstacle import Obstacle, rights_may_come
from oncelog.core.consumer.membership import ConsumerMembership, Heard, MemberIdentity
from oncelog.errors import ErrorCode, KafkaError, UnsupportedVersion
from oncelog.types import GroupMetadata, TopicPartition
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.uuids import uuid_text

log = logging.getLogger("oncelog.client")

FIRST_VERSION_WITH_PATTERNS = 1


class ConsumerProtocol:
    """One member. `wake` is called when the application's next poll has something to do."""

    def __init__(self, cluster: Cluster, config: ConsumerConfig, member_id: bytes, wake: Callable[[], None]) -> None:
        assert config.group_id is not None
        self._cluster, self._config, self._wake = cluster, config, wake
        self.group_id = config.group_id
        self.machine = ConsumerMembership(
            MemberIdentity(
                group_id=config.group_id,
                member_id=uuid_text(member_id),
                rebalance_timeout_ms=config.max_poll_interval_ms,
                instance_id=config.group_instance_id,
                rack_id=config.client_rack or None,
                server_assignor=config.group_remote_assignor,
            )
        )
        self.obstacle = Obstacle()
        self.lost = False  # the broker put the member out; until the application has heard it
        self._news = asyncio.Event()
        self._heard = asyncio.Event()
        self._last_poll_ms = 0.0
        self._is_silent = False  # left because the application does not poll; it comes back when it does
        self._is_leaving = False  # a join that overtook it would be taken back by it
        self._is_asking = asyncio.Lock()  # one at a time: a join that left before its leave must not arrive behind it
        self._topic_ids: dict[str, bytes] = {}
        self._known_epoch = -1  # while `lost`: the epoch in which the partitions were this member's

    # -- for the consumer

    def metadata(self) -> GroupMetadata:
        """The member's epoch, for commits (KIP-447). One that was put out keeps its former epoch until the application
        has heard of it: a later one would let it commit for partitions that others read."""
        machine = self.machine
        member_epoch = self._known_epoch if self.lost else machine.member_epoch
        if member_epoch <= 0:
            return GroupMetadata(self.group_id, -1, "", self._config.group_instance_id)
        return GroupMetadata(self.group_id, member_epoch, machine.identity.member_id, self._config.group_instance_id)

    def polled(self) -> None:
        """The application polled: it is alive (max_poll_interval_ms)."""
        self._last_poll_ms = self._cluster.now_ms()
        if self._is_silent:
            self._is_silent = False
            self._tell()

    def subscribe(self, topics: Iterable[str], pattern: str | None) -> None:
        """Read these topics, or those that match on the broker."""
        self.machine.subscribe(tuple(topics), pattern)
        self._tell()

    def wanted(self) -> set[TopicPartition] | None:
        """What the broker assigned, as far as the topics' names are known; None: nothing to do about it."""
        if not self.machine.must_reconcile:
            return None
        names = self._names()
        owned_names = {topic_id: name for name, topic_id in self._topic_ids.items() if topic_id in self.machine.owned}
        found: set[TopicPartition] = set()
        for topic_id, partitions in self.machine.assigned.items():
            name = owned_names.get(topic_id) or names.get(topic_id)  # metadata may fail for a while
            if name is None or (name in owned_names.values() and topic_id not in owned_names):
                continue  # unknown; or a topic that was made again: the places in the former one are given back first
            self._topic_ids[name] = topic_id
            found |= {TopicPartition(name, index) for index in partitions}
        return found

    def adopted(self, partitions: Iterable[TopicPartition]) -> None:
        """The application reads exactly these now."""
        owned: dict[bytes, set[int]] = {}
        for topic, partition in partitions:
            owned.setdefault(self._topic_ids[topic], set()).add(partition)
        self.machine.own({topic_id: frozenset(held) for topic_id, held in owned.items()})
        used = self.machine.owned.keys() | self.machine.assigned.keys()
        self._topic_ids = {name: topic_id for name, topic_id in self._topic_ids.items() if topic_id in used}
        self._tell()

    def let_go(self) -> None:
        """The application has heard that its partitions are lost."""
        self.lost = False
        self.machine.let_go()
        self._tell()

    async def next_answer(self, timeout_s: float) -> None:
        """Wait for the answer to a heartbeat, but not too long."""
        self._heard.clear()
        self._tell(always=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._heard.wait()

    def depart(self) -> ConsumerGroupHeartbeatRequest | None:
        """The member is out from now on; what the coordinator has to be told, if it may know the member: a join that was
        not answered yet counts, or the group would wait for it until its session times out (KIP-848, KIP-1082)."""
        request = self.machine.leave_request() if self.machine.may_be_member else None
        self._is_leaving |= request is not None
        self.machine.subscribe((), None)
        self.machine.left()
        self.obstacle.passed()
        self.machine.let_go()
        self.lost = False
        return request

    async def leave(self, request: ConsumerGroupHeartbeatRequest | None) -> None:
        """Tell it, so that others need not wait for the session to time out. A static member says it may be back."""
        if request is not None:
            try:
                async with self._is_asking:
                    await self._ask(request)
            except KafkaError as error:
                log.debug("leaving group %r: %s", self.group_id, error)
            finally:
                self._is_leaving = False
                self._tell()

    def _names(self) -> dict[bytes, str]:
        return {topic.topic_id: topic.name for topic in self._cluster.view.topics.values()}

    def _tell(self, *, always: bool = False) -> None:
        if always or self.machine.has_news:
            self._news.set()

    # -- heartbeats

    async def heartbeats(self) -> None:
        """Tell the coordinator that this member lives and what it owns, for ever."""
        backoff = self._cluster.new_backoff()
        pause_ms = 0.0
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000 if self.machine.has_subscription else None):
                    await self._news.wait()
            self._news.clear()
            pause_ms = self._interval_ms()
            is_out = self._is_silent or self._is_leaving or self.obstacle.is_final or self.machine.is_fenced
            if is_out or not self.machine.has_subscription:
                continue
            if self._cluster.now_ms() - self._last_poll_ms > self._config.max_poll_interval_ms:
                await self._stop_for_silence()
                continue
            try:
                heard = await self._heartbeat()
            except KafkaError as error:
                self.machine.unanswered()
                pause_ms = self._failed(error, backoff.next_ms())
                continue
            if heard is Heard.LATER or self.machine.must_ask_soon:
                pause_ms = backoff.next_ms()
            else:
                backoff.reset()
                pause_ms = 0.0 if heard is Heard.FENCED and not self.machine.is_fenced else self._interval_ms()

    def _interval_ms(self) -> float:
        return float(self.machine.heartbeat_interval_ms or self._config.heartbeat_interval_ms)

    async def _heartbeat(self) -> Heard:
        async with self._is_asking:
            if self._is_leaving or not self.machine.has_subscription:
                return Heard.LATE  # it left while this waited for its turn
            request = self.machine.request()
            await self._cluster.coordinator(group_key(self.group_id))  # a broker that is not found was told nothing
            if not self.machine.goes_out():
                return Heard.LATE
            response = await self._ask(request)
        member_epoch = self.machine.member_epoch
        heard = self.machine.heard(response)
        self._heard.set()
        if heard not in (Heard.REFUSED, Heard.LATE) and self.obstacle.passed():
            self._wake()
        if heard is Heard.FENCED:
            log.warning("group %r: %s", self.group_id, response.error_message or "this member was put out")
            self._known_epoch = member_epoch
            self.lost = self.machine.is_fenced
            self._wake()
        elif heard is Heard.ASSIGNED:
            self._wake()
        elif heard is Heard.LATER:
            if response.error_code in FIND_AGAIN:
                self._cluster.forget_coordinator(group_key(self.group_id))
            elif response.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
                await self._cluster.refresh(
                    self.machine.topics
                )  # it says of which; poll raises it (docs/kafka-notes.md G10)
        elif heard is Heard.REFUSED:
            text = response.error_message or "the heartbeat was refused"
            raise self._cluster.refusal(response.error_code, f"group {self.group_id!r}: {text}", self.group_id)
        if not self._names().keys() >= self.machine.assigned.keys():
            await self._cluster.refresh(None)  # topics found by a pattern, or new ones
            self._wake()
        return heard

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> Any:
        needs_pattern = request.subscribed_topic_regex is not None
        return await self._cluster.ask_coordinator(
            group_key(self.group_id), request, version_min=FIRST_VERSION_WITH_PATTERNS if needs_pattern else 0
        )

    def _failed(self, error: KafkaError, pause_ms: float) -> float:
        if error.retriable and not isinstance(error, UnsupportedVersion):
            log.debug("heartbeat: %s", error)
            if self.obstacle.passed():
                self._wake()
            return min(pause_ms, self._interval_ms())
        self.obstacle.met(error)
        self._wake()
        return pause_ms if rights_may_come(error) else self._interval_ms()

    async def _stop_for_silence(self) -> None:
        log.warning(
            "group %r: no poll for max_poll_interval_ms=%d, leaving", self.group_id, self._config.max_poll_interval_ms
        )
        self._known_epoch = self.machine.member_epoch
        request = self.machine.leave_request()
        self.machine.left()
        self.obstacle.passed()
        self.lost = self.machine.is_fenced
        self._is_silent = True
        with contextlib.suppress(KafkaError):
            await self._ask(request)
        self._wake()
