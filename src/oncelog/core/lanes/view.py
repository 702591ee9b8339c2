"""Lanes of several partitions at one moment: three words for each, a letter for each open transaction, what will happen.

The words for a reader: *active* (it reads to the end), *waiting* (held back by what is normal: for less than ten seconds, or
less than three times what that producer usually takes), *stopped*. The verdicts are those of core/diagnosis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from oncelog.core.ages import age_text
from oncelog.core.diagnosis.transactions import ENDING, HANGING, IN_PROGRESS, TWO_PHASE
from oncelog.core.lanes.lane import Lane, Span, usual_ms
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

ACTIVE, WAITING, STOPPED, UNREADABLE = "active", "waiting", "stopped", "unreadable"
CALM_MS = 10_000
CALM_TIMES_USUAL = 3
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NOTHING, THAT_YOU_SEE = "Nothing is looked at", " that you may see"
UNKNOWN_KIND = "unknown"  # nobody was asked yet, or nobody may tell


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of an open transaction beside the log. `deadline_ms`: when its coordinator aborts it; None: never."""

    kind: str
    deadline_ms: int | None = None
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands in a partition. The three counts are offsets."""

    group: str
    where: TopicPartition
    offset: int
    readable: int
    held_back: int
    raw_lag: int


@dataclass(frozen=True, slots=True)
class OpenSpan:
    """An open transaction, on all lanes that it is open on; `holds` are those whose last stable offset it is."""

    letter: str
    producer_id: int
    spans: tuple[tuple[Lane, Span], ...]
    holds: tuple[Lane, ...]
    judged: Judged

    @property
    def begin_ms(self) -> int | None:
        """When it began, on whichever lane it did so first; None where that was before the reading and nobody knows."""
        return min((span.begin_ms for _, span in self.spans if span.begin_ms is not None), default=None)


@dataclass(frozen=True)
class LanesView:
    """Lanes at `now_ms`, for the `window_ms` before it. `judged`: by lane and producer id; `names`: of producer ids."""

    now_ms: int
    window_ms: int
    lanes: tuple[Lane, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    judged: Mapping[tuple[TopicPartition, int], Judged] = field(default_factory=dict)
    positions: Sequence[Position] = ()
    notes: tuple[str, ...] = ()
    left_out: int = 0
    """How many partitions there are beside these; of them nothing is known."""
    is_all: bool = True
    """Whether there are no others that may not be seen."""

    @property
    def since_ms(self) -> int:
        """Where the window begins."""
        return self.now_ms - self.window_ms

    def name_of(self, producer_id: int) -> str:
        """The transactional id, else the producer id: not every one's name is known."""
        return self.names.get(producer_id) or f"producer {producer_id}"

    def word(self, lane: Lane) -> str:
        """ACTIVE, WAITING, STOPPED; UNREADABLE where it cannot be read now, or never could."""
        if lane.high_watermark is None or lane.error is not None:
            return UNREADABLE
        if not lane.blocked:
            return ACTIVE
        holder = lane.holder
        if holder is None:
            return WAITING  # its marker, or its first batch, has just come
        if holder.begin_ms is None:
            return STOPPED
        calm_ms = max(CALM_MS, CALM_TIMES_USUAL * (usual_ms(self.lanes, holder.producer_id) or 0))
        return WAITING if self.now_ms - holder.begin_ms < calm_ms else STOPPED

    @property
    def stopped(self) -> list[Lane]:
        """The lanes whose readers stand still."""
        return [lane for lane in self.lanes if self.word(lane) == STOPPED]

    def open(self) -> list[OpenSpan]:
        """Open transactions, the oldest first, each with its letter."""
        by_producer: dict[int, list[tuple[Lane, Span]]] = {}
        for lane in self.lanes:
            for span in lane.open.values():
                by_producer.setdefault(span.producer_id, []).append((lane, span))
        holders = {lane.where: lane.holder for lane in self.lanes}
        order = sorted(by_producer, key=lambda each: (_begin(by_producer[each]), each))
        return [
            OpenSpan(
                LETTERS[index] if index < len(LETTERS) else "*",
                producer_id,
                tuple(by_producer[producer_id]),
                tuple(lane for lane, span in by_producer[producer_id] if holders[lane.where] is span),
                self.judged_of(by_producer[producer_id]),
            )
            for index, producer_id in enumerate(order)
        ]

    def judged_of(self, places: Sequence[tuple[Lane, Span]]) -> Judged:
        """The verdict on a transaction: the worst of its places, since one that hangs anywhere ends nowhere by itself."""
        found = [self.judged.get((lane.where, span.producer_id), Judged(UNKNOWN_KIND)) for lane, span in places]
        order = (HANGING, TWO_PHASE, ENDING, IN_PROGRESS, UNKNOWN_KIND)
        return min(found, key=lambda each: order.index(each.kind))

    def verdict(self) -> str:
        """One line for a person: who stands still, and for how long."""
        unread = [lane for lane in self.lanes if self.word(lane) == UNREADABLE]
        more = could_not_be_read(len(unread))
        if self.left_out and self.lanes:
            more = f"{more}; {self.left_out} more {'is' if self.left_out == 1 else 'are'} not shown"
        stopped = self.stopped
        if not stopped:
            read = len(self.lanes) - len(unread)
            if read and self.left_out:
                return f"None of {counted(read, 'partition')} is stopped{more}"
            return nobody_is_stopped(read, len(unread), is_all=self.is_all)
        oldest = next(each for each in self.open() if set(each.holds) & set(stopped))
        begin_ms = oldest.begin_ms
        since = f" for {age_text(self.now_ms - begin_ms)}" if begin_ms is not None else ""
        share = f"{len(stopped)} of {counted(len(self.lanes), 'partition')}"
        return f"Stopped: {share}, oldest by {self.name_of(oldest.producer_id)}{since}{more}"

    def future(self, judged: Judged) -> str:
        """What will happen to an open transaction, right of now."""
        if judged.kind == IN_PROGRESS and judged.deadline_ms is not None:
            left_ms = judged.deadline_ms - self.now_ms
            return f"aborts in {age_text(left_ms)}" if left_ms > 0 else "is aborted at the coordinator's next look"
        return {
            TWO_PHASE: "∞ waits for its database",
            HANGING: "∞ never ends by itself",
            ENDING: "marker on the way",
        }.get(judged.kind, "commits or aborts")


def _begin(places: Sequence[tuple[Lane, Span]]) -> int:
    known = [span.begin_ms for _, span in places if span.begin_ms is not None]
    return min(known) if len(known) == len(places) else 0


def could_not_be_read(unread: int) -> str:
    """The end of a verdict; nothing where everything was read."""
    return f"; {counted(unread, 'partition')} could not be read" if unread else ""


def nobody_is_stopped(read: int, unread: int, *, is_all: bool = True) -> str:
    """The verdict where nobody was seen to stand still: no all-clear for what was not read, or, not `is_all`, may not be seen."""
    if unread and not read:
        return f"Nothing could be read of {counted(unread, 'partition')}"
    if not read:
        return NOTHING
    who = "Nobody" if is_all else f"Nobody{THAT_YOU_SEE}"
    return f"{who} is stopped: {counted(read, 'partition')} looked at{could_not_be_read(unread)}"


def counted(count: int, noun: str) -> str:
    """`1 partition`, `2 partitions`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
