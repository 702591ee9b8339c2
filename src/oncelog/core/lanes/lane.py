"""One partition's lane: batches in log order become spans, one for each transaction on the partition.

A transaction is paired with its marker by producer id in log order, not by producer epoch: since KIP-890 the marker carries the
transaction's producer epoch + 1. A marker without data before it ended a transaction that began before the reading: its span
has no beginning. Times are those of the batches: the producers', unless the topic says LogAppendTime. Markers have the time of
the leader: what lies behind one was not written seconds before it, and what lies before one not after it.
Rule: memory is bounded, and what was let go is told (`complete_from_ms`).
"""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import field

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch

SPANS_MAX = 5_000  # for each lane; the oldest go first
TICKS_MAX = 40  # batches of an open transaction that are told one by one
MARKS_MAX = 20_000
CLOCK_MS = 5_000  # times that differ more from their arrival are told

OPEN, COMMITTED, ABORTED = "open", "committed", "aborted"


@dataclass(slots=True)
class Span:
    """A transaction on one partition. Offsets are inclusive; times in ms since 1970.

    `first_offset`, `begin_ms`: None where it began before the reading. `record_count` counts what was read, all of it only if
    `is_whole`; `is_begin_known`: nothing of it lies before the first batch that was read. `ticks` are the times of its last
    batches. `marker_*` and `end_ms` are None while it is open. `version` is that of the reading that changed it last; `count` is
    more than 1 where several were drawn as one.
    """

    producer_id: int
    producer_epoch: int
    first_offset: int | None
    last_offset: int | None
    begin_ms: int | None
    last_ms: int
    record_count: int = 0
    size_bytes: int = 0
    is_whole: bool = True
    is_begin_known: bool = True
    outcome: str = OPEN
    marker_offset: int | None = None
    marker_epoch: int | None = None
    end_ms: int | None = None
    ticks: list[int] = field(default_factory=list)
    version: int = 0
    count: int = 1


class Lane:
    """What was read of a partition. Offsets are None before the first answer.

    `complete_from_ms`: nothing that happened since is missing. `error`: Kafka's name of why it cannot be read (now).
    """

    def __init__(self, where: TopicPartition, next_offset: int, complete_from_ms: int) -> None:
        self.where = where
        self.next_offset = next_offset
        self.complete_from_ms = complete_from_ms
        self.log_start_offset: int | None = None
        self.last_stable_offset: int | None = None
        self.high_watermark: int | None = None
        self.error: str | None = None
        self.error_text = ""
        self.bytes_read = 0
        self.open: dict[int, Span] = {}
        self.done: deque[Span] = deque()
        self.plain: deque[tuple[int, int, int, int]] = deque(maxlen=SPANS_MAX)  # version, offset, ms, records
        self.clock_off: tuple[int, int, int] | None = None
        """The last batch whose times were far from its arrival: when it came, its producer id, its time minus that."""
        self.first_read_offset = next_offset
        self._marker_ms: int | None = None
        self._marks: deque[tuple[int, int]] = deque(maxlen=MARKS_MAX)  # (offset, ms): where a position is in time

    def take(self, batch: RecordBatch, version: int = 0) -> None:
        """The next batch, in log order; one that was taken already is passed over (a Fetch may begin inside a batch)."""
        if batch.last_offset < self.next_offset:
            return
        self.next_offset = batch.end_offset
        self.bytes_read += batch.size_bytes
        self._marks.append((batch.base_offset, batch.max_timestamp))
        if batch.is_control:
            self._take_control(batch, version)
        elif batch.is_transactional:
            self._take_data(batch, version)
        else:
            self.plain.append((version, batch.base_offset, batch.max_timestamp, batch.record_count))

    def _take_data(self, batch: RecordBatch, version: int) -> None:
        span = self.open.get(batch.producer_id)
        if span is None:
            begin_ms = batch.base_timestamp
            if self._marker_ms is not None and begin_ms < self._marker_ms - CLOCK_MS:
                begin_ms = self._marker_ms
            span = self.open[batch.producer_id] = Span(
                batch.producer_id, batch.producer_epoch, batch.base_offset, None, begin_ms, batch.base_timestamp
            )
        span.producer_epoch = batch.producer_epoch
        span.last_offset, span.last_ms = batch.last_offset, batch.max_timestamp
        span.record_count += batch.record_count
        span.size_bytes += batch.size_bytes
        span.ticks = [*span.ticks[1 - TICKS_MAX :], batch.max_timestamp]
        span.version = version

    def _take_control(self, batch: RecordBatch, version: int) -> None:
        marker = batch.end_txn_marker()
        if marker is None:  # a control record of another kind ends nothing
            return
        at = self._marker_ms = batch.max_timestamp
        span = self.open.pop(batch.producer_id, None)
        if span is None:
            span = Span(batch.producer_id, batch.producer_epoch, None, None, None, at, is_whole=False)
        if span.begin_ms is not None and span.begin_ms > at + CLOCK_MS:
            span.begin_ms = at
        span.outcome = COMMITTED if marker.commit else ABORTED
        span.marker_offset, span.marker_epoch, span.end_ms = batch.base_offset, batch.producer_epoch, at
        span.version, span.ticks = version, []
        self.done.append(span)
        while len(self.done) > SPANS_MAX:
            self.complete_from_ms = max(self.complete_from_ms, self.done.popleft().end_ms or 0)

    def began_before(
        self,
        producer_id: int,
        producer_epoch: int,
        start_offset: int,
        begin_ms: int | None,
        last_ms: int,
        version: int = 0,
    ) -> None:
        """A transaction that its leader has open since before the reading began, at `start_offset`."""
        if start_offset >= self.first_read_offset:
            return  # it is read by itself
        span = self.open.get(producer_id)
        if span is None:
            self.open[producer_id] = Span(
                producer_id, producer_epoch, start_offset, None, begin_ms, last_ms, is_whole=False, version=version
            )
        elif span.first_offset is not None and span.first_offset > start_offset:
            span.first_offset, span.begin_ms, span.is_whole, span.version = start_offset, begin_ms, False, version

    def skip_to(self, offset: int, now_ms: int) -> None:
        """What lies before `offset` is gone (deleted) or is not read: nothing is known of what it left open."""
        self.next_offset = self.first_read_offset = offset
        self.complete_from_ms = now_ms
        self.open.clear()

    def forget_before(self, since_ms: int) -> None:
        """Let go what ended before the window."""
        while self.done and (self.done[0].end_ms or 0) < since_ms:
            self.done.popleft()
        while self.plain and self.plain[0][2] < since_ms:
            self.plain.popleft()

    def time_of(self, offset: int) -> int | None:
        """When what lies at an offset was written; None where it was before the reading, or nothing was read."""
        if not self._marks or offset < self.first_read_offset:
            return None
        index = bisect.bisect_left(self._marks, (offset, 0))
        return self._marks[min(index, len(self._marks) - 1)][1]

    def offset_at(self, at_ms: int) -> int | None:
        """The first offset of a batch that is not older; None where all are, or nothing was read."""
        index = bisect.bisect_left(self._marks, at_ms, key=lambda mark: mark[1])
        return self._marks[index][0] if index < len(self._marks) else None

    def compare_clocks(self, batch: RecordBatch, arrived_ms: int) -> None:
        """Of a batch that has just come: whether its times are those of its arrival."""
        off_ms = batch.max_timestamp - arrived_ms
        if not batch.is_control and batch.max_timestamp >= 0 and abs(off_ms) > CLOCK_MS:
            self.clock_off = arrived_ms, batch.producer_id, off_ms

    @property
    def blocked(self) -> int:
        """How many offsets lie behind the last stable offset."""
        if self.high_watermark is None or self.last_stable_offset is None:
            return 0
        return max(0, self.high_watermark - self.last_stable_offset)

    @property
    def holder(self) -> Span | None:
        """The open transaction that begins first: the last stable offset is its first offset. Nobody where nothing is blocked."""
        if not self.blocked:
            return None
        return min(self.open.values(), key=lambda each: each.first_offset or 0, default=None)


def merged(spans: Iterable[Span], gap_ms: float) -> list[Span]:
    """Ended spans of one lane with those of one producer joined that are closer than `gap_ms`: nothing is dropped, the worst
    outcome is kept, `count` says how many are in it. In the order in which they end."""
    last: dict[int, Span] = {}
    found: list[Span] = []
    for each in spans:
        before = last.get(each.producer_id)
        begin_ms = each.last_ms if each.begin_ms is None else each.begin_ms
        if before is None or begin_ms - (before.end_ms or 0) > gap_ms:
            copy = Span(**{name: getattr(each, name) for name in Span.__slots__})
            last[each.producer_id] = copy
            found.append(copy)
            continue
        before.count += each.count
        before.record_count += each.record_count
        before.size_bytes += each.size_bytes
        before.end_ms = max(before.end_ms or 0, each.end_ms or 0)
        before.last_offset, before.marker_offset = each.last_offset, each.marker_offset
        before.producer_epoch, before.marker_epoch = each.producer_epoch, each.marker_epoch
        before.version = max(before.version, each.version)
        if each.outcome == ABORTED:
            before.outcome = ABORTED
    return found


def usual_ms(lanes: Sequence[Lane], producer_id: int) -> int | None:
    """How long transactions of this producer usually take here: the median of those that were read from beginning to end."""
    found = sorted(
        each.end_ms - each.begin_ms
        for lane in lanes
        for each in lane.done
        if each.producer_id == producer_id and each.end_ms is not None and each.begin_ms is not None
    )
    return found[len(found) // 2] if found else None
