"""The group coordinators of this node: one per partition of `__consumer_offsets`, loaded from it.

Requests that wait (JoinGroup, SyncGroup) are futures by token; a coordinator's timer is armed anew after every decision.
Sessions run by the loop's clock: a step of the wall clock puts nobody out of a group.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

from oncelog.broker.admission.population import Population
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.coordinators.coordinator_table import CoordinatorTable
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.decision import Decision
from oncelog.core.groups.config import KAFKA_KEYS, GroupConfig
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.errors import ErrorCode
from oncelog.host.clock import Clock
from oncelog.log.newest_in_log import newest_in_log
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.consumer_offsets import record_from_key_value, record_to_key_value

_log = logging.getLogger("oncelog.groups")
NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)

Decide = Callable[[GroupCoordinator, int], Decision]


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


class Groups(CoordinatorTable[GroupCoordinator]):
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

    def may_know(self, group_id: str) -> bool:
        """Whether there may be a group of this name: there is, or its coordinator could not be loaded."""
        topic = self._metadata.topics.get(CONSUMER_OFFSETS_TOPIC)
        if topic is None:
            return False
        try:
            return self.coordinator(coordinator_partition(group_id, topic.partition_count)).machine.knows_group(
                group_id
            )
        except CoordinatorFailed:
            return True

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
        machine = GroupCoordinator(
            index,
            self._group_config(),
            topics=self._metadata,
            overrides=lambda group_id: self._metadata.group_configs.get(group_id, {}),
        )
        for part in newest_in_log(partition.log):
            if isinstance(part, dict):  # of several plain records of a key the last one counts, as after a cleaning
                _apply(machine, part.items())
                continue
            marker = part.end_txn_marker() if part.is_control else None
            if marker is not None:
                machine.apply_marker(part.producer_id, part.producer_epoch, marker.commit)
            if part.is_control:
                continue
            producer = (part.producer_id, part.producer_epoch) if part.is_transactional else NO_PRODUCER
            _apply(machine, ((stored.key, stored.value) for stored in part.records()), producer)
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

    def _group_config(self) -> GroupConfig:
        config = self._config()
        return GroupConfig(**{name: getattr(config, name) for name in KAFKA_KEYS})

    def configs_changed(self) -> None:
        """Take over what may be altered while groups are here (`group.{consumer,streams}.assignment.interval.ms`)."""
        config = self._group_config()
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
        reply = await coordinator.perform(decision, producer=producer, guard=guard)
        if not decision.records:
            await _wait_for_log(coordinator)  # what the answer rests on may still be on its way to the log
        return reply

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


def _apply(
    machine: GroupCoordinator,
    stored: Iterable[tuple[bytes | None, bytes | None]],
    producer: tuple[int, int] = NO_PRODUCER,
) -> None:
    """Take over keys and values of the log, of a transaction of `producer` where one is named."""
    for key, value in stored:
        record = record_from_key_value(key, value, producer_id=producer[0], producer_epoch=producer[1])
        if record is not None:
            machine.apply(record)


async def _wait_for_log(coordinator: Coordinator[GroupCoordinator]) -> None:
    """Wait until the log has all that the machine has taken over. Raises CoordinatorFailed."""
    if coordinator.machine.is_ahead:
        partition = coordinator.partition
        if await partition.commit(partition.log_end_offset) is not ErrorCode.NONE:
            raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR)
