"""Reading lanes: what is new of some partitions, headers and markers only; values are dropped as soon as they arrive.

Nothing but public requests of Kafka: Fetch (one answer has the bounds of a partition, too), ListOffsets for where the window
begins, DescribeProducers for what was open before it. A partition that cannot be read says so (`Lane.error`); the others are
read all the same. Budget: `bytes_max` for opening a window; where that is not enough the lane begins later and says from when.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from oncelog.client.admin.hanging import AdminHanging
from oncelog.client.admin.transaction_listing import ProducerDescription
from oncelog.client.cluster.each_leader import ask_leaders
from oncelog.client.cluster.view import TopicView
from oncelog.core.lanes.lane import Lane
from oncelog.errors import CorruptBatch, ErrorCode, KafkaError, code_name, error_for
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.record_batch import batches

FETCH_BYTES = 1 << 20
OPEN_BYTES_MAX = 64 << 20
ROUNDS_MAX = 400
LOOK_TIMEOUT_MS = 5_000
LIVE_MS = 3_000  # who was at the end so short a time ago sees new records when they come
READ_UNCOMMITTED = 0


class LaneReading:
    """Lanes of some partitions, read on with each `read`. Not for several tasks at once."""

    def __init__(
        self, admin: AdminHanging, *, bytes_max: int = OPEN_BYTES_MAX, timeout_ms: int = LOOK_TIMEOUT_MS
    ) -> None:
        self._admin = admin
        self._bytes_max = bytes_max
        self._timeout_ms = timeout_ms
        self._windows: dict[TopicPartition, int] = {}
        self._caught_up_ms: dict[TopicPartition, int] = {}
        self.lanes: dict[TopicPartition, Lane] = {}
        self.version = 0

    async def open(self, partitions: Iterable[TopicPartition], window_ms: int) -> None:
        """Begin lanes `window_ms` ago: for partitions that have none, or one of a shorter window."""
        wanted = [at for at in dict.fromkeys(partitions) if self._windows.get(at, -1) < window_ms]
        if not wanted:
            return
        admin, now_ms = self._admin, self._admin._host.clock.now_ms()
        since_ms = max(0, now_ms - window_ms)
        unreadable: dict[TopicPartition, KafkaError] = {}
        ends = await admin.list_offsets(dict.fromkeys(wanted, "latest"), unreadable=unreadable)
        left = dict.fromkeys(ends, since_ms)
        starts = await admin.list_offsets(left, unreadable=unreadable)
        for at in wanted:
            if at not in starts or at not in ends:
                self.lanes[at] = failed = Lane(at, 0, now_ms)
                self._set_error(failed, unreadable[at])
                self._windows.pop(at, None)
                continue
            first = starts[at].offset
            self.lanes[at] = Lane(at, first if first >= 0 else ends[at].offset, since_ms)
            self._windows[at] = window_ms
        await self._read_budgeted([at for at in wanted if at in self._windows], window_ms)
        await self.look_for_earlier([at for at in wanted if at in self._windows])

    def close(self, partitions: Iterable[TopicPartition]) -> None:
        """Let lanes go that nobody looks at."""
        for at in partitions:
            self.lanes.pop(at, None)
            self._windows.pop(at, None)
            self._caught_up_ms.pop(at, None)

    async def read(self, partitions: Iterable[TopicPartition] | None = None) -> bool:
        """One Fetch to each leader: whether anything was new. What cannot be read gets its `error`."""
        wanted = [at for at in (self.lanes if partitions is None else partitions) if at in self._windows]
        self.version += 1
        before = {at: self.lanes[at].next_offset for at in wanted}
        unreadable: dict[TopicPartition, KafkaError] = {}
        answers = await ask_leaders(
            self._admin._cluster,
            "read lanes",
            wanted,
            self._ask,
            unreadable=unreadable,
            timeout_ms=self._timeout_ms,
            request=FetchRequest,
        )
        now_ms = self._admin._host.clock.now_ms()
        for at, answer in answers.items():
            if not answer.error_code:
                self._take(self.lanes[at], answer, now_ms)
        await self._begin_again([at for at, answer in answers.items() if answer.error_code], unreadable)
        for at, error in unreadable.items():
            self._set_error(self.lanes[at], error)
        return any(self.lanes[at].next_offset > before[at] for at in wanted)

    async def look_for_earlier(self, partitions: Iterable[TopicPartition]) -> None:
        """Transactions that were open before their lane began: leaders know where they start, their first batch says when."""
        wanted = [at for at in partitions if at in self._windows]
        await self._take_earlier(await self._admin.describe_producers(wanted, unreadable={}))

    async def _take_earlier(self, producers: Mapping[TopicPartition, Sequence[ProducerDescription]]) -> None:
        for at, found in producers.items():
            lane = self.lanes[at]
            for each in found:
                start = each.transaction_start_offset
                if start is not None and start < lane.first_read_offset:
                    begin_ms = await self._time_at(at, start)
                    lane.began_before(
                        each.producer_id, each.producer_epoch, start, begin_ms, each.last_timestamp_ms, self.version
                    )

    async def _read_budgeted(self, partitions: list[TopicPartition], window_ms: int) -> None:
        """Up to the end, within the budget; a lane whose window is too much begins later."""
        budget = max(FETCH_BYTES, self._bytes_max // max(1, len(partitions)))
        for share in (1, 8, 64):
            for _ in range(ROUNDS_MAX):
                left = [at for at in partitions if self._is_behind(self.lanes[at], budget)]
                if not left or not await self.read(left):
                    break
            over = [at for at in partitions if self._is_behind(self.lanes[at], 1 << 62)]
            if not over:
                return
            await self._begin_later(over, window_ms // (share * 8) if share < 64 else 0)
        await self.read(partitions)

    async def _begin_later(self, partitions: list[TopicPartition], window_ms: int) -> None:
        now_ms = self._admin._host.clock.now_ms()
        unreadable: dict[TopicPartition, KafkaError] = {}
        at_time = dict.fromkeys(partitions, now_ms - window_ms) if window_ms else dict.fromkeys(partitions, "latest")
        found = await self._admin.list_offsets(at_time, unreadable=unreadable)
        for at, each in found.items():
            old = self.lanes[at]
            offset = each.offset if each.offset >= 0 else (old.high_watermark or old.next_offset)
            self.lanes[at] = lane = Lane(at, offset, now_ms - window_ms)
            lane.log_start_offset, lane.last_stable_offset = old.log_start_offset, old.last_stable_offset
            lane.high_watermark = old.high_watermark

    @staticmethod
    def _is_behind(lane: Lane, budget: int) -> bool:
        is_at_end = lane.high_watermark is not None and lane.next_offset >= lane.high_watermark
        return not is_at_end and lane.error is None and lane.bytes_read < budget

    async def _ask(
        self, node: Node, partitions: list[TopicPartition]
    ) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, KafkaError]]:
        topics: dict[str, list[FetchPartition]] = {}
        for at in partitions:
            ask = FetchPartition(
                partition=at.partition, fetch_offset=self.lanes[at].next_offset, partition_max_bytes=FETCH_BYTES
            )
            topics.setdefault(at.topic, []).append(ask)
        views = self._admin._cluster.view.topics
        message = FetchRequest(
            max_wait_ms=0,
            max_bytes=16 * FETCH_BYTES,
            isolation_level=READ_UNCOMMITTED,
            topics=[
                FetchTopic(topic=name, topic_id=_id_of(views.get(name)), partitions=p) for name, p in topics.items()
            ],
        )
        response = await self._admin._cluster.request(node, message, timeout_ms=self._timeout_ms)
        if response.error_code:
            raise error_for(response.error_code, "read lanes")
        names = {_id_of(views.get(name)): name for name in topics}
        found: dict[TopicPartition, Any] = {}
        errors: dict[TopicPartition, KafkaError] = {}
        for topic in response.responses:
            name = topic.topic or names.get(bytes(topic.topic_id), "")
            for each in topic.partitions:
                at = TopicPartition(name, each.partition_index)
                if each.error_code in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                    found[at] = each
                else:
                    cluster = self._admin._cluster
                    errors[at] = cluster.refusal(each.error_code, f"read {at}", at.topic, FetchRequest)
        return found, errors

    async def _begin_again(
        self, partitions: list[TopicPartition], unreadable: dict[TopicPartition, KafkaError]
    ) -> None:
        """Offsets out of range: records were deleted, or the topic was made anew. From the first offset that there is."""
        if partitions:
            starts = await self._admin.list_offsets(dict.fromkeys(partitions, "earliest"), unreadable=unreadable)
            for at, start in starts.items():
                self.lanes[at].skip_to(start.offset, self._admin._host.clock.now_ms())

    def _take(self, lane: Lane, answer: Any, now_ms: int) -> None:
        # Only of what comes while one looks it is known when it came.
        is_live = now_ms - self._caught_up_ms.get(lane.where, 0) < LIVE_MS
        lane.log_start_offset, lane.high_watermark = answer.log_start_offset, answer.high_watermark
        lane.last_stable_offset = answer.last_stable_offset
        lane.error, lane.error_text = None, ""
        try:
            for batch in batches(bytes(answer.records or b"")):
                batch.check_crc()
                if batch.base_offset < answer.high_watermark:
                    lane.take(batch, self.version)
                    if is_live:
                        lane.compare_clocks(batch, now_ms)
        except CorruptBatch as error:
            lane.error, lane.error_text = "CORRUPT_MESSAGE", f"damaged at offset {lane.next_offset}: {error}"
        if lane.next_offset >= answer.high_watermark:
            self._caught_up_ms[lane.where] = now_ms

    @staticmethod
    def _set_error(lane: Lane, error: KafkaError) -> None:
        root = error.__cause__ if isinstance(error.__cause__, KafkaError) else error
        lane.error, lane.error_text = code_name(root.code), root.message or str(root)

    async def _time_at(self, at: TopicPartition, offset: int) -> int | None:
        """When the batch at an offset begins; None where it cannot be read."""
        answer = await self._fetch_one(at, offset, READ_UNCOMMITTED)
        try:
            records = b"" if answer is None else bytes(answer.records or b"")
            return next((batch.base_timestamp for batch in batches(records)), None)
        except CorruptBatch:
            return None

    async def _fetch_one(self, at: TopicPartition, offset: int, isolation_level: int) -> Any:
        """A Fetch of one batch: its partition's answer; None where it cannot be had."""

        async def ask(
            node: Node, _: list[TopicPartition]
        ) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, KafkaError]]:
            view = self._admin._cluster.view.topics.get(at.topic)
            part = FetchPartition(partition=at.partition, fetch_offset=offset, partition_max_bytes=1)
            message = FetchRequest(
                topics=[FetchTopic(topic=at.topic, topic_id=_id_of(view), partitions=[part])],
                isolation_level=isolation_level,
            )
            response = await self._admin._cluster.request(node, message, timeout_ms=self._timeout_ms)
            return {at: next((each for topic in response.responses for each in topic.partitions), None)}, {}

        cluster = self._admin._cluster
        found = await ask_leaders(cluster, "read a batch", [at], ask, unreadable={}, timeout_ms=self._timeout_ms)
        return found.get(at)


def _id_of(view: TopicView | None) -> bytes:
    return bytes(16) if view is None else view.topic_id
