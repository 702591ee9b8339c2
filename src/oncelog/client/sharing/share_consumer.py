"""The share consumer: members of a group share the records of their topics, one by one (KIP-932).

Every record is given to one member at a time, and again to others until somebody says that it is done. With the mode
"implicit" records are accepted when the next ones are asked for; with "explicit" the application says of each what became of
it. Who stops, or loses its connection, gives back what it said nothing of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Self, Unpack

from oncelog.client import arguments
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.topics_in_use import ReadTopics
from oncelog.client.config import ShareConsumerConfig, snake_case
from oncelog.client.consumer.deserializing import decoder_of
from oncelog.client.consumer.refused_topics import RefusedTopics, tell_missing
from oncelog.client.ending import Ending
from oncelog.client.obstacle import rights_may_come
from oncelog.client.option_types import ShareConsumerOptions
from oncelog.client.records import ShareRecord
from oncelog.client.sharing.broker_session import BrokerSession
from oncelog.client.sharing.member import ShareMember
from oncelog.core.sharing.holding import Acknowledge, Holding
from oncelog.core.sharing.session import Partition
from oncelog.errors import IllegalState, InvalidRecordState, KafkaError, Network, RecordDeserialization, UnknownServer
from oncelog.host.host import Host, real_host
from oncelog.host.randomness import random_uuid
from oncelog.types import TopicPartition
from oncelog.wire.uuids import uuid_text

log = logging.getLogger("oncelog.client")

POLL_TIMEOUT_MS = 1000
STOPPED = "this share consumer was stopped: make another"
NOT_CONNECTED = "this share consumer is not connected, its start failed: make another"
LOST = "its connection was lost before it was said to be done: others may have it"
SAID_WITHIN_MS = 1000.0  # what `async for` says is sent so soon, and ...
SAID_WITHIN_LOCKS = 1 / 8  # ... in this part of the time that a member has a record
BEGUN_WITHIN_LOCKS = 1 / 2  # what has waited longer is given back: the application is to have time for it
REFUSED_MAX = 1000  # partitions of which a refusal is kept for `commit`
KINDS = {"accept": Acknowledge.ACCEPT, "release": Acknowledge.RELEASE, "reject": Acknowledge.REJECT} | {
    "renew": Acknowledge.RENEW
}


class _Fetched(NamedTuple):
    record: ShareRecord
    begin_until_ms: float
    locked_until_ms: float


class ShareConsumer:
    """Shares records with others of its group. `async with ShareConsumer("topic", group_id=...)`, then
    `async for record in consumer`, or `poll`.

    Keyword arguments are Kafka's keys of share consumers in snake case. Where a new group begins and what it sees of
    transactions are configs of the group: `share.auto.offset.reset`, `share.isolation.level`. Raises ConfigurationError.
    """

    def __init__(self, *topics: str, host: Host | None = None, **config: Unpack[ShareConsumerOptions]) -> None:
        self._topics = tuple(arguments.texts("topics", topics))
        self._config = ShareConsumerConfig.of(config)
        host = host or real_host()
        self._cluster = Cluster(self._config, host, self._broken, self._metadata_came)
        self._cluster.topics.user = ReadTopics(lambda: set(self._topics))  # and creates none
        self._member = ShareMember(self._cluster, self._config, uuid_text(random_uuid(host.random)), self._wake)
        self._sessions: dict[int, BrokerSession] = {}
        self._fetches: dict[int, asyncio.Task[list[ShareRecord]]] = {}
        self._buffer: deque[_Fetched] = deque()
        self._acknowledging: dict[BrokerSession, asyncio.Task[None]] = {}
        self._said_ms = 0.0
        self._decode = decoder_of(self._config)
        self._refused: dict[TopicPartition, KafkaError] = {}
        self._missing: set[str] = set()  # topics that were told not to exist
        self._refused_topics = RefusedTopics(self._cluster, lambda: set(self._topics))
        self._in_hand: list[ShareRecord] = []
        self._news = asyncio.Event()
        self._is_started = self._is_stopped = False
        self._ending: Ending | None = None
        self._failure: KafkaError | None = None
        self._damage: KafkaError | None = None  # told once what is good beside it has been handed out

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str, host: Host | None = None, **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        return cls(*topics, host=host, **{**snake_case(config), **more})

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, left_by: type[BaseException] | None, *_: object) -> None:
        await self.stop(arguments.stop_timeout_ms(left_by))

    async def start(self) -> None:
        """Connect. Raises RequestTimedOut; UnsupportedVersion where the broker has no share groups."""
        if self._is_started:
            ended = STOPPED if self._is_stopped else NOT_CONNECTED if self._cluster.is_closed else ""
            raise IllegalState(ended or "this share consumer was started before")
        self._is_started = True
        try:
            await self._cluster.start()
            self._cluster.needs_feature("share.version", 1, "a share group")
            self._cluster.tasks.start(self._member.heartbeats(), name="oncelog-share-heartbeats")
            self.subscribe(self._topics)
        except BaseException:
            await self._cluster.close()
            raise

    def subscribe(self, topics: Iterable[str]) -> None:
        """Read these topics; replaces what was read before."""
        wanted = tuple(dict.fromkeys(arguments.texts("topics", topics)))
        if self._is_stopped:
            raise IllegalState(STOPPED)
        if self._cluster.is_closed:
            raise IllegalState(NOT_CONNECTED)
        if self._is_started:
            self._cluster.check_loop()
        self._topics = wanted
        self._missing &= {*wanted}
        if self._is_started:
            self._cluster.topics.track(self._topics)
            self._cluster.refresh_soon(self._topics)  # which says of what names there can be no topic
            self._member.subscribe(self._topics)

    async def stop(self, timeout_ms: int | None = None) -> None:
        """Send what was said of records, give back the rest, leave the group, close; at most `timeout_ms` (default:
        request_timeout_ms)."""
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        if self._ending is None:
            self._cluster.check_loop()
            self._is_stopped, self._ending = True, Ending()
            self._news.set()
        timeout_s = (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        await self._ending.come(lambda: self._end(timeout_s), timeout_s)

    async def _end(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s):
                if self._is_started and not self._cluster.is_closed:
                    await self._say_goodbye()
        except TimeoutError:
            log.warning("share group %r: no answer while the share consumer stopped", self._config.group_id)
        finally:
            await self._cluster.close()

    async def _say_goodbye(self) -> None:
        for session in self._sessions.values():
            session.begin_to_end()
        if self._fetches:
            await asyncio.wait(self._fetches.values())
        for session in self._sessions.values():
            with contextlib.suppress(KafkaError):
                await session.acknowledge(is_last=True)
        try:
            await self._member.leave()
        except KafkaError as error:
            log.debug("leaving share group %r: %s", self._config.group_id, error)

    def _broken(self, error: BaseException) -> None:
        if not isinstance(error, KafkaError):
            log.error("the share consumer met an error of its own", exc_info=error)
            self._failure = UnknownServer(f"the share consumer met an error of its own: {error!r}")
            self._wake()

    def _metadata_came(self) -> None:
        self._refused_topics.metadata_came()
        tell_missing(self._cluster, self._topics, self._missing)
        self._wake()

    def _wake(self) -> None:
        self._news.set()

    # -- reading

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS) -> list[ShareRecord]:
        """Records, at most `max_poll_records`; none where none came in time. In the mode "implicit" those of the poll before are
        accepted; in "explicit" something must have been said of each: else IllegalState.

        Raises RecordDeserialization and CorruptRecord of what is released; GroupAuthorizationFailed and the like.
        """
        arguments.duration_ms("timeout_ms", timeout_ms)
        self._check()
        until_ms = self._cluster.now_ms() + timeout_ms
        if not await self._passes_obstacle(until_ms):
            return []
        self._settle()
        self._give_back_stale()
        if self._buffer:
            await self._acknowledge_now(timeout_ms)
            self._check()
        return await self._handed_out_until(until_ms, self._config.max_poll_records)

    async def _handed_out_until(self, until_ms: float, count_max: int) -> list[ShareRecord]:
        """As soon as there are some: what is in the buffer may have been lost with its connection."""
        self._raise_damage()
        while not (found := self._handed_out(count_max)) and not self._is_stopped:
            left_ms = max(0.0, until_ms - self._cluster.now_ms())
            try:
                async with asyncio.timeout(left_ms / 1000):
                    await self._fill(int(left_ms))
            except TimeoutError:
                break
            self._raise_damage()
            self._give_back_stale()  # it may have come long ago, or have been long on its way
        return found

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ShareRecord:
        """The next record; in the mode "implicit" the one before is accepted. Ends when the consumer is stopped."""
        while not self._is_stopped:
            self._check()
            if not await self._passes_obstacle(self._cluster.now_ms() + POLL_TIMEOUT_MS):
                break
            self._settle()
            self._give_back_stale()
            await self._say_in_time()
            if found := await self._handed_out_until(self._cluster.now_ms() + POLL_TIMEOUT_MS, 1):
                return found[0]
        raise StopAsyncIteration

    def _raise_damage(self) -> None:
        if self._damage is not None and not self._buffer:
            damage, self._damage = self._damage, None
            raise damage

    def _check(self) -> None:
        if not self._is_started or self._is_stopped:
            raise IllegalState(STOPPED if self._is_stopped else "this share consumer is not started: `async with` it")
        if self._cluster.is_closed:
            raise IllegalState(NOT_CONNECTED)
        self._cluster.check_loop()
        if self._failure is not None:
            raise self._failure
        if self._member.obstacle.is_final:
            self._member.obstacle.raise_error()

    async def _passes_obstacle(self, until_ms: float) -> bool:
        """False: it was stopped. Raises what keeps the member out, once for each answer and at the end of a poll, unless it is
        let in before that."""
        obstacle = self._member.obstacle
        while obstacle.is_known and (left_ms := until_ms - self._cluster.now_ms()) > 0 and not self._is_stopped:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left_ms / 1000):
                    await self._news.wait()
        if obstacle.error is not None and not self._is_stopped:
            await asyncio.sleep(0)  # who polls without waiting lets the question go on its way
            obstacle.raise_error()
        return not self._is_stopped

    def _settle(self) -> None:
        """What the application had of the poll before."""
        kept, self._in_hand = self._in_hand, []
        if self._config.share_acknowledgement_mode == "implicit":
            lost: dict[TopicPartition, None] = {}
            for record in kept:
                holding = self._holding(record)
                if holding is None or not holding.say(record.offset, Acknowledge.ACCEPT):
                    lost[record.topic_partition] = None
            for topic_partition in lost:
                self._note_refused(topic_partition, InvalidRecordState(LOST))
        elif left := [each for each in kept if (found := self._holding(each)) is not None and found.has(each.offset)]:
            self._in_hand = left
            first = left[0]
            raise IllegalState(
                f"nothing final was said of {len(left)} records of the last poll, the first is {first.topic_partition} at offset "
                f"{first.offset}: acknowledge(record, ...) each before the next poll"
            )

    def _give_back_stale(self) -> None:
        """Who was slow with the records before has not the time for these: others get them, or this member once more."""
        now_ms = self._cluster.now_ms()
        while self._buffer and self._buffer[0].begin_until_ms <= now_ms:
            fetched = self._buffer.popleft()
            holding = self._holding(fetched.record)
            if holding is None:
                continue
            if fetched.locked_until_ms <= now_ms:
                holding.lapse(fetched.record.offset)
            else:
                holding.say(fetched.record.offset, Acknowledge.RELEASE)

    def _handed_out(self, count_max: int) -> list[ShareRecord]:
        found: list[ShareRecord] = []
        while self._buffer and len(found) < count_max:
            fetched = self._buffer.popleft()
            record, holding = fetched.record, self._holding(fetched.record)
            if holding is None or not holding.has(record.offset):
                continue  # its connection is gone: others have it
            if self._decode is not None:
                try:
                    record = self._decode(record)
                except BaseException as error:  # whatever it is: what came before it is handed out, and it is met again
                    if not found and isinstance(error, RecordDeserialization):
                        holding.say(record.offset, Acknowledge.RELEASE)
                        raise
                    self._buffer.appendleft(fetched)
                    if not found or not isinstance(error, Exception):
                        raise
                    break
            found.append(record)
        self._in_hand = found
        return found

    # -- what became of records

    def acknowledge(self, record: ShareRecord, kind: str = "accept") -> None:
        """Say what became of a record: "accept" (done), "release" (give it to somebody again), "reject" (to nobody), "renew" (I
        need longer). It is sent with the next poll or commit. Raises IllegalState where this consumer does not have it."""
        wanted = KINDS[arguments.one_of("kind", kind, KINDS)]
        arguments.instance("record", record, ShareRecord)
        if self._config.share_acknowledgement_mode == "implicit":
            raise IllegalState('acknowledge needs share_acknowledgement_mode="explicit"')
        if self._is_stopped:
            raise IllegalState(STOPPED)
        holding = self._holding(record)
        if holding is None or not holding.say(record.offset, wanted):
            raise IllegalState(
                f"{record.topic_partition} at offset {record.offset} is not this consumer's (any more): something was said of it "
                "before, or its connection was lost"
            )

    async def commit(self) -> dict[TopicPartition, KafkaError]:
        """Send what was said of records, in the mode "implicit" that those of the last poll are accepted, and wait until it is
        stored. What was not taken since the last commit, by partition: those records come again."""
        self._check()
        if self._config.share_acknowledgement_mode == "implicit":
            self._settle()
        await self._acknowledge_now()
        refused, self._refused = self._refused, {}
        return refused

    async def _acknowledge_now(self, timeout_ms: int | None = None) -> None:
        """Send what was said, and wait for the answers so long. Who is cancelled meanwhile takes nothing back."""
        for session in self._sessions.values():
            under_way = self._acknowledging.get(session)
            if session.has_news and (timeout_ms is None or under_way is None or under_way.done()):
                work = _acknowledged(session, under_way)
                self._acknowledging[session] = self._cluster.tasks.start(work, name="oncelog-share-acknowledge")
        self._acknowledging = {session: task for session, task in self._acknowledging.items() if not task.done()}
        if self._acknowledging:
            await asyncio.wait(self._acknowledging.values(), timeout=None if timeout_ms is None else timeout_ms / 1000)

    async def _say_in_time(self) -> None:
        """What was said of records is sent before their locks are over, also while more are in hand."""
        now_ms = self._cluster.now_ms()
        for session in self._sessions.values():
            patience_ms = min(SAID_WITHIN_MS, session.lock_duration_ms * SAID_WITHIN_LOCKS)
            if session.has_news and now_ms - self._said_ms >= patience_ms:
                self._said_ms = now_ms
                await self._acknowledge_now(POLL_TIMEOUT_MS)
                return

    def _note_refused(self, topic_partition: TopicPartition, error: KafkaError) -> None:
        log.warning("share group %r: %s: %s", self._config.group_id, topic_partition, error)
        if len(self._refused) < REFUSED_MAX:
            self._refused[topic_partition] = error

    def _holding(self, record: ShareRecord) -> Holding | None:
        key = record.topic_id, record.partition
        return next((each.holdings[key] for each in self._sessions.values() if key in each.holdings), None)

    # -- fetching

    async def _fill(self, timeout_ms: int) -> None:
        """Return when records are there."""
        if not self._topics:
            raise IllegalState("there is nothing to read: name topics, or subscribe")
        backoff = self._cluster.new_backoff()
        if self._take_fetched():  # what has come since the last call needs no waiting
            await asyncio.sleep(backoff.next_ms() / 1000)
        while not self._buffer and self._damage is None and not self._is_stopped:
            self._check()
            self._member.obstacle.raise_error()
            self._refused_topics.raise_error()
            self._news.clear()
            self._begin_fetches(timeout_ms)
            news = self._cluster.tasks.start(_heard(self._news), name="oncelog-share-news")
            try:
                await asyncio.wait((*self._fetches.values(), news), return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
            if self._take_fetched():
                await asyncio.sleep(backoff.next_ms() / 1000)
            else:
                backoff.reset()

    def _begin_fetches(self, timeout_ms: int) -> None:
        by_node: dict[int, list[Partition]] = {}
        for topic_id, index in self._member.assigned:
            name = self._name_of(topic_id)
            try:
                node = None if name is None else self._cluster.known_leader(TopicPartition(name, index))
            except KafkaError:  # the group's coordinator knows of a partition or a leader that this client does not
                node = None
            if node is None:
                self._cluster.refresh_soon(self._topics)
                continue
            by_node.setdefault(node.node_id, []).append((topic_id, index))
            former = self._sessions.get(node.node_id)
            if former is None or former.node != node:
                if former is not None:
                    former.give_up(
                        Network(f"{former.node.host}:{former.node.port} is not the leader's address any more")
                    )
                self._sessions[node.node_id] = BrokerSession(
                    self._cluster, self._config, self._member.member_id, node, self._name_of, self._note_refused
                )
        for node_id, partitions in by_node.items():
            if node_id not in self._fetches:
                session = self._sessions[node_id]
                work = session.fetch(
                    partitions, min(self._config.fetch_max_wait_ms, timeout_ms), self._config.max_poll_records
                )
                self._fetches[node_id] = self._cluster.tasks.start(work, name=f"oncelog-share-fetch-{node_id}")

    def _take_fetched(self) -> bool:
        """Take over what has come; whether something failed."""
        has_failed = False
        for node_id, task in tuple(self._fetches.items()):
            if not task.done():
                continue
            del self._fetches[node_id]
            if task.cancelled():
                continue
            error = task.exception()
            if error is None:
                began_ms, lock_ms = self._sessions[node_id].locked_from_ms, self._sessions[node_id].lock_duration_ms
                begin_until_ms = began_ms + lock_ms * BEGUN_WITHIN_LOCKS
                self._buffer.extend(_Fetched(each, begin_until_ms, began_ms + lock_ms) for each in task.result())
                has_failed |= self._sessions[node_id].has_fault and not task.result()
                self._damage = self._damage or self._sessions[node_id].damage
            elif isinstance(error, KafkaError) and (error.retriable or isinstance(error, UnknownServer)):
                # Apache Kafka has no other word for a topic that was deleted, until the next heartbeat takes it away.
                level = logging.DEBUG if error.retriable else logging.WARNING
                log.log(level, "share group %r: it is fetched again: %s", self._config.group_id, error)
                self._cluster.refresh_soon(self._topics)
                has_failed = True
            else:
                if isinstance(error, KafkaError) and rights_may_come(error):
                    self._member.refused(error)
                raise error
        return has_failed

    def _name_of(self, topic_id: bytes) -> str | None:
        return next((each.name for each in self._cluster.view.topics.values() if each.topic_id == topic_id), None)


async def _acknowledged(session: BrokerSession, before: asyncio.Task[None] | None) -> None:
    if before is not None:
        await asyncio.wait([before])
    with contextlib.suppress(KafkaError):  # it is among the refused
        await session.acknowledge()


async def _heard(news: asyncio.Event) -> None:
    await news.wait()
