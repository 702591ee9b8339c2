"""The group coordinators of this node: one per partition of `__consumer_offsets`, loaded from it.

Requests that wait (JoinGroup, SyncGroup) are futures by token; a coordinator's timer is armed anew after every decision.
Sessions run by the loop's clock: a step of the wall clock puts nobody out of a group.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from oncelog.broker.admission.population import Population
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.coordinators.coordinator_table import CoordinatorTable
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.decision import Decision
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode
from oncelog.host.clock import Clock
from oncelog.types import ProducerIdAndEpoch, TopicPartition

if TYPE_CHECKING:
    from oncelog.core.groups.coordinator import GroupCoordinator
    from oncelog.wire.log_records.share_state import ShareKey

_log = logging.getLogger("oncelog.groups")

Decide = Callable[["GroupCoordinator", int], Decision]


class SteadyClock:
    """Milliseconds that nobody sets: the wall's when this was made, and from there the loop's own time."""

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self._start_ms = wall.now_ms() - self._loop_ms()

    @staticmethod
    def _loop_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    def now_ms(self) -> int:
        """Never jumps."""
        return self._start_ms + self._loop_ms()

    def wall_offset_ms(self) -> int:
        """What to add for ms since 1970."""
        return self._wall.now_ms() - self.now_ms()


class GroupTimer:
    """Rings when a group coordinator's machine wants to be asked: sessions that end, rebalances that have waited enough."""

    def __init__(self, coordinator: Coordinator[GroupCoordinator], clock: SteadyClock) -> None:
        self._coordinator = coordinator
        self._clock = clock
        self._handle: asyncio.TimerHandle | None = None

    @property
    def is_armed(self) -> bool:
        """Whether it will ring."""
        return self._handle is not None

    def arm(self) -> None:
        """Ring when the machine wants it next; never for a partition that is offline."""
        self.disarm()
        due_ms = self._coordinator.machine.next_timer()
        if due_ms is not None and not self._coordinator.partition.is_offline:
            delay_s = max(due_ms - self._clock.now_ms(), 0) / 1000
            self._handle = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def disarm(self) -> None:
        """Do not ring."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _ring(self) -> None:
        self._handle = None
        machine = self._coordinator.machine
        machine.clock.offset_ms = self._clock.wall_offset_ms()
        self._coordinator.perform(machine.handle_timer(self._clock.now_ms()))  # which arms it again


class Groups(CoordinatorTable["GroupCoordinator"]):
    """All group coordinators of this node."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        partitions: Partitions,
        topics: Topics,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
    ) -> None:
        super().__init__(CONSUMER_OFFSETS_TOPIC, partitions, topics)
        self._metrics = metrics
        self._metadata = metadata
        self._clock = clock
        self._steady: SteadyClock | None = None  # from the first load on: it needs a running loop
        self._config = config
        self.timers: dict[int, GroupTimer] = {}  # by partition
        self._members = Population(lambda: sum(each.machine.member_count for each in self._coordinators.values()))
        self._offsets = Population(lambda: sum(each.machine.offsets.count for each in self._coordinators.values()))
        self._next_token = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    # coordinators

    async def admit(self, group_id: str) -> None:
        """Refuse a group that nobody knows yet where there are too many. Raises CoordinatorFailed."""
        coordinator = await self.coordinator_of(group_id)
        if coordinator.machine.knows_group(group_id):
            return
        if self.key_count >= self._config().oncelog_max_groups:
            self._metrics.limit_hit("oncelog.max.groups")
            raise CoordinatorFailed(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def may_have_begun(self, key: ShareKey) -> bool:
        """Whether a share group may know of this state: it does, or its coordinator could not be loaded."""
        topic = self._metadata.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            return False
        try:
            coordinator = self.coordinator(coordinator_partition(key.group_id, topic.partition_count))
        except CoordinatorFailed:
            return True
        return coordinator.machine.share_groups.has_begun(key)

    async def admit_member(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        """Refuse a member that nobody knows yet where there are too many, in all groups. Raises CoordinatorFailed."""
        if self._members.has_room(1, self._config().oncelog_max_group_members, asyncio.get_running_loop().time()):
            return
        coordinator = await self.coordinator_of(group_id)
        if not coordinator.machine.knows_member(group_id, member_id, instance_id):
            self._metrics.limit_hit("oncelog.max.group.members")
            raise CoordinatorFailed(ErrorCode.GROUP_MAX_SIZE_REACHED)

    async def admit_offsets(self, group_id: str, partitions: Iterable[TopicPartition], count: int) -> None:
        """Refuse offsets of partitions for which the group has none yet where there are too many.

        Raises CoordinatorFailed.
        """
        if self._offsets.has_room(
            count, self._config().oncelog_max_committed_offsets, asyncio.get_running_loop().time()
        ):
            return
        coordinator = await self.coordinator_of(group_id)
        if any(coordinator.machine.offsets.get(group_id, each) is None for each in partitions):
            self._metrics.limit_hit("oncelog.max.committed.offsets")
            raise CoordinatorFailed(ErrorCode.POLICY_VIOLATION)

    def _loaded_from(self, partition: LocalPartition, index: int) -> Coordinator[GroupCoordinator]:
        # The machine and its records are a quarter of what a start imports, and many a broker has no group.
        from oncelog.broker.coordinators.group_loading import group_config, machine_of, record_to_key_value

        machine = machine_of(partition, index, group_config(self._config()), self._metadata)
        coordinator: Coordinator[GroupCoordinator] = Coordinator(
            partition,
            machine,
            self._clock,
            to_key_value=record_to_key_value,
            replied=self._replied,
            performed=lambda _: timer.arm(),
            went_offline=lambda: self._resign(index, coordinator),
        )
        timer = self.timers[index] = GroupTimer(coordinator, self._steady_clock())
        machine.loaded(self.now_ms(coordinator))
        timer.arm()
        return coordinator

    def _steady_clock(self) -> SteadyClock:
        if self._steady is None:
            self._steady = SteadyClock(self._clock)
        return self._steady

    def now_ms(self, coordinator: Coordinator[GroupCoordinator]) -> int:
        """The machine's time; it is told where the wall's clock stands."""
        steady = self._steady_clock()
        coordinator.machine.clock.offset_ms = steady.wall_offset_ms()
        return steady.now_ms()

    def configs_changed(self) -> None:
        """Take over what may be altered while groups are here (`group.{consumer,streams}.assignment.interval.ms`)."""
        if not self._coordinators:
            return
        from oncelog.broker.coordinators.group_loading import group_config

        config = group_config(self._config())
        for coordinator in self._coordinators.values():
            coordinator.machine.consumer_groups.reconfigured(config)
            coordinator.machine.streams_groups.reconfigured(config)
            coordinator.machine.share_groups.reconfigured(config)

    def close(self) -> None:
        """Stop all timers, and send away everybody who waits."""
        for index, coordinator in sorted(self._coordinators.items()):
            self._resign(index, coordinator)

    def _resign(self, index: int, coordinator: Coordinator[GroupCoordinator]) -> None:
        """Nothing is decided any more, so nobody may wait for a decision."""
        self.timers[index].disarm()
        for token, reply in coordinator.machine.resigned().replies:
            self._replied(token, reply)

    # requests

    async def ask(
        self,
        group_id: str,
        decide: Decide,
        *,
        producer: ProducerIdAndEpoch | None = None,
        guard: Any = None,
    ) -> Any:
        """Decide, perform, and wait for the reply. Raises CoordinatorFailed."""
        coordinator = await self.coordinator_of(group_id)
        decision = decide(coordinator.machine, self.now_ms(coordinator))
        return await coordinator.perform(decision, producer=producer, guard=guard)

    async def ask_with_token(self, group_id: str, decide: Callable[[GroupCoordinator, int, int], Decision]) -> Any:
        """As `ask`, for requests that may be answered later: `decide` gets the token. Raises CoordinatorFailed."""
        coordinator = await self.coordinator_of(group_id)
        self._next_token += 1
        token = self._next_token
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[token] = waiting
        try:
            reply = await coordinator.perform(decide(coordinator.machine, token, self.now_ms(coordinator)))
            return reply if reply is not None else await waiting
        except asyncio.CancelledError:
            coordinator.perform(coordinator.machine.cancel(token, self.now_ms(coordinator)))
            raise
        finally:
            self._waiting.pop(token, None)

    def _replied(self, token: int, reply: Any) -> None:
        waiting = self._waiting.pop(token, None)
        if waiting is None or waiting.done():
            return
        if reply is None:
            waiting.set_exception(CoordinatorFailed(ErrorCode.NOT_COORDINATOR))
        else:
            waiting.set_result(reply)

    # what happens elsewhere

    def marker_committed(self, index: int, producer_id: int, producer_epoch: int, commit: bool) -> None:
        """A marker in a partition of `__consumer_offsets` is committed: its offsets become visible, or are gone."""
        coordinator = self.coordinator(index)
        coordinator.machine.apply_marker(producer_id, producer_epoch, commit)
        self.timers[index].arm()

    async def topic_deleted(self, topic: Topic) -> None:
        """Committed offsets of a deleted topic go with it, before anybody is told that it is gone."""
        gone = list(topic.partitions())
        removed = [coordinator.perform(coordinator.machine.partitions_deleted(gone)) for coordinator in self.loaded()]
        for each in removed:
            with contextlib.suppress(CoordinatorFailed):  # its partition is offline; a restart looks again
                await each
