"""One record after another: `async for`, and records lent to another thread, which `oncelog.sync` hands out there.

Mixed into `Consumer`. Group, errors and other partitions are looked at from time to time, not for each record. A batch's last
record is never handed out here: who does that steps over what is hidden behind it, and fetches on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.deserializing import Decode
from oncelog.client.consumer.fetcher import Fetcher
from oncelog.client.consumer.group import InHand
from oncelog.client.consumer.handing_out import hand_out, reached
from oncelog.client.consumer.positions import Position, Positions
from oncelog.client.interceptors import ConsumerInterceptor
from oncelog.client.records import ConsumerRecord
from oncelog.errors import IllegalState, KafkaError
from oncelog.types import OffsetAndMetadata, TopicPartition

LOOK_AROUND_MS = 20  # a look at the group, at errors and at other partitions at least as often
LOOK_TIMEOUT_MS = 1000  # how long one waits for records before the next
LENT_RECORDS_MAX = 1000

Taking = Callable[[], tuple[list[ConsumerRecord], bool]]


class Lent:
    """Records at hand, lent to other threads: each one is taken by one of them or taken back by the loop's, never both.

    Without a lock: what decides is who removes it, the ones from the front, the other from the end.
    """

    def __init__(
        self,
        position: Position,
        records: list[ConsumerRecord],
        place: range,
        *,
        until_s: float,
        decode: Decode | None,
        poll_records_max: int,
    ) -> None:
        self.position, self.version, self.records, self.place = position, position.version, records, place
        self.is_over = False
        self._may_take = True
        # A timer of the loop's says that it is time to look around: to ask a clock for each record costs a fifth of a record.
        self._timer = asyncio.get_running_loop().call_at(until_s, self._is_due)
        self._polled_offsets: set[int] = set()  # the last one of each `poll`; what was taken otherwise is in hand
        self._left = deque(records[place.start : place.stop])
        self._decode, self._poll_records_max = decode, poll_records_max

    def take(self) -> ConsumerRecord | None:
        """The next one; None where the loop has to be asked. Raises what a deserializer raises; the record stays."""
        if not self._may_take:
            return None
        try:
            record = self._left.popleft()
        except IndexError:
            return None
        return record if self._decode is None else self._decoded(record)

    def take_many(self, count_max: int | None) -> list[ConsumerRecord]:
        """What a `poll` gives, as far as it is lent; none where the loop has to be asked."""
        taken: list[ConsumerRecord] = []
        if not self._may_take:
            return taken
        decode, popleft = self._decode, self._left.popleft
        try:
            while len(taken) < (count_max or self._poll_records_max):
                try:
                    record = popleft()
                except IndexError:
                    break
                taken.append(record if decode is None else self._decoded(record))
        except BaseException as error:  # a deserializer's, met again by the next call
            if not taken:
                raise
            if not isinstance(error, Exception):
                self._put_back(taken)
                raise
        if taken:
            self._polled_offsets.add(taken[-1].offset)
        return taken

    def _put_back(self, taken: list[ConsumerRecord]) -> None:
        """They did not come to the application; as they are, without what a deserializer made of them."""
        offsets = {record.offset for record in taken}
        self._left.extendleft(record for record in reversed(self.records) if record.offset in offsets)

    def _is_due(self) -> None:
        self._may_take = False

    def _decoded(self, record: ConsumerRecord) -> ConsumerRecord:
        assert self._decode is not None
        try:
            return self._decode(record)
        except BaseException:
            self._left.appendleft(record)
            raise

    def end(self) -> int:
        """Take back what nobody took; how many were taken."""
        self.is_over, self._may_take, left = True, False, 0
        self._timer.cancel()
        while self._left:
            try:
                self._left.pop()
            except IndexError:
                break
            left += 1
        return len(self.place) - left

    def is_in_hand(self, offset: int) -> bool:
        """Whether this record, the last one taken, may not be through yet: `poll` gives its records away, and has said so."""
        return offset not in self._polled_offsets


class Iteration:
    """Mixed into a consumer."""

    # what the consumer has
    _config: ConsumerConfig
    _cluster: Cluster
    _positions: Positions
    _fetcher: Fetcher
    _is_stopped: bool
    is_woken: bool
    _assigned_by_hand: bool
    _failure: KafkaError | None
    _in_hand: InHand | None
    _interceptors: tuple[ConsumerInterceptor, ...]
    _delivered_record_count: int
    _next_look_around_ms: float
    _poll: Callable[[int, Taking], Coroutine[Any, Any, list[Any] | None]]
    _take: Callable[[int], tuple[list[ConsumerRecord], bool]]
    poll: Callable[[int, int | None], Coroutine[Any, Any, list[ConsumerRecord]]]
    current_positions: Callable[[], dict[TopicPartition, OffsetAndMetadata]]

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConsumerRecord:
        record = self._next_at_hand()
        return record if record is not None else await self._next_after_a_look()

    def _next_at_hand(self) -> ConsumerRecord | None:
        """The record behind the last one, where that takes no look at group, errors and what else a `poll` looks at."""
        hand, self._in_hand = self._in_hand, None  # the application is through with it
        if hand is None or self._cluster.now_ms() >= self._next_look_around_ms:
            return None
        if self._is_stopped or self._failure is not None or self.is_woken:
            return None
        position, records = hand.position, hand.position.decoded  # None where it was given away, or sought
        if records is None or position.decoded_index + 1 >= len(records) or position.is_paused:
            return None
        taken: list[ConsumerRecord] = []
        assert position.offset is not None
        try:
            hand_out(position, position.offset, taken, 1, self._fetcher.decode)
        finally:
            position.offset = reached(position, position.offset)
        if not taken:
            return None
        record = taken[0]
        self._delivered_record_count += 1
        hand.version, hand.offset = position.version, record.offset
        self._in_hand = hand
        return record

    async def _next_after_a_look(self) -> ConsumerRecord:
        self._in_hand = None
        before: dict[TopicPartition, OffsetAndMetadata] = {}
        is_in_order = self._config.order == "transaction"

        def take_one() -> tuple[list[ConsumerRecord], bool]:
            if is_in_order:  # else the record's offset is the place before it
                before.update(self.current_positions())
            return self._take(1)

        while True:
            if self._assigned_by_hand and not self._positions.by_partition and not self._is_stopped:
                raise IllegalState("there is nothing to read any more: it was unsubscribed, or nothing is assigned")
            try:
                records: list[ConsumerRecord] | None = await self._poll(LOOK_TIMEOUT_MS, take_one)
            except IllegalState:
                if self._is_stopped:
                    raise StopAsyncIteration from None
                raise
            if records:
                record = records[0]
                place, position = record.topic_partition, self._positions.of(record.topic_partition)
                self._in_hand = InHand(place, position, position.version, record.offset, before.get(place))
                self._looked_around()
                return record

    def _looked_around(self) -> None:
        may_go_on = not (self._config.order == "transaction" or self._interceptors)
        self._next_look_around_ms = self._cluster.now_ms() + (LOOK_AROUND_MS if may_go_on else 0)

    # -- for another thread

    lent: Lent | None = None
    """What `oncelog.sync` hands out without asking the loop."""

    async def next_and_lend(self) -> ConsumerRecord:
        """`__anext__`, and what is at hand behind it is lent."""
        record = await self.__anext__()
        self._lend()
        return record

    async def poll_and_lend(self, timeout_ms: int, max_records: int | None) -> list[ConsumerRecord]:
        """`poll`, and what is at hand behind that is lent."""
        records = await self.poll(timeout_ms, max_records)
        if records:
            self._looked_around()
            self._lend()
        return records

    def _lend(self) -> None:
        if self.lent is not None:  # by another thread's call: those records are handed out first
            return
        position = next((each for each in self._positions.by_partition.values() if each.is_in_front), None)
        if position is None or position.decoded is None or self._cluster.now_ms() >= self._next_look_around_ms:
            return
        start, records = position.decoded_index, position.decoded
        while start < len(records) and records[start].offset < (position.offset or 0):
            start += 1
        place = range(start, min(len(records) - 1, start + LENT_RECORDS_MAX))
        if place:
            self.lent = Lent(
                position,
                records,
                place,
                until_s=self._next_look_around_ms / 1000,
                decode=self._fetcher.decode,
                poll_records_max=self._config.max_poll_records,
            )

    def take_back(self) -> None:
        """Before anything else is done with the consumer: positions are those of what was handed out, wherever that was."""
        lent, self.lent = self.lent, None
        count = 0 if lent is None else lent.end()
        if lent is None or not count:
            return
        self._delivered_record_count += count
        position, self._in_hand = lent.position, None
        if position.version != lent.version or position.decoded is not lent.records:
            return  # it was reset or given away meanwhile
        position.decoded_index = lent.place.start + count
        last = lent.records[position.decoded_index - 1]
        position.offset = reached(position, last.offset)
        if lent.is_in_hand(last.offset):
            self._in_hand = InHand(last.topic_partition, position, position.version, last.offset)

    def polled(self, record: ConsumerRecord) -> None:
        """A `poll` took it while the loop took back what was lent: it is not in hand, as that had to think."""
        hand = self._in_hand
        if hand is not None and (hand.topic_partition, hand.offset) == (record.topic_partition, record.offset):
            self._in_hand = None
