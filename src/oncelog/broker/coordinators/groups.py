"""The group coordinators of this node: one per partition of `__consumer_offsets`, loaded from it.

Requests that wait (JoinGroup, SyncGroup) are futures by token; a coordinator's timer is armed anew after every decision.
Sessions run by the loop's clock: a step of the wall clock puts nobody out of a group.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from oncelog.broker.admission.population import Population
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import CoordinatorFailed, CoordinatorShell
from oncelog.broker.coordinators.coordinator_load import loading
from oncelog.broker.coordinators.load_times import LoadTimes
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
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.consumer_offsets import record_from_key_value, record_to_key_value

_log = logging.getLogger("oncelog.groups")

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


class GroupShell:
    """One coordinator with its shell and its timer; `replied` answers a request that waits."""

    def __init__(self, machine: GroupCoordinator, clock: SteadyClock, replied: Callable[[int, Any], None]) -> None:
        self.machine = machine
        self.shell: CoordinatorShell
        self._clock = clock
        self._replied = replied
        self._timer: asyncio.TimerHandle | None = None

    def now_ms(self) -> int:
        """The machine's time; it is told where the wall's clock stands."""
        self.machine.clock.offset_ms = self._clock.wall_offset_ms()
        return self._clock.now_ms()

    async def settle(self) -> None:
        """Wait until the log has all that the machine has taken over. Raises CoordinatorFailed."""
        if self.machine.consumer_groups.is_ahead:
            partition = self.shell.partition
            if await partition.commit(partition.log_end_offset) is not ErrorCode.NONE:
                raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR)

    def arm(self) -> None:
        """Set the timer to what the machine wants next."""
        self.disarm()
        due_ms = self.machine.next_timer()
        if due_ms is not None and not self.shell.partition.is_offline:
            delay_s = max(due_ms - self._clock.now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def disarm(self) -> None:
        """No timer any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def is_armed(self) -> bool:
        """Whether a timer is set."""
        return self._timer is not None

    def partition_changed(self, partition: LocalPartition) -> None:
        """Where it went offline nothing is decided any more, so nobody may wait for a decision."""
        if partition.is_offline:
            self.resign()

    def resign(self) -> None:
        """No timer any more, and everybody who waits is sent away."""
        self.disarm()
        for token, reply in self.machine.resigned().replies:
            self._replied(token, reply)

    def _ring(self) -> None:
        self._timer = None
        self.shell.perform(self.machine.handle_timer(self.now_ms()))  # which arms it again


class Groups:
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
        self._metrics = metrics
        self._metadata = metadata
        self._partitions = partitions
        self._topics = topics
        self._clock = clock
        self._steady: SteadyClock | None = None
        self._config = config
        self._shells: dict[int, GroupShell] = {}
        self.load_times = LoadTimes()
        self._members = Population(lambda: sum(each.machine.member_count for each in self._shells.values()))
        self._offsets = Population(lambda: sum(each.machine.offsets.count for each in self._shells.values()))
        self._next_token = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}

    # coordinators

    def loaded(self) -> Iterator[GroupShell]:
        """The coordinators in use, in the order of their partitions."""
        return iter([shell for _, shell in sorted(self._shells.items())])

    async def coordinator_of(self, group_id: str) -> GroupShell:
        """The coordinator of a group. Raises CoordinatorFailed."""
        try:
            topic = await self._topics.internal(CONSUMER_OFFSETS_TOPIC)
        except StorageError as error:
            raise CoordinatorFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        return self.coordinator(coordinator_partition(group_id, topic.partition_count))

    async def admit(self, group_id: str) -> None:
        """Refuse a group that nobody knows yet where there are too many. Raises CoordinatorFailed."""
        holder = await self.coordinator_of(group_id)
        if group_id in holder.machine.groups or group_id in holder.machine.consumer_groups.by_id:
            return
        if sum(len(each.machine) for each in self._shells.values()) >= self._config().oncelog_max_groups:
            self._metrics.limit_hit("oncelog.max.groups")
            raise CoordinatorFailed(ErrorCode.GROUP_MAX_SIZE_REACHED)

    async def admit_member(self, group_id: str, member_id: str, instance_id: str | None) -> None:
        """Refuse a member that nobody knows yet where there are too many, in all groups. Raises CoordinatorFailed."""
        if self._members.has_room(1, self._config().oncelog_max_group_members, asyncio.get_running_loop().time()):
            return
        holder = await self.coordinator_of(group_id)
        if not holder.machine.knows_member(group_id, member_id, instance_id):
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
        holder = await self.coordinator_of(group_id)
        if any(holder.machine.offsets.get(group_id, each) is None for each in partitions):
            self._metrics.limit_hit("oncelog.max.committed.offsets")
            raise CoordinatorFailed(ErrorCode.POLICY_VIOLATION)

    def coordinator(self, index: int) -> GroupShell:
        """The coordinator of a partition, loaded now if it is not yet. Raises CoordinatorFailed."""
        holder = self._shells.get(index)
        if holder is None:
            with self.load_times.measured():
                holder = self._shells[index] = self._load(index)
        if holder.shell.partition.is_offline:
            raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR)
        return holder

    def existing(self, index: int) -> GroupShell | None:
        """The coordinator of a partition if it is in use."""
        return self._shells.get(index)

    def _load(self, index: int) -> GroupShell:
        with loading(self._partitions, TopicPartition(CONSUMER_OFFSETS_TOPIC, index)) as partition:
            return self._loaded_from(partition, index)

    def _loaded_from(self, partition: LocalPartition, index: int) -> GroupShell:
        machine = GroupCoordinator(
            index,
            self._group_config(),
            topics=self._metadata,
            overrides=lambda group_id: self._metadata.group_configs.get(group_id, {}),
        )
        for batch in partition.log.all_batches():
            marker = batch.end_txn_marker() if batch.is_control else None
            if marker is not None:
                machine.apply_marker(batch.producer_id, batch.producer_epoch, marker.commit)
            if batch.is_control:
                continue
            producer = (batch.producer_id, batch.producer_epoch) if batch.is_transactional else (-1, -1)
            for stored in batch.records():
                record = record_from_key_value(
                    stored.key, stored.value, producer_id=producer[0], producer_epoch=producer[1]
                )
                if record is not None:
                    machine.apply(record)
        if self._steady is None:
            self._steady = SteadyClock(self._clock)
        holder = GroupShell(machine, self._steady, self._replied)
        machine.loaded(holder.now_ms())
        holder.shell = CoordinatorShell(
            partition,
            machine,
            self._clock,
            to_key_value=record_to_key_value,
            replied=self._replied,
            performed=holder.arm,
        )
        partition.watch(holder)
        holder.arm()
        return holder

    def _group_config(self) -> GroupConfig:
        config = self._config()
        return GroupConfig(**{name: getattr(config, name) for name in KAFKA_KEYS})

    def load_all(self) -> None:
        """Load every coordinator whose partition holds something."""
        for partition in self._partitions:
            if partition.name.topic == CONSUMER_OFFSETS_TOPIC and partition.log_end_offset > 0:
                with contextlib.suppress(CoordinatorFailed):  # it is offline and has said why
                    self.coordinator(partition.name.partition)

    def close(self) -> None:
        """Stop all timers, and send away everybody who waits."""
        for holder in self.loaded():
            holder.resign()

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
        holder = await self.coordinator_of(group_id)
        decision = decide(holder.machine, holder.now_ms())
        reply = await holder.shell.perform(decision, producer=producer, guard=guard)
        if not decision.records:
            await holder.settle()  # what the answer rests on may still be on its way to the log
        return reply

    async def ask_with_token(self, group_id: str, decide: Callable[[GroupCoordinator, int, int], Decision]) -> Any:
        """As `ask`, for requests that may be answered later: `decide` gets the token. Raises CoordinatorFailed."""
        holder = await self.coordinator_of(group_id)
        self._next_token += 1
        token = self._next_token
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[token] = waiting
        try:
            reply = await holder.shell.perform(decide(holder.machine, token, holder.now_ms()))
            return reply if reply is not None else await waiting
        except asyncio.CancelledError:
            holder.shell.perform(holder.machine.cancel(token, holder.now_ms()))
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
        holder = self.coordinator(index)
        holder.machine.apply_marker(producer_id, producer_epoch, commit)
        holder.arm()

    async def topic_deleted(self, topic: Topic) -> None:
        """Committed offsets of a deleted topic go with it, before anybody is told that it is gone."""
        gone = list(topic.partitions())
        removed = [holder.shell.perform(holder.machine.partitions_deleted(gone)) for holder in self.loaded()]
        for each in removed:
            with contextlib.suppress(CoordinatorFailed):  # its partition is offline; a restart looks again
                await each
