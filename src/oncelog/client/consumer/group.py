"""What a consumer has to do with its group: taking part (classic or KIP-848), and its committed offsets.

Mixed into `Consumer`. Whatever the protocol, partitions come and go only inside `poll`.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Protocol

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.group_offsets import commit_offsets, fetch_committed
from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.classic_protocol import GroupMembership
from oncelog.client.consumer.consumer_protocol import ConsumerProtocol
from oncelog.client.consumer.fetcher import Fetcher
from oncelog.client.consumer.positions import Positions
from oncelog.client.interceptors import ConsumerInterceptor
from oncelog.errors import IllegalState, KafkaError, StaleMemberEpoch
from oncelog.host.host import Host
from oncelog.host.randomness import random_uuid
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition

log = logging.getLogger("oncelog.client")

STALE_EPOCH_RETRIES = 3
STALE_EPOCH_WAIT_S = 1.0


class RebalanceListener(Protocol):
    """What a consumer tells about its assignment; called inside `poll`. Override what you need, async or not.

    With `oncelog.sync` it runs in the clients' own thread, where a blocking call of a client would wait for itself.
    """

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> Awaitable[None] | None:  # noqa: ARG002
        """These are given away now: the last moment to commit for them."""
        return None

    def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> Awaitable[None] | None:  # noqa: ARG002
        """These came."""
        return None

    def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> Awaitable[None] | None:  # noqa: ARG002
        """These were taken away before: others may read them already."""
        return None


class GroupPart:
    """Mixed into a consumer."""

    # what the consumer has
    _config: ConsumerConfig
    _host: Host
    _cluster: Cluster
    _positions: Positions
    _fetcher: Fetcher
    _topics: tuple[str, ...]
    _pattern: re.Pattern[str] | None
    _listener: RebalanceListener | None
    _membership: GroupMembership | None
    _protocol: ConsumerProtocol | None
    _is_started: bool
    _auto_committing: asyncio.Task[None] | None
    _interceptors: tuple[ConsumerInterceptor, ...]
    _rebalance_count: int
    _next_auto_commit_ms: float
    _subscribed_topics: Callable[[], Coroutine[Any, Any, list[str]]]
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

    def _start_membership(self) -> None:
        if self._config.uses_consumer_protocol:
            member_id = random_uuid(self._host.random)
            self._protocol = ConsumerProtocol(self._cluster, self._config, member_id, self._fetcher.arrived.set)
            self._protocol.polled()
            self._protocol.subscribe(self._topics, self._pattern.pattern if self._pattern is not None else None)
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
            self._protocol.subscribe(self._topics, self._pattern.pattern if self._pattern is not None else None)
        elif self._membership is not None:
            self._membership.needs_join = True
        elif self._is_started and self._config.group_id is not None:
            self._start_membership()

    def _polled(self) -> None:
        if self._protocol is not None:
            self._protocol.polled()
        if self._membership is not None:
            self._membership.polled()

    def _leave(self, reason: str) -> Coroutine[Any, Any, None]:
        """Out of the group at once; the coroutine tells the coordinator."""
        if self._protocol is not None:
            return self._protocol.leave(self._protocol.depart())
        if self._membership is not None:
            return self._membership.leave(self._membership.depart(reason))
        return _nothing()

    # -- the protocol of KIP-848: the broker assigns

    async def _reconcile(self, protocol: ConsumerProtocol) -> None:
        """Give back and take over what the broker says; the member tells it that this was done."""
        if protocol.error is not None:
            raise protocol.error
        if protocol.lost:
            await self._lose()
            protocol.let_go()
        wanted = protocol.wanted()
        if wanted is None:
            return
        owned = set(self._positions.by_partition)
        revoked, added = sorted(owned - wanted), sorted(wanted - owned)
        if revoked:
            if self._config.enable_auto_commit:
                await self._commit_quietly()
            if self._listener is not None:
                await _told(self._listener.on_partitions_revoked(revoked))
            if protocol.lost:
                return  # while the listener worked: the next poll says so
        if revoked or added:
            self._rebalance_count += 1
            self._cluster.track({tp.topic for tp in wanted}, may_create=False)
            self._positions.assign(sorted(wanted))
            if self._listener is not None and added:
                await _told(self._listener.on_partitions_assigned(added))
            self._fetcher.wake()
        protocol.adopted(wanted)

    # -- the classic protocol: a member assigns

    async def _take_part(self, membership: GroupMembership, ends: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            if membership.error is not None:
                raise membership.error
            if membership.lost:
                await self._lose()
                membership.lost = False
            self._look_for_changes(membership)
            if not membership.needs_join and not membership.is_joining:
                return
            if not membership.is_joining:
                await self._give_back(membership)
                topics = await self._subscribed_topics()
                membership.start_join(topics, sorted(self._positions.by_partition))
            joined = await membership.joined(ends - loop.time())
            if joined is None and membership.lost:
                continue
            if joined is None:
                return
            await self._adopt(membership, joined.partitions)

    def _look_for_changes(self, membership: GroupMembership) -> None:
        """The leader assigns anew when a topic came, went or grew."""
        if self._may_look_for(self._topics):
            self._cluster.refresh_soon(self._topics)
        assigned = membership.assigned_counts
        if assigned is not None and membership.adopted is not None:
            topics = {*assigned, *self._topics}
            present = {name: count for name in topics if (count := self._count_of(name)) is not None}
            if present != assigned:
                membership.assigned_counts = None
                membership.needs_join = True

    async def _lose(self) -> None:
        lost = sorted(self._positions.by_partition)
        self._positions.assign(())
        if lost and self._listener is not None:
            await _told(self._listener.on_partitions_lost(lost))

    async def _give_back(self, membership: GroupMembership) -> None:
        """Before joining: the eager protocol gives everything back; the cooperative one keeps it (KIP-429)."""
        if self._config.enable_auto_commit and membership.adopted is not None:
            await self._commit_quietly()
        revoked = sorted(self._positions.by_partition)
        if membership.is_cooperative or not revoked:
            return
        if self._listener is not None:
            await _told(self._listener.on_partitions_revoked(revoked))
        self._positions.assign(())

    async def _adopt(self, membership: GroupMembership, partitions: Sequence[TopicPartition]) -> None:
        owned = set(self._positions.by_partition)
        revoked, added = sorted(owned - set(partitions)), sorted(set(partitions) - owned)
        if revoked:
            if self._listener is not None:
                await _told(self._listener.on_partitions_revoked(revoked))
            membership.needs_join = True  # KIP-429: only now may somebody else get them
        self._rebalance_count += 1
        self._cluster.track({tp.topic for tp in partitions}, may_create=False)
        self._positions.assign(partitions)
        if self._listener is not None:
            await _told(self._listener.on_partitions_assigned(added))
        self._fetcher.wake()

    # -- committed offsets

    def group_metadata(self) -> GroupMetadata:
        """What `Producer.send_offsets_to_transaction` needs. Raises IllegalState without group_id."""
        if self._config.group_id is None:
            raise IllegalState("this consumer has no group_id")
        if self._protocol is not None:
            return self._protocol.metadata()
        if self._membership is None:
            return GroupMetadata(self._config.group_id)
        return self._membership.metadata()

    def current_positions(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The known positions of all assigned partitions, as they would be committed. With order="transaction" the metadata
        belongs to them: it says what was handed out already."""
        return {
            tp: committable
            for tp, position in self._positions.by_partition.items()
            if (committable := position.committable()) is not None
        }

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int] | None = None) -> None:
        """Store positions (default: the present ones). Raises IllegalGeneration, RebalanceInProgress ..."""
        wanted = self.current_positions() if offsets is None else offsets
        positions = {
            TopicPartition(*tp): OffsetAndMetadata(at) if isinstance(at, int) else at for tp, at in wanted.items()
        }
        await self._commit(positions)

    async def _commit(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """KIP-848: the member's epoch may have grown meanwhile; it is still the same member."""
        await self._auto_committed()
        for _ in range(STALE_EPOCH_RETRIES):
            try:
                await commit_offsets(self._cluster, self.group_metadata(), positions)
                self._committed(positions)
                return
            except StaleMemberEpoch:
                if self._protocol is None or self._protocol.lost:
                    raise
                await self._protocol.next_answer(STALE_EPOCH_WAIT_S)
                if self._protocol.lost:
                    raise
        await commit_offsets(self._cluster, self.group_metadata(), positions)
        self._committed(positions)

    def _committed(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        for interceptor in self._interceptors:
            asyncio.get_running_loop().call_soon(interceptor.on_commit, dict(positions))

    def _auto_commit(self) -> None:
        """Store the present positions, without waiting for the answer."""
        is_free = self._auto_committing is None or self._auto_committing.done()
        if is_free and self._cluster.now_ms() >= self._next_auto_commit_ms:
            self._next_auto_commit_ms = self._cluster.now_ms() + self._config.auto_commit_interval_ms
            work = self._commit_quietly(self.current_positions(), self.group_metadata())
            self._auto_committing = self._cluster.tasks.start(work, name="oncelog-commit")

    async def _auto_committed(self) -> None:
        """A periodic commit has older positions: sent after newer ones it would take them back."""
        if self._auto_committing is not None and not self._auto_committing.done():
            await asyncio.wait((self._auto_committing,))

    async def _commit_quietly(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata] | None = None,
        group: GroupMetadata | None = None,
    ) -> None:
        if positions is None:
            await self._auto_committed()
            positions = self.current_positions()
        try:
            await commit_offsets(
                self._cluster,
                group or self.group_metadata(),
                positions,
                timeout_ms=self._config.request_timeout_ms,
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
            [TopicPartition(*tp) for tp in partitions],
            require_stable=self._config.is_read_committed,
            timeout_ms=timeout_ms,
        )


async def _told(answer: Awaitable[None] | None) -> None:
    """A listener's method may be async or not."""
    if answer is not None:
        await answer


async def _nothing() -> None:
    pass
