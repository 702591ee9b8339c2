"""Reading lanes of a time that is over: the window around a moment, and behind it for what became of what was open.

ListOffsets says where the window lies in the log, by the times of the records. What began before it: DescribeProducers knows what
is open to this day, a read_committed Fetch names what was aborted, with its first offset; the marker of anything else is found
by reading on. Budgets: `bytes_max` and `OPEN_TIMEOUT_MS` in all; a lane whose way to the moment is too much begins nearer to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

from oncelog.client.admin import lane_reading
from oncelog.client.admin.hanging import AdminHanging
from oncelog.client.admin.lane_reading import LOOK_TIMEOUT_MS, OPEN_BYTES_MAX, LaneReading
from oncelog.core.lanes.past import PastLane, Window
from oncelog.errors import KafkaError
from oncelog.types import TopicPartition

OPEN_TIMEOUT_MS = 30_000
BEHIND_BYTES_MAX = 16 << 20  # read behind the window, for what ended there
READ_COMMITTED = 1


class PastReading(LaneReading):
    """`lanes` of a window, once."""

    def __init__(
        self, admin: AdminHanging, *, bytes_max: int = OPEN_BYTES_MAX, timeout_ms: int = LOOK_TIMEOUT_MS
    ) -> None:
        super().__init__(admin, bytes_max=bytes_max, timeout_ms=timeout_ms)
        self._deadline_ms = 0
        self._ends: dict[TopicPartition, int] = {}

    async def open_past(self, partitions: Iterable[TopicPartition], window: Window) -> dict[TopicPartition, PastLane]:
        """Lanes as they were at the moment; what cannot be read says so (`Lane.error`)."""
        wanted = list(dict.fromkeys(partitions))
        self._deadline_ms = self._now_ms() + OPEN_TIMEOUT_MS
        unreadable: dict[TopicPartition, KafkaError] = {}
        found = await self._offsets(
            wanted, ("earliest", "latest", window.from_ms, window.at_ms, window.to_ms), unreadable
        )
        self._ends = {at: each[1] for at, each in found.items()}
        lanes: dict[TopicPartition, PastLane] = {}
        for at in wanted:
            if at in found:
                _, _, begin, moment, end = found[at]
                lanes[at] = PastLane(at, begin, window, max(begin, moment), max(begin, moment, end))
            else:
                lanes[at] = PastLane(at, 0, window, 0, 0)
                self._set_error(lanes[at], unreadable[at])
        self._take_over(lanes)
        await self._look_before([at for at in wanted if at in found])
        await self._to_the_moment(list(found), window)
        await self._behind(list(found))
        for at, (start, *_) in found.items():
            self._finish(self._past(at), start, window)
        return {at: self._past(at) for at in wanted}

    def _now_ms(self) -> int:
        return self._admin._host.clock.now_ms()

    def _past(self, at: TopicPartition) -> PastLane:
        lane = self.lanes[at]
        assert isinstance(lane, PastLane)
        return lane

    def _take_over(self, lanes: Mapping[TopicPartition, PastLane]) -> None:
        for at, lane in lanes.items():
            self.lanes[at] = lane
            if lane.error is None:
                self._windows[at] = 0

    async def _offsets(
        self,
        wanted: list[TopicPartition],
        times: Iterable[str | int],
        unreadable: dict[TopicPartition, KafkaError],
    ) -> dict[TopicPartition, list[int]]:
        """Where these times are in the log; behind the last record it is the log's end."""
        found: dict[TopicPartition, list[int]] = {at: [] for at in wanted}
        for time in times:
            left = [at for at in wanted if at not in unreadable]
            for at, each in (await self._admin.list_offsets(dict.fromkeys(left, time), unreadable=unreadable)).items():
                found[at].append(each.offset)
        known = {at: each for at, each in found.items() if at not in unreadable}
        return {at: [start, end, *(end if n < 0 else n for n in more)] for at, (start, end, *more) in known.items()}

    async def _look_before(self, partitions: list[TopicPartition]) -> None:
        """What was open before the lanes begin, as far as anybody knows."""
        if not partitions:
            return
        unreadable: dict[TopicPartition, KafkaError] = {}
        producers = await self._admin.describe_producers(partitions, unreadable=unreadable)
        for at, described in producers.items():
            starts = {each.producer_id: each.transaction_start_offset for each in described}
            self._past(at).open_now = {each: start for each, start in starts.items() if start is not None}
        await self._take_earlier(producers)
        for at in partitions:
            lane = self._past(at)
            answer = await self._fetch_one(at, lane.next_offset, READ_COMMITTED)
            lane.is_before_known = at not in unreadable and answer is not None and not answer.error_code
            for each in () if answer is None else answer.aborted_transactions or ():
                if each.first_offset < lane.first_read_offset:
                    lane.aborted.add((each.producer_id, each.first_offset))
                    begin_ms = await self._time_at(at, each.first_offset)
                    lane.began_before(each.producer_id, -1, each.first_offset, begin_ms, begin_ms or 0)

    async def _to_the_moment(self, partitions: list[TopicPartition], window: Window) -> None:
        budget = max(lane_reading.FETCH_BYTES, self._bytes_max // 4 // max(1, len(partitions)))
        for share in (8, 64, 0):
            await self._read_to({at: (self._past(at).at_offset, budget) for at in partitions})
            over = [at for at in partitions if not self.lanes[at].error and self._left(at, self._past(at).at_offset)]
            if not over or self._now_ms() >= self._deadline_ms:
                return
            from_ms = window.at_ms - ((window.at_ms - window.from_ms) // share if share else 0)
            await self._begin_nearer(over, dataclasses.replace(window, from_ms=from_ms))

    async def _begin_nearer(self, partitions: list[TopicPartition], window: Window) -> None:
        found = await self._offsets(partitions, ("earliest", "latest", window.from_ms), {})
        lanes = {}
        for at, (_, _, begin) in found.items():
            old = self._past(at)
            lanes[at] = PastLane(at, min(begin, old.guess), window, old.guess, old.end_offset)
        self._take_over(lanes)
        await self._look_before(list(lanes))

    async def _behind(self, partitions: list[TopicPartition]) -> None:
        """To the window's end, and on for what ended behind it."""
        count = max(1, len(partitions))
        budget = max(lane_reading.FETCH_BYTES, self._bytes_max // 2 // count)
        await self._read_to(
            {at: (max(self._past(at).end_offset, self._past(at).at_offset), budget) for at in partitions}
        )
        more = max(lane_reading.FETCH_BYTES, min(BEHIND_BYTES_MAX, self._bytes_max // 4) // count)
        await self._read_to({at: (self._ends[at], self.lanes[at].bytes_read + more) for at in partitions})

    async def _read_to(self, wanted: Mapping[TopicPartition, tuple[int, int]]) -> None:
        """Each lane to an offset, within its bytes and all of them in time."""
        while self._now_ms() < self._deadline_ms:
            left = [
                at
                for at, (target, bytes_max) in wanted.items()
                if not self.lanes[at].error and self._left(at, target) and self.lanes[at].bytes_read < bytes_max
            ]
            if not left or not await self.read(left):
                return

    def _left(self, at: TopicPartition, target: int) -> bool:
        return self.lanes[at].next_offset < target

    def _finish(self, lane: PastLane, log_start: int, window: Window) -> None:
        lane.is_read_to_end = lane.error is None and not self._left(lane.where, self._ends[lane.where])
        lane.log_start_offset = log_start
        lane.finish()
        is_cut = log_start > 0 and lane.first_read_offset <= log_start
        if lane.error is None and is_cut:
            lane.was_deleted(window.at_ms)
