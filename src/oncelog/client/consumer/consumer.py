"""The consumer: by assignment, by group, or all partitions of its topics; records as objects or as Arrow columns.

With isolation_level="read_committed" it sees committed transactions only. Positions are those of what was handed out.
With `async for`, what is stored by itself (enable_auto_commit, also at the end) is past a record only when the next one
is asked for; `commit` and `current_positions` count the one in hand, which is then the application's word.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import warnings
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

from oncelog.client import arguments
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.instance_id import HasInstanceId
from oncelog.client.cluster.topics_in_use import ReadTopics
from oncelog.client.config import ConsumerConfig, snake_case
from oncelog.client.consumer.classic_protocol import GroupMembership
from oncelog.client.consumer.consumer_protocol import ConsumerProtocol
from oncelog.client.consumer.farewell import is_listener_of
from oncelog.client.consumer.fetcher import Fetcher
from oncelog.client.consumer.group import GroupPart, InHand, RebalanceListener
from oncelog.client.consumer.iteration import Iteration
from oncelog.client.consumer.position_lookup import FailedLook, Look, PositionLookup
from oncelog.client.consumer.positions import Positions
from oncelog.client.consumer.refused_topics import RefusedTopics, tell_missing
from oncelog.client.consumer.seeking import Seeking
from oncelog.client.consumer.supply import no_rows
from oncelog.client.consumer.waking import Waking
from oncelog.client.ending import Ending, behind
from oncelog.client.interceptors import ConsumerInterceptor, as_handed_out, call_each, interceptors_of
from oncelog.client.metrics import ConsumerMetrics, partition_metrics, start_reports
from oncelog.client.option_types import ConsumerOptions
from oncelog.client.records import ConsumerRecord
from oncelog.client.telemetry_points import consumer_points
from oncelog.errors import (
    ErrorCode,
    IllegalState,
    InvalidArgument,
    KafkaError,
    UnknownServer,
    need,
)
from oncelog.host.host import Host, real_host
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("oncelog.client")

_POSIX_CLASS = re.compile(r"\[\[:\^?\w+:\]|\[[^\]\[]*\[:\^?\w+:\]")
ARROW_RECORDS_MAX = 100_000
POLL_TIMEOUT_MS = 1000


class Consumer(HasInstanceId, GroupPart, Waking, Iteration, PositionLookup, Seeking):
    """Reads records. `async with Consumer("topic", group_id=...)`, then `async for record in consumer`.

    Without group_id it reads all partitions of its topics, or what `assign` says. Keyword arguments are Kafka's consumer
    keys in snake case. Raises ConfigurationError.
    """

    def __init__(self, *topics: str, host: Host | None = None, **config: Unpack[ConsumerOptions]) -> None:
        for topic in topics:
            _check_topic(topic)
        self._config = ConsumerConfig.of(config)
        self._host = host or real_host()
        self._cluster = Cluster(self._config, self._host, self._broken, self._metadata_came)
        self._cluster.telemetry.tells(lambda: consumer_points(self.metrics()))
        self._positions = Positions(in_transaction_order=self._config.order == "transaction")
        self._fetcher = Fetcher(self._cluster, self._config, self._positions, self._host.new_spill)
        self._refused = RefusedTopics(self._cluster, self._wanted_topics)
        self._membership: GroupMembership | None = None
        self._protocol: ConsumerProtocol | None = None
        self._topics: tuple[str, ...] = tuple(topics)
        self._pattern: str | None = None
        self._compiled: re.Pattern[str] | None = None  # where it is matched here
        self._listener: RebalanceListener | None = None
        self._assigned_by_hand = False
        self._known_counts: dict[str, int] = {}
        self._missing: set[str] = set()  # topics that were told not to exist
        self._may_create: set[str] = set()
        self._cluster.topics.user = ReadTopics(self._topics_in_use, self._topics_to_create, self._topics_forgotten)
        self._is_started = self._is_stopped = self._is_in_listener = False
        self._being_revoked: set[TopicPartition] = set()
        self._hears_farewell = False
        self._ending: Ending | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._must_list_topics = False
        self._question: tuple[tuple[str, ...] | None, asyncio.Task[None]] | None = None
        self._looks: dict[asyncio.Task[None], Look] = {}
        self._failed_look: FailedLook | None = None
        self._next_auto_commit_ms = self._next_look_ms = self._next_look_around_ms = self._next_lookup_ms = 0.0
        self._failure: KafkaError | None = None
        self._auto_committing: asyncio.Task[None] | None = None
        self._in_hand: InHand | None = None
        self._interceptors = interceptors_of(self._config.interceptor_classes, ConsumerInterceptor)
        if self._config.tracing is not None:
            self._interceptors += (self._config.tracing.consumer(self._config.client_id, self._config.group_id),)
        self._delivered_record_count = self._rebalance_count = 0

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str, host: Host | None = None, **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        return cls(*topics, host=host, **{**snake_case(config), **more})

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, left_by: type[BaseException] | None, *_: object) -> None:
        with behind(left_by):
            await self.stop(arguments.stop_timeout_ms(left_by))

    async def start(self) -> None:
        """Connect. Raises RequestTimedOut."""
        self._check_not_over()
        if self._is_started:
            raise IllegalState("this consumer was started before")
        self._is_started = True
        try:
            await self._cluster.start()
            self._begin()
        except BaseException:
            await self._cluster.close()
            raise

    def _begin(self) -> None:
        self._cluster.tasks.start(self._fetcher.run(), name="oncelog-fetcher")
        if self._config.group_id is not None and not self._assigned_by_hand and (self._topics or self._pattern):
            self._start_membership()
        self._next_auto_commit_ms = self._cluster.now_ms() + self._config.auto_commit_interval_ms
        start_reports(self._cluster.tasks, self._config, self.metrics)

    async def stop(self, timeout_ms: int | None = None) -> None:
        """Commit (with enable_auto_commit), tell the listener (`on_partitions_revoked`), leave the group, close; at most
        `timeout_ms` (default: request_timeout_ms; five seconds where a cancellation or Ctrl-C leaves `async with`).

        A `poll` that waits in another task raises IllegalState; `async for` ends. One that is cancelled goes on behind:
        who stops again waits for it. Raises what the listener raises; `async with` that an error leaves logs that.
        """
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        if self._ending is not None and is_listener_of(self):
            return  # of the listener that this stop waits for
        if self._ending is None:
            self._cluster.check_loop()
            self._is_stopped, self._ending = True, Ending()
            self._fetcher.arrived.set()
        timeout_s = (self._config.request_timeout_ms if timeout_ms is None else timeout_ms) / 1000
        await self._ending.come(lambda: self._end(timeout_s), timeout_s)

    async def _end(self, timeout_s: float) -> None:
        try:
            async with asyncio.timeout(timeout_s) as whole:
                await self._say_goodbye(timeout_s)
        except TimeoutError:
            if not whole.expired():
                raise  # a listener's
            why = "its rebalance listener did not end" if self._hears_farewell else "no answer"
            log.warning("group %r: %s while the consumer stopped", self._config.group_id, why)
        finally:
            await self._cluster.close()
            for position in self._positions.by_partition.values():
                if position.order is not None:
                    position.order.close()
            call_each([each.close for each in self._interceptors])

    async def _say_goodbye(self, timeout_s: float) -> None:
        if self._is_started and self._config.group_id is not None:
            self._stop_timeout_s = timeout_s
            if self._config.enable_auto_commit:
                await self._commit_quietly(self._positions_done_with())
            await self._say_farewell()
            if self._leaving:  # of an `unsubscribe` just before
                await asyncio.wait(self._leaving)

    def _broken(self, error: BaseException) -> None:
        if isinstance(error, KafkaError):
            return  # whoever asked was told
        log.error("the consumer met an error of its own", exc_info=error)
        self._failure = UnknownServer(f"the consumer met an error of its own: {error!r}")
        self._fetcher.arrived.set()

    def _metadata_came(self) -> None:
        self._refused.metadata_came()
        self._tell_missing({each.topic for each in self._positions.by_partition})
        self._fetcher.metadata_came()

    def _wanted_topics(self) -> set[str]:
        """Topics that are read, or would be if they were there; the leader of a group's others, too, as in Java's consumer."""
        read = {each.topic for each in self._positions.by_partition}
        if self._assigned_by_hand:
            return read
        return read.union(self._topics, () if self._membership is None else self._membership.group_topics)

    def _topics_in_use(self) -> set[str]:
        """For the metadata that it keeps: what it reads, and what its pattern matches."""
        return self._wanted_topics().union(self._matching_topics() if self._matches_here else ())

    def _topics_to_create(self) -> set[str]:
        """What it was to create, and is still subscribed to."""
        if self._assigned_by_hand or self._pattern is not None:
            return set()
        group_topics = () if self._membership is None else self._membership.group_topics
        return self._may_create.intersection((*self._topics, *group_topics))

    def _topics_forgotten(self, names: set[str]) -> None:
        """It has not read these for long."""
        self._may_create -= names
        self._missing -= names

    # -- what to read

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Read these topics, or those whose whole name matches `pattern`; replaces what was subscribed before.

        With group_protocol="consumer" the broker matches, by RE2 (`poll` raises InvalidRegularExpression); else this consumer
        does, by Python's `re` (without classes of POSIX), and looks for topics that came every `metadata_max_age_ms`.
        """
        self._check_not_over()
        names = tuple(arguments.texts("topics", topics))
        if names and pattern is not None and not self._config.uses_consumer_protocol:
            raise arguments.refuse("pattern", pattern, "None where topics are named")
        if listener is not None and not isinstance(listener, RebalanceListener):
            raise arguments.refuse(
                "listener", listener, "a RebalanceListener", "subclass it, and override what you need"
            )
        if pattern is not None:
            arguments.text("pattern", pattern)
        compiled = None if pattern is None or self._broker_matches else _compiled(pattern)
        self._pattern, self._compiled = pattern, compiled
        self._topics = names
        self._listener = listener or self._listener
        self._assigned_by_hand = False
        self._known_counts, self._missing = {}, set()
        self._must_list_topics = self._cluster.tracks_all = self._matches_here
        self._subscription_changed()
        self._next_look_around_ms = 0.0  # nothing more of what was read before
        self._fetcher.arrived.set()

    @property
    def _matches_here(self) -> bool:
        """Whether this consumer looks for the topics of its pattern, and not the broker."""
        return self._pattern is not None and not self._broker_matches

    @property
    def _broker_matches(self) -> bool:
        """It knows RE2 and says what is wrong with a pattern: Python's `re` has another language."""
        return self._config.group_id is not None and self._config.uses_consumer_protocol

    def unsubscribe(self) -> None:
        """Read nothing, and leave the group, behind the listener's `on_partitions_revoked`."""
        self._check_not_over()
        self._topics, self._pattern, self._compiled = (), None, None
        self._cluster.tracks_all = False
        try:
            if self._is_started and self._config.group_id is not None:
                self._leave_soon("unsubscribed", self._leave_beside)
        finally:
            self._take_by_hand(())

    def _leave_beside(self, work: Coroutine[Any, Any, None]) -> None:
        leaving = self._cluster.tasks.start(work, name="oncelog-leave")
        self._leaving.add(leaving)
        leaving.add_done_callback(self._left)

    def _left(self, leaving: asyncio.Task[None]) -> None:
        self._leaving.discard(leaving)
        self._fetcher.arrived.set()  # a poll may wait for it before it joins anew

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these partitions, outside the group's management. Partitions that stay keep their position."""
        self._check_not_over()
        if self._is_member:
            raise IllegalState("this consumer's partitions are assigned by its group")
        self._take_by_hand(partitions)

    def _take_by_hand(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = arguments.topic_partitions("partitions", partitions)
        self._assigned_by_hand = True
        self._positions.assign(wanted)
        self._cluster.topics.track({tp.topic for tp in self._positions.by_partition})
        self._fetcher.wake()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read now."""
        return set(self._positions.by_partition)

    def subscription(self) -> set[str]:
        """The subscribed topics; with a pattern those that match it now, or, where the broker matches, those of them that this
        member reads."""
        matching: Iterable[str] = ()
        if self._matches_here:
            matching = self._matching_topics()
        elif self._pattern is not None:
            matching = (each.topic for each in self._positions.by_partition)
        return {*self._topics, *matching}

    # -- reading

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, max_records: int | None = None) -> list[ConsumerRecord]:
        """Records, as soon as there are any, at most `max_records` (default: max_poll_records).

        Empty when nothing came in time, or when a position moved past records that read_committed hides. Group members
        must poll within max_poll_interval_ms. Raises OffsetOutOfRange, CorruptRecord, FencedInstanceId ...
        """
        limit = self._config.max_poll_records if max_records is None else _record_count(max_records)
        self._in_hand = None
        return await self._poll(timeout_ms, lambda: self._take(limit)) or []

    def _take(self, count_max: int) -> tuple[list[ConsumerRecord], bool]:
        """Records for the application, past the interceptors; where one of them raises, positions stay."""
        before = self._fetcher.places() if self._interceptors else {}
        taken, moved = self._fetcher.take(count_max)
        if taken and self._interceptors:
            try:
                taken = as_handed_out(self._interceptors, taken)
            except BaseException:
                self._fetcher.go_back(before)
                raise
        self._delivered_record_count += len(taken)
        return taken, moved

    async def poll_arrow(
        self, max_records: int = ARROW_RECORDS_MAX, timeout_ms: int = POLL_TIMEOUT_MS, *, include_headers: bool = True
    ) -> pa.RecordBatch:
        """As `poll`, as one Arrow batch with the columns of Spark's Kafka source; no Python object per record."""
        _record_count(max_records)
        arguments.boolean("include_headers", include_headers)
        need("poll_arrow", "pyarrow", "arrow")
        self._in_hand = None
        take = partial(self._fetcher.take_rows, max_records, include_headers=include_headers)
        taken = await self._poll(timeout_ms, take)
        rows: pa.RecordBatch = taken[0] if taken else no_rows(include_headers=include_headers)
        self._delivered_record_count += rows.num_rows
        return rows

    async def _poll_until(self, timeout_ms: int, take: Callable[[], tuple[list[Any], bool]]) -> list[Any] | None:
        self._check_running()
        if self._is_in_listener:
            raise IllegalState("poll was called while a rebalance listener runs: it may commit and seek, not poll")
        arguments.duration_ms("timeout_ms", timeout_ms)
        if not (self._topics or self._pattern or self._assigned_by_hand):
            raise IllegalState("there is nothing to read: name topics, subscribe or assign")
        ends = asyncio.get_running_loop().time() + timeout_ms / 1000
        while True:
            self._polled()  # also while it waits here: the application is there
            self._fetcher.arrived.clear()
            if self._failure is not None:
                raise self._failure
            self._raise_if_woken()
            await self._prepare(ends)
            self._raise_if_woken()  # while a listener ran
            self._check_running()  # it may have been stopped meanwhile
            self._refused.raise_error()
            self._fetcher.raise_error()
            self.take_back()  # what another thread's call lent while this one waited
            self._in_hand = None
            taken, moved = take()
            self._polled()
            if taken or moved:
                return taken
            left = ends - asyncio.get_running_loop().time()
            if left <= 0:
                await asyncio.sleep(0)  # who polls without waiting lets fetches, and others, go on their way
                return None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, self._next_chore_s())):
                    await self._fetcher.arrived.wait()
            self._check_running()

    def _next_chore_s(self) -> float:
        """When a waiting poll has something to do besides waiting: topics to look for, offsets to commit, to say that the
        application is there."""
        now_ms, chores_ms = self._cluster.now_ms(), [float(self._config.metadata_max_age_ms)]
        if self._must_list_topics or any(self._count_of(name) is None for name in self._topics):
            chores_ms.append(self._next_look_ms - now_ms)
        if self._positions.without_offset():
            chores_ms.append(self._next_lookup_ms - now_ms)
        if self._config.group_id is not None:
            chores_ms.append(self._config.max_poll_interval_ms / 2)
            if self._config.enable_auto_commit:
                chores_ms.append(self._next_auto_commit_ms - now_ms)
        return max(min(chores_ms), 10) / 1000

    def _check_not_over(self) -> None:
        if self._is_stopped:
            raise IllegalState("this consumer is not running: it was stopped, make a new one")
        if self._cluster.is_closed:
            raise IllegalState("this consumer is not running: its start failed, make a new one")

    def _check_running(self) -> None:
        self._check_not_over()
        if not self._is_started:
            raise IllegalState("this consumer is not running: use `async with`, or call start()")
        self._cluster.check_loop()

    async def _prepare(self, ends: float) -> None:
        if self._protocol is not None and not self._assigned_by_hand:
            await self._reconcile(self._protocol, ends)
        elif self._membership is not None and not self._assigned_by_hand:
            await self._take_part(self._membership, ends)
        elif not self._assigned_by_hand and (self._topics or self._pattern):
            await self._assign_all()
        if self._looks or self._positions.without_offset():
            await self._look_for_positions(ends)
        if self._config.enable_auto_commit and self._config.group_id is not None:
            self._auto_commit()

    async def _assign_all(self) -> None:
        """Without a group: every partition of every topic, also those that are added later."""
        topics = self._subscribed_topics()
        if topics is None:
            await asyncio.sleep(0)  # an application that polls without waiting lets the question go on its way
            return
        if self._question is not None or self._may_look_for(topics):
            self._track_wanted(topics)
            self._hear_of(tuple(topics))
            await asyncio.sleep(0)
        counts = {name: count for name in topics if (count := self._count_of(name)) is not None}
        known = self._known_counts  # a right that was taken away may come back: the places stay
        counts |= {name: known[name] for name in topics if name in known and self._refused.is_refused(name)}
        if counts != self._known_counts:
            self._known_counts = counts
            self._cluster.topics.track(topics)
            self._positions.assign(TopicPartition(t, p) for t, count in counts.items() for p in range(count))
            self._fetcher.wake()

    def _subscribed_topics(self) -> list[str] | None:
        """None: brokers have not said yet which topics there are for the pattern."""
        if self._pattern is None:
            return list(self._topics)
        if self._must_list_topics:
            is_due = self._question is not None or self._cluster.now_ms() >= self._next_look_ms
            if not is_due or not self._hear_of(None):
                return None
            self._must_list_topics = False
        return self._matching_topics()

    def _awaits_assignment(self) -> bool:
        """Whether it subscribed, and does not know yet what it will read."""
        if self._assigned_by_hand or not (self._topics or self._pattern):
            return False
        if self._config.group_id is not None:
            return not self._has_joined
        topics = self._topics if self._pattern is None else self._matching_topics()
        return self._must_list_topics or (not self._known_counts and any(name not in self._missing for name in topics))

    def _hear_of(self, topics: tuple[str, ...] | None) -> bool:
        """Ask what brokers know of these topics (None: of all); whether they have said it. The question outlives its poll, which
        ends in time where brokers stand still; where they cannot answer now they are asked again after a while."""
        if self._question is None or self._question[0] != topics:
            task = self._cluster.tasks.start(self._cluster.refresh(topics), name="oncelog-topics")
            task.add_done_callback(lambda _: self._fetcher.arrived.set())
            self._question = topics, task
        task = self._question[1]
        if not task.done():
            return False
        self._question = None
        error = None if task.cancelled() else task.exception()
        if error is None:
            return not task.cancelled()
        if not (isinstance(error, KafkaError) and error.retriable):
            raise error
        log.debug("topics cannot be asked for now: %s", error)
        self._next_look_ms = self._cluster.now_ms() + self._config.retry_backoff_max_ms
        return False

    def _matching_topics(self) -> list[str]:
        """Topics that the pattern matches now; metadata of all topics is asked for every metadata_max_age_ms."""
        pattern, internal = self._compiled, not self._config.exclude_internal_topics
        present = [
            t for t in self._cluster.view.topics.values() if t.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ]
        found = [t.name for t in present if internal or not t.is_internal]
        return [name for name in found if pattern is not None and pattern.fullmatch(name)]

    async def _partition_counts(self, topics: Sequence[str]) -> Mapping[str, int]:
        """Partitions of the topics that exist."""
        self._track_wanted(topics)
        if any(self._count_of(name) is None for name in topics):
            await self._cluster.refresh(topics)
        return {name: count for name in topics if (count := self._count_of(name)) is not None}

    def _track_wanted(self, topics: Sequence[str]) -> None:
        self._cluster.topics.track(topics)
        if self._config.allow_auto_create_topics and self._pattern is None:
            self._may_create.update(topics)

    def _count_of(self, topic: str) -> int | None:
        view = self._cluster.view.topics.get(topic)
        return len(view.partitions) if view is not None and not view.error_code else None

    def _may_look_for(self, topics: Sequence[str]) -> bool:
        """Whether to ask (again, not too often) for topics that do not exist yet."""
        now_ms = self._cluster.now_ms()
        if now_ms < self._next_look_ms or all(self._count_of(name) is not None for name in topics):
            return False
        self._next_look_ms = now_ms + self._config.retry_backoff_max_ms
        self._tell_missing(topics)
        return True

    def _tell_missing(self, topics: Iterable[str]) -> None:
        tell_missing(self._cluster, topics, self._missing)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out nothing of these until `resume`."""
        for position in [self._place(each) for each in partitions]:
            position.is_paused = True

    def resume(self, *partitions: TopicPartition) -> None:
        """Go on with these."""
        for position in [self._place(each) for each in partitions]:
            position.is_paused = False
        self._fetcher.wake()
        self._fetcher.arrived.set()

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return {tp for tp, position in self._positions.by_partition.items() if position.is_paused}

    # -- what is known

    def metrics(self) -> ConsumerMetrics:
        """What this consumer counted since it was made, and where it stands; asks no broker. See also `stats_cb`."""
        is_read_committed = self._config.is_read_committed
        return ConsumerMetrics(
            client_id=self._config.client_id,
            group_id=self._config.group_id,
            delivered_record_count=self._delivered_record_count,
            fetched_bytes=self._fetcher.fetched_bytes,
            rebalance_count=self._rebalance_count,
            partitions=tuple(partition_metrics(self._positions.by_partition, is_read_committed=is_read_committed)),
            brokers=self._cluster.traffic.snapshot(),
        )

    async def partitions_for_topic(self, topic: str) -> set[int]:
        """The partitions of a topic."""
        self._check_running()
        timeout_ms = self._config.default_api_timeout_ms
        return set((await self._cluster.topic(arguments.text("topic", topic), timeout_ms=timeout_ms)).partitions)

    async def topics(self) -> set[str]:
        """All topics of the cluster that are not internal."""
        await self._cluster.retry("list topics", lambda _: self._cluster.refresh(None))
        return {topic.name for topic in self._cluster.view.topics.values() if not topic.is_internal}


def _check_topic(topic: object) -> None:
    """What other clients take first: a list of topics, or a dict of the configuration."""
    if not isinstance(topic, str):
        hint = "; a dict of Kafka's keys goes to Consumer.from_config" if isinstance(topic, Mapping) else ""
        raise InvalidArgument(f"topics are given one by one, as str, not {type(topic).__name__}{hint}")
    arguments.text("topic", topic)


def _record_count(max_records: int) -> int:
    return arguments.integer("max_records", max_records, low=1)


def _compiled(pattern: str) -> re.Pattern[str]:
    if _POSIX_CLASS.search(pattern):
        hint = "Python's re knows no classes of POSIX like [[:digit:]]: write \\d, \\w or [0-9]"
        raise arguments.refuse("pattern", pattern, "a regular expression of Python's", hint)
    try:
        with warnings.catch_warnings():  # of sets that a later Python may read otherwise: the reader did not write them
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise arguments.refuse("pattern", pattern, "a regular expression", str(error)) from None
