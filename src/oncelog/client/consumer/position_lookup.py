"""Where partitions without a position begin: what their group stored, else what auto_offset_reset says.

Mixed into `Consumer`. A look is a task: it outlives the poll that began it, for a leader may be further away than a poll is
long. A position that is given meanwhile (`seek`, another assignment) stays: a look fills only the place it was begun for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from typing import Any

from oncelog.client.backoff import Deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.each_leader import LOOKS, Unreadable
from oncelog.client.cluster.offset_lookup import LATEST, FoundOffset
from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.fetcher import Fetcher
from oncelog.client.consumer.positions import Position, Positions
from oncelog.client.consumer.reset import reset_timestamp
from oncelog.core.consumer.transaction_order import OrderPosition
from oncelog.errors import KafkaError, OffsetOutOfRange, RequestTimedOut
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("oncelog.client.consumer")


@dataclass(frozen=True, slots=True)
class Look:
    """For these partitions; `unreadable` says of which it found nothing, and why."""

    partitions: Sequence[TopicPartition]
    unreadable: dict[TopicPartition, KafkaError] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FailedLook:
    """Why partitions have no place, and what they had instead: a seek, or another assignment, is looked at anew."""

    error: KafkaError
    places: Mapping[TopicPartition, tuple[Position, int]]

    def is_of(self, positions: Mapping[TopicPartition, Position], partitions: Sequence[TopicPartition]) -> bool:
        """Whether it says why none of these has a place."""
        now = ((self.places.get(each), positions[each]) for each in partitions)
        return all(then is not None and then[0] is at and then[1] == at.version for then, at in now)


class PositionLookup:
    """Mixed into a consumer."""

    # what the consumer has
    _config: ConsumerConfig
    _cluster: Cluster
    _positions: Positions
    _fetcher: Fetcher
    _looks: dict[asyncio.Task[None], Look]
    _failed_look: FailedLook | None
    _missing: set[str]
    _next_lookup_ms: float
    _place: Callable[[TopicPartition], Position]
    _count_of: Callable[[str], int | None]
    _tell_missing: Callable[[set[str]], None]
    _lookup: Callable[..., Coroutine[Any, Any, dict[TopicPartition, FoundOffset]]]
    _look_for_places: Callable[..., Coroutine[Any, Any, dict[TopicPartition, FoundOffset]]]
    committed: Callable[..., Coroutine[Any, Any, dict[TopicPartition, OffsetAndMetadata]]]

    async def position(self, partition: TopicPartition) -> int:
        """The offset of the next record of an assigned partition; with order="transaction" the one from which it would be
        read again (`current_positions` has both numbers). Raises IllegalState, OffsetOutOfRange, RequestTimedOut ..."""
        position, topic_partition = self._place(partition), TopicPartition(*partition)
        deadline = Deadline(self._config.default_api_timeout_ms, f"find the position of {topic_partition}")
        while position.offset is None:
            if not deadline.left_ms:
                raise deadline.passed()
            under_way = [
                task for task, look in self._looks.items() if topic_partition in look.partitions and not task.done()
            ]
            if under_way:  # a poll's, which may find it; two at once would take each other's place
                await asyncio.wait(under_way, timeout=deadline.left_ms / 1000)
            else:
                await self._find_positions([topic_partition], timeout_ms=deadline.left_ms)
            position = self._place(partition)  # it may have been given away meanwhile
        return position.offset if position.order is None else position.order.restart_offset

    async def _look_for_positions(self, ends: float) -> None:
        """Find where partitions without a position begin. One that cannot be had now holds up none that has a position: it
        is looked for again after a while, in one look. A look outlives its poll: a leader may be further away than that."""
        unknown = self._positions.without_offset()
        others_wait = len(unknown) < len(self._positions.by_partition)
        under_way = {tp for look in self._looks.values() for tp in look.partitions}
        missing = [tp for tp in unknown if tp not in under_way]
        if missing and not others_wait and self._failed_again(missing):
            if asyncio.get_running_loop().time() < ends:
                return  # who polls on and on asks about once a second
            await asyncio.sleep(0)  # who polls without waiting lets others go on their way
            assert self._failed_look is not None
            raise self._failed_look.error
        if missing and not (others_wait and self._cluster.now_ms() < self._next_lookup_ms):
            look = Look(missing)
            work = self._find_positions(missing, unreadable=look.unreadable, looks=1 if others_wait else LOOKS)
            task = self._cluster.tasks.start(work, name="oncelog-positions")
            task.add_done_callback(lambda _: self._fetcher.arrived.set())
            self._looks[task] = look
        if self._looks and not others_wait:
            left_s = max(ends - asyncio.get_running_loop().time(), 0.0)
            await asyncio.wait(self._looks, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        for task in [each for each in self._looks if each.done()]:
            self._take_look(task, self._looks.pop(task))

    def _failed_again(self, partitions: Sequence[TopicPartition]) -> bool:
        """Whether these were looked for a moment ago, in vain, and nothing was said of them since."""
        failed, now_ms = self._failed_look, self._cluster.now_ms()
        return (
            failed is not None
            and now_ms < self._next_lookup_ms
            and failed.is_of(self._positions.by_partition, partitions)
        )

    def _take_look(self, task: asyncio.Task[None], look: Look) -> None:
        if task.cancelled():
            return  # with the consumer
        failure: KafkaError | None = None
        try:
            task.result()
        except RequestTimedOut as error:
            log.debug("%s", error)  # the next poll goes on with it
        except KafkaError as error:
            failure = error
        if self._positions.without_offset():
            self._next_lookup_ms = self._cluster.now_ms() + self._config.retry_backoff_max_ms
            failure = failure or next((each for each in look.unreadable.values() if not each.retriable), None)
        if failure is not None:
            now = self._positions.by_partition
            self._failed_look = FailedLook(
                failure, {each: (now[each], now[each].version) for each in look.partitions if each in now}
            )
            raise failure
        if self._positions.without_offset():
            self._tell_missing({each.topic for each in self._positions.without_offset()})
            self._tell_unreadable(look.unreadable)

    def _tell_unreadable(self, unreadable: Mapping[TopicPartition, KafkaError]) -> None:
        """As `_tell_missing`, of partitions of topics that are there."""
        for each, reason in unreadable.items():
            count = self._count_of(each.topic)
            if count is None or str(each) in self._missing:
                continue
            self._missing.add(str(each))
            if each.partition >= count:
                log.warning("topic %r has %d partitions; %s is read when it is added", each.topic, count, each)
            else:
                log.warning("%s cannot be read now, and is asked for again: %s", each, reason)

    async def _find_positions(
        self,
        partitions: Sequence[TopicPartition],
        *,
        timeout_ms: int | None = None,
        unreadable: Unreadable | None = None,
        looks: int = LOOKS,
    ) -> None:
        limit_ms = self._config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = Deadline(limit_ms, "find positions")  # of all the lookups together
        now = self._positions.by_partition
        held = {tp: (now[tp], now[tp].version) for tp in partitions if tp in now}  # given away before this task began
        unknown = [tp for tp, (position, _) in held.items() if position.reset_to is None]
        committed: Mapping[TopicPartition, OffsetAndMetadata] = {}
        if unknown and self._config.group_id is not None:
            committed = await self.committed(unknown, timeout_ms=deadline.request_timeout_ms(limit_ms))
        resets: dict[TopicPartition, int] = {}
        for topic_partition, (position, version) in held.items():
            if self._positions.by_partition.get(topic_partition) is not position or position.version != version:
                continue  # given away, or sent elsewhere meanwhile
            if position.reset_to is not None:
                resets[topic_partition] = position.reset_to
            elif topic_partition in committed:
                stored = committed[topic_partition]
                resume_at = OrderPosition.from_metadata(stored.metadata)
                position.jump(stored.offset, resume=resume_at, topic_id=stored.topic_id)
            elif (reset_to := reset_timestamp(self._cluster, self._config)) is None:
                raise OffsetOutOfRange(f"{topic_partition} has no position and auto_offset_reset is none: call seek")
            else:  # kept: where the time is over before the lookup, the next poll goes on with it
                position.jump(None, reset_to=reset_to)
                resets[topic_partition] = reset_to
        versions = {tp: held[tp][0].version for tp in resets}
        resume = await self._order_at_the_end(
            resets, timeout_ms=deadline.request_timeout_ms(limit_ms), unreadable=unreadable, looks=looks
        )
        lookup = self._look_for_places(
            {tp: reset_to for tp, reset_to in resets.items() if tp not in (unreadable or ())},
            timeout_ms=deadline.request_timeout_ms(limit_ms),
            unreadable=unreadable,
            looks=looks,
        )
        for topic_partition, found in (await lookup).items():
            later = held[topic_partition][0]
            is_ours = self._positions.by_partition.get(topic_partition) is later
            if is_ours and later.version == versions[topic_partition] and later.offset is None:
                later.jump(found.offset, resume=resume.get(topic_partition), topic_id=found.topic_id)
        self._fetcher.wake()

    async def _order_at_the_end(
        self, resets: Mapping[TopicPartition, int], **bounds: Any
    ) -> dict[TopicPartition, OrderPosition]:
        """Transaction order from "latest": what is committed from now on, so open transactions are read from their start."""
        if self._config.order != "transaction":
            return {}
        latest = {tp: LATEST for tp, reset_to in resets.items() if reset_to == LATEST}
        ends = await self._lookup(latest, isolation_level="read_uncommitted", **bounds)
        return {tp: OrderPosition(found.offset) for tp, found in ends.items()}
