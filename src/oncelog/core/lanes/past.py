"""Lanes of a time that is over: how it was at one moment, from what the log says of it today.

The log is read from before the moment to behind it, so what became of a transaction is known, too. What was open at the moment:
its data lies before it, its marker behind it, or there is none yet. The last stable offset then was the first offset of those.
Where the moment lies in the log is a guess by the records' times, which are their producers'. Markers have the time of the leader
that wrote them: one that is older than the moment lies before it, one that is not lies behind it, and so the guess is mended.
What the log cannot tell is not claimed: a marker without data before it ended what began before the reading, or what wrote
nothing here (`unsure_then`); a first batch that does not begin its producer's sequence may not be the first (`is_begin_known`).
"""

from __future__ import annotations

from collections import deque

from oncelog.core.ages import age_text, clock_text, moment_text
from oncelog.core.lanes.lane import CLOCK_MS, COMMITTED, OPEN, Lane, Span
from oncelog.core.lanes.view import CALM_MS, STOPPED, WAITING, LanesView, OpenSpan
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch

HELD_MAX = 500
ENDED_MAX = 50_000  # producer ids of which a marker was read: of any more it is not known where they began
FOREVER = 1 << 63


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the past, and the moment in it that is asked about."""

    from_ms: int
    at_ms: int
    to_ms: int


class PastLane(Lane):
    """A lane from `next_offset` around a moment. What lies behind its window is read for what it ends only.

    `at_offset` is the log's end at the moment, FOREVER while that is not found; `end_offset` is where the window ends.
    """

    def __init__(
        self, where: TopicPartition, next_offset: int, window: Window, at_offset: int, end_offset: int
    ) -> None:
        super().__init__(where, next_offset, window.from_ms)
        self.window = window
        self.guess = self.at_offset = at_offset
        self.end_offset = end_offset
        self.first_ms: int | None = None  # of the first batch that was read, and of the last
        self.last_ms: int | None = None
        self.open_now: dict[int, int] = {}
        """Of producers that have a transaction open today: where it starts."""
        self.aborted: set[tuple[int, int]] = set()
        """Of what began before the reading and was aborted, its marker read or not: producer ids and first offsets."""
        self.is_read_to_end = False
        """Whether everything was read up to where the log ends today: then nobody is missing."""
        self.deleted_text = ""
        """What retention or an administrator has taken of the window."""
        self.is_before_known = True
        """Whether it could be asked what was open before the reading began."""
        self.open_then: list[Span] = []
        self.unsure_then: list[Span] = []
        self.later: list[Span] = []  # began behind the moment, and no marker was read
        self._is_then = False
        self._long: deque[Span] = deque(maxlen=HELD_MAX)
        self._ended: set[int] = set()
        self._begun_later: set[int] = set()
        self._is_behind = False
        self._newest: tuple[int, int] | None = None  # time and producer id of the newest data

    def take(self, batch: RecordBatch, version: int = 0) -> None:
        """The next batch, in log order."""
        if batch.last_offset < self.next_offset:
            return
        self._find_moment(batch)
        if self.first_ms is None:
            self.first_ms = batch.base_timestamp
        self.last_ms = batch.max_timestamp
        if self._is_of_the_window(batch):
            super().take(batch, version)
        else:
            self.next_offset = batch.end_offset
            self.bytes_read += batch.size_bytes

    def _find_moment(self, batch: RecordBatch) -> None:
        at_ms, time_ms = self.window.at_ms, batch.max_timestamp
        if not batch.is_control:
            if self._marker_ms is not None and 0 <= time_ms < self._marker_ms - CLOCK_MS:
                self.clock_off = self._marker_ms, batch.producer_id, time_ms - self._marker_ms
            self._newest = max(self._newest or (time_ms, batch.producer_id), (time_ms, batch.producer_id))
            if batch.base_offset >= self.at_offset or (self.at_offset == FOREVER and time_ms >= at_ms):
                self._reach_moment(batch.base_offset)
            return
        if batch.end_txn_marker() is None:
            return
        self._marker_ms = time_ms
        if self._newest is not None and self._newest[0] > time_ms + CLOCK_MS:
            self.clock_off = time_ms, self._newest[1], self._newest[0] - time_ms
        self._newest = None
        if time_ms >= at_ms:
            self._reach_moment(batch.base_offset)
        elif batch.base_offset >= self.at_offset:  # the guess was too early
            self.at_offset, self._is_then = FOREVER, False
            self.open_then, self.unsure_then = [], []

    def skip_to(self, offset: int, now_ms: int) -> None:
        """Records were deleted while they were read."""
        self.complete_from_ms = now_ms
        self.error, self.error_text = "OFFSET_OUT_OF_RANGE", f"deleted up to {offset} while it was read: ask again"

    def _is_of_the_window(self, batch: RecordBatch) -> bool:
        """Whether a batch lies in it, or belongs to a transaction that began in it, or before."""
        producer_id = batch.producer_id
        if not self._is_behind:  # until a marker says so: the end is a guess, too
            is_past_end = batch.base_offset >= self.end_offset
            self._is_behind = is_past_end and batch.is_control and batch.max_timestamp >= self.window.to_ms
            return batch.is_transactional or not is_past_end
        if batch.is_control:
            if producer_id in self._begun_later:
                self._begun_later.discard(producer_id)
                return False
            return True
        if batch.is_transactional and producer_id not in self.open:
            self._begun_later.add(producer_id)
        return producer_id in self.open

    def _take_data(self, batch: RecordBatch, version: int) -> None:
        is_first = batch.producer_id not in self.open
        super()._take_data(batch, version)
        if is_first:
            begins = batch.base_sequence == 0 or batch.producer_id in self._ended or not self.first_read_offset
            self.open[batch.producer_id].is_begin_known = begins

    def _take_control(self, batch: RecordBatch, version: int) -> None:
        producer_id = batch.producer_id
        had_data = producer_id in self.open
        if batch.end_txn_marker() is None or (
            not had_data and (producer_id in self._ended or not self.first_read_offset)
        ):
            return  # the transaction wrote nothing here
        super()._take_control(batch, version)
        ended = self.done[-1]
        if ended.producer_epoch < 0:
            ended.producer_epoch = batch.producer_epoch
        if len(self._ended) < ENDED_MAX:
            self._ended.add(producer_id)
        if had_data and self._lasted_ms(ended, batch.max_timestamp) >= CALM_MS:
            self._long.append(ended)
        if not had_data and batch.base_offset >= self.at_offset and len(self.unsure_then) < HELD_MAX:
            self.unsure_then.append(ended)

    def _lasted_ms(self, span: Span, end_ms: int) -> int:
        return end_ms - (self.complete_from_ms if span.begin_ms is None else span.begin_ms)

    def _reach_moment(self, offset: int) -> None:
        if not self._is_then:
            self._is_then, self.open_then = True, list(self.open.values())
            self.at_offset = min(self.at_offset, offset)

    def finish(self) -> None:
        """Nothing more is read: from now on `open`, `last_stable_offset` and `high_watermark` are those of the moment."""
        if self.is_read_to_end or self.next_offset >= self.at_offset:
            self._reach_moment(self.next_offset)
        elif self.error is None:
            why = "what was read of it, and its records say times that are not those they came at"
            late = self.clock_off is not None or self.at_offset == FOREVER
            self.error = "REQUEST_TIMED_OUT"
            self.error_text = (
                f"that moment lies behind {why}" if late else "reading up to that moment took too long: ask again"
            )
        then = {id(each) for each in self.open_then}
        self.later = [each for each in self.open.values() if id(each) not in then]
        self.done = deque(each for each in self.done if id(each) not in then)
        self.open = {each.producer_id: each for each in self.open_then}
        if self.error is not None:
            self.high_watermark = self.last_stable_offset = None
            return
        self.high_watermark = self.at_offset
        known = [each.first_offset for each in self.open_then if each.first_offset is not None]
        self.last_stable_offset = min([self.at_offset, *known])

    def was_deleted(self, at_ms: int) -> None:
        """The log begins with what was read: what lay before it is gone, whatever its time was."""
        first_ms = self.first_ms
        self.deleted_text = f"what lay before offset {self.first_read_offset} was deleted"
        if first_ms is not None:
            self.deleted_text += f"; the first that is left is of {moment_text(first_ms)} UTC"
            self.complete_from_ms = max(self.complete_from_ms, first_ms)
        if first_ms is None or first_ms > at_ms:
            self.error, self.error_text = "OFFSET_OUT_OF_RANGE", self.deleted_text

    def held(self, to_ms: int) -> list[Span]:
        """The transactions that the last stable offset stood at for long, in the order of their offsets; the last ones may have
        no marker yet. After `finish`."""
        still = [each for each in [*self.open.values(), *self.later] if each.outcome == OPEN]
        spans = [*self._long, *(each for each in still if self._lasted_ms(each, to_ms) >= CALM_MS)]
        found: list[Span] = []
        reach = -1
        for each in sorted(spans, key=lambda each: each.first_offset or 0):
            end = FOREVER if each.marker_offset is None else each.marker_offset
            if end > reach:  # else one that began earlier held for longer
                found.append(each)
                reach = end
        return found

    def became(self, span: Span) -> str:
        """What became of what was open."""
        if span.outcome != OPEN:
            what = "committed" if span.outcome == COMMITTED else "aborted"
            return what if span.end_ms is None else f"{what} at {clock_text(span.end_ms)}"
        if self.open_now.get(span.producer_id) == span.first_offset:
            return "open to this day"
        if (span.producer_id, span.first_offset) in self.aborted:
            return "aborted later than was read"
        return "open as far as was read"


@dataclass(frozen=True)
class PastView(LanesView):
    """Lanes at a moment that is over (`now_ms`), in a window that ends at `to_ms`."""

    to_ms: int = 0

    @property
    def since_ms(self) -> int:
        """Where the window begins."""
        return self.to_ms - self.window_ms

    def word(self, lane: Lane) -> str:
        """As of the moment. Of what began before the reading it is known only that it is older than that."""
        word, holder = super().word(lane), lane.holder
        if word == STOPPED and holder is not None and holder.begin_ms is None:
            return STOPPED if self.now_ms - lane.complete_from_ms >= CALM_MS else WAITING
        return word

    def verdict(self) -> str:
        """One line for a person."""
        text = super().verdict()
        return f"{moment_text(self.now_ms)} UTC: {text[0].lower()}{text[1:]}"

    def became(self, found: OpenSpan) -> str:
        """What became of a transaction that was open: the same on all its partitions."""
        lane, span = max(found.spans, key=lambda each: each[1].end_ms or 0)
        if not isinstance(lane, PastLane):
            return ""
        text = lane.became(span)
        if span.end_ms is None:
            return text
        return f"{text}, {age_text(span.end_ms - self.now_ms)} later"
