"""What a consumer has to do with its group: taking part (classic or KIP-848), and its committed offsets.

Mixed into `Consumer`. Whatever the protocol, partitions come and go only inside `poll`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from oncelog.client import arguments
from oncelog.client.backoff import Deadline, one_deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.group_offsets import commit_offsets, fetch_committed, group_key
from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.classic_protocol import GroupMembership
from oncelog.client.consumer.consumer_protocol import ConsumerProtocol
from oncelog.client.consumer.farewell import Farewell, Listening, begin, end, farewell_of, is_listener_of
from oncelog.client.consumer.fetcher import Fetcher
from oncelog.client.consumer.positions import Position, Positions
from oncelog.client.interceptors import ConsumerInterceptor
from oncelog.client.obstacle import Obstacle
from oncelog.errors import IllegalGeneration, IllegalState, KafkaError, RebalanceInProgress, StaleMemberEpoch
from oncelog.host.host import Host
from oncelog.host.randomness import random_uuid
from oncelog.lazy_dataclass import dataclass
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest

log = logging.getLogger("oncelog.client")

STALE_EPOCH_RETRIES = 3
STALE_EPOCH_WAIT_S = 1.0


@runtime_checkable
class RebalanceListener(Protocol):
    """What a consumer tells about its assignment; called inside `poll`, `stop` and `unsubscribe`. Override what you need, async
    or not.

    It may commit, seek, subscribe and unsubscribe, not poll; at the end only commit. What it raises `poll` raises, and the
    rebalance goes on; `stop` raises it at its end. `unsubscribe` does not wait for an async one: what that raises is logged.
    With `oncelog.sync` a plain one runs in a thread of its own, and may make those calls (`unsubscribe` does not wait for it);
    an async one runs in the clients' thread, where a blocking call would wait for itself.
    """

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> Awaitable[None] | None:  # noqa: ARG002
        """These are given away now, or at the end: the last moment to commit for them."""
        return None

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> Awaitable[None] | None:  # noqa: ARG002
        """These came."""
        return None

    def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> Awaitable[None] | None:  # noqa: ARG002
        """These were taken away before: others may read them already."""
        return None


@dataclass(slots=True)
class InHand:
    """The record that `async for` handed out last: where it was, and the place before it."""

    topic_partition: TopicPartition
    position: Position
    version: int  # a seek since then says where to go on
    offset: int
    before_in_order: OffsetAndMetadata | None = None  # with order="transaction"

    @property
    def before(self) -> OffsetAndMetadata:
        """Where to go on when it was not done with."""
        position = self.position
        return self.before_in_order or OffsetAndMetadata(
            self.offset, leader_epoch=position.leader_epoch, topic_id=position.topic_id
        )


class GroupPart:
    """Mixed into a consumer."""

    # what the consumer has
    _config: ConsumerConfig
    _host: Host
    _cluster: Cluster
    _positions: Positions
    _fetcher: Fetcher
    _topics: tuple[str, ...]
    _pattern: str | None
    _listener: RebalanceListener | None
    _membership: GroupMembership | None
    _protocol: ConsumerProtocol | None
    _assigned_by_hand: bool
    _is_started: bool
    _is_stopped: bool
    _stop_timeout_s: float
    _is_in_listener: bool
    _being_revoked: set[TopicPartition]
    _leaving: set[asyncio.Task[None]]
    _hears_farewell: bool
    _auto_committing: asyncio.Task[None] | None
    _in_hand: InHand | None
    _interceptors: tuple[ConsumerInterceptor, ...]
    _rebalance_count: int
    _next_auto_commit_ms: float
    _subscribed_topics: Callable[[], list[str] | None]
    _matching_topics: Callable[[], list[str]]
    _partition_counts: Callable[[Sequence[str]], Coroutine[Any, Any, Mapping[str, int]]]
    _may_look_for: Callable[[Sequence[str]], bool]
    _count_of: Callable[[str], int | None]

    # -- being a member

    @property
    def _is_member(self) -> bool:
        """Whether a group has a say in what is read."""
        if self._protocol is not None:
            return self._protocol.machine.has_subscription
        return self._membership is not None and self._membership.adopted is not None

    @property
    def _has_joined(self) -> bool:
        """Whether the group has said what is read, if only nothing."""
        if self._protocol is not None:
            return self._protocol.machine.is_joined and not self._protocol.machine.must_reconcile
        return self._is_member

    def _start_membership(self) -> None:
        if self._config.uses_consumer_protocol:
            member_id = random_uuid(self._host.random)
            self._protocol = ConsumerProtocol(self._cluster, self._config, member_id, self._fetcher.arrived.set)
            self._protocol.polled()
            self._protocol.subscribe(self._topics, self._pattern)
            heartbeats = self._protocol.heartbeats()
        else:
            self._membership = GroupMembership(
                self._cluster, self._config, self._partition_counts, self._fetcher.arrived.set
            )
            self._membership.polled()
            heartbeats = self._membership.heartbeats()
        self._cluster.tasks.start(heartbeats, name="oncelog-heartbeats")

    def _subscription_changed(self) -> None:
        if self._protocol is not None:
            self._protocol.subscribe(self._topics, self._pattern)
        elif self._membership is not None:
            self._membership.needs_join = True
        elif self._is_started and self._config.group_id is not None:
            self._start_membership()

    def _polled(self) -> None:
        if self._protocol is not None:
            self._protocol.polled()
        if self._membership is not None:
            self._membership.polled()

    def _begin_farewell(self) -> tuple[Farewell, Awaitable[None] | None]:
        """The listener hears that it loses all partitions: what it had, and what is left to wait for where it is async."""
        farewell = Farewell(self, self._positions_done_with(), self.group_metadata())
        member = self._protocol or self._membership
        held = set(self._positions.by_partition) - self._being_revoked
        if self._listener is None or member is None or not held or self._assigned_by_hand or is_listener_of(self):
            return farewell, None
        hear = self._listener.on_partitions_lost if member.lost else self._listener.on_partitions_revoked
        with Listening(self):
            return farewell, hear(sorted(held))

    async def _say_farewell(self) -> None:
        """At the end, within its time: then the group hears of it, whatever the listener raises."""
        failed: Exception | None = None
        try:
            farewell, answer = self._begin_farewell()
            if answer is not None:
                self._hears_farewell = True
                await _hear(farewell, answer)
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            failed = error
        self._hears_farewell = False
        await self._leave("the consumer was stopped")
        if failed is not None:
            raise failed

    def _leave_soon(self, reason: str, go_on: Callable[[Coroutine[Any, Any, None]], None]) -> None:
        """Out of the group at once; `go_on` has an async listener end, then tells the coordinator. Raises what another listener
        raises, when that is on its way."""
        farewell: Farewell | None = None
        answer: Awaitable[None] | None = None
        try:
            farewell, answer = self._begin_farewell()
        finally:
            go_on(_hear_then_leave(farewell, answer, self._leave(reason)))

    def _leave(self, reason: str) -> Coroutine[Any, Any, None]:
        """Out of the group at once; the coroutine tells the coordinator."""
        if self._protocol is not None:
            return self._protocol.leave(self._protocol.depart())
        if self._membership is not None:
            return self._membership.leave(self._membership.depart(reason))
        return _nothing()

    async def _is_settled(self) -> bool:
        """Whether the group has shared out all that there is, so that a member without partitions gets none. Both protocols
        tell a member of its share some time after it joined, or after another one left: only the group's state says that it
        has none."""
        if self._protocol is None:
            group = await self._described(DescribeGroupsRequest(groups=[self.group_metadata().group_id]))
            # In a stable group an answer with its share may still be on its way.
            membership = self._membership
            is_waiting = membership is None or membership.is_joining or membership.to_take_over is not None
            return group.group_state == "Stable" and self._has_joined and not is_waiting
        group = await self._described(ConsumerGroupDescribeRequest(group_ids=[self._protocol.group_id]))
        has_any = any(self._count_of(name) for name in self._topics)
        shares = {
            member.member_id: bool(member.assignment.topic_partitions or member.target_assignment.topic_partitions)
            for member in group.members
        }
        # Its own share, too, is the group's before it has heard of it.
        gets_none = not shares.get(self._protocol.metadata().member_id, True)
        return group.group_state == "Stable" and gets_none and (any(shares.values()) or not has_any)

    async def _described(self, message: DescribeGroupsRequest | ConsumerGroupDescribeRequest) -> Any:
        group_id = self.group_metadata().group_id
        response = await self._cluster.ask_coordinator(group_key(group_id), message)
        (group,) = response.groups
        if group.error_code:
            text = group.error_message or "its state could not be told"
            raise self._cluster.refusal(group.error_code, f"group {group_id!r}: {text}", group_id)
        return group

    # -- the protocol of KIP-848: the broker assigns

    async def _reconcile(self, protocol: ConsumerProtocol, ends: float) -> None:
        """Give back and take over what the broker says; the member tells it that this was done.

        What it says may change, and the member may be put out or leave, whenever this waits: so all is looked at anew.
        """
        while not self._has_left:
            if protocol.obstacle.error is not None:
                await self._tell(protocol.obstacle, ends)
                continue
            if protocol.lost:
                await self._lose()
                protocol.let_go()
                continue
            wanted = protocol.wanted()
            if wanted is None:
                return
            owned = set(self._positions.by_partition)
            if not owned <= wanted:
                await self._revoke(owned - wanted, protocol, protocol.adopted)
                continue
            if wanted != owned:
                self._take_over(wanted)
            protocol.adopted(wanted)
            if wanted != owned:
                await self._tell_listener("on_partitions_assigned", sorted(wanted - owned))
            return

    # -- the classic protocol: a member assigns

    async def _take_part(self, membership: GroupMembership, ends: float) -> None:
        """Join where that is due, and take over what comes of it. Whenever this waits the member may be put out or leave."""
        loop = asyncio.get_running_loop()
        while not self._has_left:
            if membership.obstacle.error is not None:
                await self._tell(membership.obstacle, ends)
            elif membership.lost:
                await self._lose()
                membership.let_go()
            elif membership.to_take_over is not None:
                await self._adopt(membership, membership.to_take_over)
            elif membership.is_joining:
                if not await membership.joined(ends - loop.time()):
                    return
            else:
                self._look_for_changes(membership)
                # Behind an `unsubscribe` whose listener still runs: a static member that joins anew would be another generation.
                if not membership.needs_join or self._leaving or not await self._give_back(membership):
                    return

    def _look_for_changes(self, membership: GroupMembership) -> None:
        """A member whose pattern matches other topics says so; the leader assigns anew when a topic came, went or grew."""
        if self._may_look_for(self._topics):
            self._cluster.refresh_soon(self._topics)
        if membership.adopted is None:
            return
        if self._pattern is not None and tuple(sorted(self._matching_topics())) != membership.subscribed:
            membership.needs_join = True
        assigned = membership.assigned_counts
        if assigned is not None:
            topics = {*membership.group_topics, *self._topics}
            present = {name: count for name in topics if (count := self._count_of(name)) is not None}
            if present != assigned:
                membership.assigned_counts = None
                membership.needs_join = True

    async def _give_back(self, membership: GroupMembership) -> bool:
        """Before joining: the eager protocol gives everything back; the cooperative one keeps it (KIP-429). False: it cannot go
        on before brokers have said which topics there are."""
        revoked = set(self._positions.by_partition)
        if revoked and not membership.is_cooperative:
            await self._revoke(revoked, membership, lambda _: None)
            return True  # and look again: the listener took its time
        if self._subscribed_topics() is None:
            return False
        if self._config.enable_auto_commit and membership.adopted is not None:
            await self._commit_quietly()
        topics = self._subscribed_topics()  # the application may have changed its mind meanwhile
        if topics is not None and not membership.lost and not self._has_left:
            membership.start_join(topics, sorted(self._positions.by_partition))
        return topics is not None

    async def _adopt(self, membership: GroupMembership, partitions: Sequence[TopicPartition]) -> None:
        owned = set(self._positions.by_partition)
        if not owned <= set(partitions):
            # Records were handed out while it joined: in the new generation they are still this member's to commit.
            await self._revoke(owned - set(partitions), membership, lambda _: membership.gave_back())
            return
        membership.to_take_over = None
        self._take_over(partitions)
        await self._tell_listener("on_partitions_assigned", sorted(set(partitions) - owned))

    # -- both

    @property
    def _has_left(self) -> bool:
        """Whether the application unsubscribed or stopped, perhaps inside a listener."""
        return self._assigned_by_hand or self._is_stopped

    async def _tell(self, obstacle: Obstacle, ends: float) -> None:
        """Raise what keeps the member out, once for each answer and at the end of a poll, unless it is let in before that."""
        loop, news = asyncio.get_running_loop(), self._fetcher.arrived
        while obstacle.is_known and (left_s := ends - loop.time()) > 0 and not self._has_left:
            self._polled()
            news.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_s, self._config.max_poll_interval_ms / 2000)):
                    await news.wait()
        await asyncio.sleep(0)  # who polls without waiting lets the question go on its way
        if not self._has_left:
            obstacle.raise_error()

    async def _lose(self) -> None:
        lost = sorted(self._positions.by_partition)
        self._positions.assign(())
        if lost:
            await self._tell_listener("on_partitions_lost", lost)

    async def _revoke(
        self,
        revoked: set[TopicPartition],
        member: ConsumerProtocol | GroupMembership,
        gave_up: Callable[[set[TopicPartition]], None],
    ) -> None:
        """Kafka's order: positions are committed, then the listener is told, then the partitions are gone; `gave_up` hears
        what is kept. They are gone, too, where the listener raises; a poll that is cancelled has to do it again. One that
        was put out before the listener heard gives nothing back: it lost them.
        """
        held = self._positions.by_partition
        if self._config.enable_auto_commit:
            await self._commit_quietly()
        if member.lost or self._positions.by_partition is not held or self._is_stopped:
            return  # stopped: the end tells it
        is_cancelled = False
        self._being_revoked = revoked
        try:
            await self._tell_listener("on_partitions_revoked", sorted(revoked))
        except asyncio.CancelledError:
            is_cancelled = True
            raise
        finally:
            self._being_revoked = set()
            if not is_cancelled and self._positions.by_partition is held:
                kept = set(held) - revoked
                self._positions.assign(sorted(kept))
                gave_up(kept)

    def _take_over(self, partitions: Iterable[TopicPartition]) -> None:
        wanted = sorted(partitions)
        self._rebalance_count += 1
        self._cluster.topics.track({tp.topic for tp in wanted})
        self._positions.assign(wanted)
        self._fetcher.wake()

    async def _tell_listener(self, what: str, partitions: Sequence[TopicPartition]) -> None:
        """A listener's method may be async or not."""
        if self._listener is None:
            return
        self._is_in_listener = True
        try:
            with Listening(self):
                answer: Awaitable[None] | None = getattr(self._listener, what)(partitions)
                if answer is not None:
                    await answer
        finally:
            self._is_in_listener = False

    # -- committed offsets

    def group_metadata(self) -> GroupMetadata:
        """What `Producer.send_offsets_to_transaction` needs. Raises IllegalState without group_id."""
        if self._config.group_id is None:
            raise IllegalState("this consumer has no group_id")
        farewell = farewell_of(self)
        if farewell is not None:
            return farewell.group
        if self._protocol is not None:
            return self._protocol.metadata()
        if self._membership is None:
            return GroupMetadata(self._config.group_id)
        return self._membership.metadata()

    def current_positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The known positions of all assigned partitions, as they would be committed. With order="transaction" the metadata
        belongs to them: it says what was handed out already."""
        farewell = farewell_of(self)
        if farewell is not None:
            return dict(farewell.positions)
        return {
            tp: committable
            for tp, position in self._positions.by_partition.items()
            if (committable := position.committable()) is not None
        }

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Store positions (default: the present ones), within default_api_timeout_ms, a periodic commit under way included.

        Raises IllegalGeneration, RebalanceInProgress, RequestTimedOut ..."""
        wanted = self.current_positions() if offsets is None else arguments.offsets("offsets", offsets)
        if self._in_hand is not None and self._in_hand.topic_partition in wanted:
            self._in_hand = None
        await self._commit(wanted)

    async def _commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        with one_deadline(self._config.default_api_timeout_ms, self._commit_is_what()) as deadline:
            await self._auto_committed(deadline)
            await self._store(positions, deadline)

    def _commit_is_what(self) -> str:
        return f"commit offsets of group {self._config.group_id!r}"

    async def _store(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        deadline: Deadline,
        *,
        passes_over_deleted: bool = False,
    ) -> None:
        """Within `one_deadline`. KIP-848: the member's epoch may have grown meanwhile; it is still the same member. So is, at the
        end, a cooperative one whose join is under way: no partition that it holds is another's in the new generation."""
        group = self.group_metadata()
        for retries_left in reversed(range(STALE_EPOCH_RETRIES + 1)):
            try:
                await commit_offsets(
                    self._cluster,
                    group,
                    positions,
                    by_topic_id=True,
                    passes_over_deleted=passes_over_deleted,
                )
                self._committed(positions)
                return
            except StaleMemberEpoch:
                if self._protocol is None or self._protocol.lost or not retries_left:
                    raise
                await self._protocol.next_answer(min(STALE_EPOCH_WAIT_S, deadline.left_ms / 1000))
                if self._protocol.lost:
                    raise
                group = self._protocol.metadata() if self._says_goodbye else self.group_metadata()
            except (IllegalGeneration, RebalanceInProgress):
                joined = await self._joined_at_the_end(deadline) if retries_left else None
                if joined is None or joined == group:
                    raise
                group = joined

    @property
    def _says_goodbye(self) -> bool:
        """Whether a stop goes on, and the member is still the one that its listener knows: it leaves behind it."""
        return self._is_stopped and not self._leaving

    async def _joined_at_the_end(self, deadline: Deadline) -> GroupMetadata | None:
        """The generation of a join that was under way when the consumer was stopped; it is waited for half of the stop's time."""
        membership = self._membership
        if membership is None or not membership.is_cooperative or not self._says_goodbye:
            return None
        if membership.is_joining:
            try:
                if not await membership.joined(min(self._stop_timeout_s / 2, deadline.left_ms / 1000)):
                    return None
            except KafkaError as error:
                log.debug("joining group %r, at the end: %s", membership.group_id, error)
                return None
        return None if membership.lost or membership.adopted is None else membership.metadata()

    def _committed(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._interceptors:
            asyncio.get_running_loop().call_soon(interceptor.on_commit, dict(positions))

    def _auto_commit(self) -> None:
        """Store the present positions, without waiting for the answer."""
        is_free = self._auto_committing is None or self._auto_committing.done()
        if is_free and not self._is_stopped and self._cluster.now_ms() >= self._next_auto_commit_ms:
            self._next_auto_commit_ms = self._cluster.now_ms() + self._config.auto_commit_interval_ms
            work = self._commit_beside(self.current_positions(), self.group_metadata())
            self._auto_committing = self._cluster.tasks.start(work, name="oncelog-commit")

    async def _auto_committed(self, deadline: Deadline) -> None:
        """A periodic commit has older positions: sent after newer ones it would take them back. Raises RequestTimedOut."""
        if self._auto_committing is not None and not self._auto_committing.done():
            done, _ = await asyncio.wait((self._auto_committing,), timeout=deadline.left_ms / 1000)
            if not done:
                raise deadline.passed()

    def _positions_done_with(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The present positions, but before a record that `async for` handed out last."""
        positions, in_hand = self.current_positions(), self._in_hand
        if in_hand is not None:
            position = self._positions.by_partition.get(in_hand.topic_partition)
            if position is in_hand.position and position.version == in_hand.version:
                positions[in_hand.topic_partition] = in_hand.before
        return positions

    async def _commit_quietly(self, positions: Mapping[TopicPartition, OffsetAndMetadata] | None = None) -> None:
        """Before partitions are given away, and at the end. What cannot be committed is logged."""
        try:
            with one_deadline(self._config.request_timeout_ms, self._commit_is_what()) as deadline:
                await self._auto_committed(deadline)
                positions = self.current_positions() if positions is None else positions
                if positions:
                    await self._store(positions, deadline, passes_over_deleted=True)
        except KafkaError as error:
            log.warning("group %r: offsets were not committed: %s", self._config.group_id, error)

    async def _commit_beside(self, positions: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> None:
        """Periodically: positions with the generation in which they were reached."""
        timeout_ms = self._config.request_timeout_ms
        try:
            await commit_offsets(
                self._cluster, group, positions, timeout_ms=timeout_ms, by_topic_id=True, passes_over_deleted=True
            )
            self._committed(positions)
        except KafkaError as error:
            log.warning("group %r: offsets were not committed: %s", self._config.group_id, error)

    async def committed(
        self, partitions: Iterable[TopicPartition], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The group's stored positions; partitions without one are left out."""
        return await fetch_committed(
            self._cluster,
            self.group_metadata().group_id,
            arguments.topic_partitions("partitions", partitions),
            require_stable=self._config.is_read_committed,
            by_topic_id=True,
            timeout_ms=arguments.duration_ms_or_none("timeout_ms", timeout_ms),
        )


async def _nothing() -> None:
    pass


async def _hear(farewell: Farewell, answer: Awaitable[None]) -> None:
    """An async listener of one that leaves, in a task that ends with it."""
    begin(farewell)
    try:
        with Listening(farewell.consumer):
            await answer
    finally:
        end()


async def _hear_then_leave(
    farewell: Farewell | None, answer: Awaitable[None] | None, leaving: Coroutine[Any, Any, None]
) -> None:
    try:
        if farewell is not None and answer is not None:
            await _hear(farewell, answer)
    except BaseException as error:
        if not isinstance(error, Exception):
            leaving.close()
            raise
        log.error("a rebalance listener raised while its consumer unsubscribed", exc_info=error)
    await leaving
