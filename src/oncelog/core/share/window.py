"""The records of one partition that are under way in one share group: from the share-partition start offset to the last acquired.

Every record is available, acquired by a member until its lock is over, acknowledged, or archived. `acquire`, `acknowledge`,
`release`, `expire` and `move_start` change the window at once; what has to be stored of it is the `Change` that they return, and
a member is answered when it is. After a crash the window begins as it was stored: what was acquired then is available again, so
a record may come twice and is never lost. Acquired is not stored, as in Apache Kafka: a delivery count may be too small after a
crash, never too large.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from oncelog.core.share.runs import RecordState, Run, Runs
from oncelog.core.share.settings import ShareSettings
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)  # the acknowledge types of the wire
NOT_ACQUIRED = "The offset cannot be acknowledged. The offset is not acquired."
NOT_OWNER = "Member is not the owner of offset"


class BatchSpan(NamedTuple):
    """The offsets of one batch that was read; `is_aborted` where nobody may see it."""

    base_offset: int
    last_offset: int
    is_aborted: bool = False


class Acquired(NamedTuple):
    """Offsets that a member has now."""

    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    """What became of first..last: one type for all of them, or one for each."""

    first_offset: int
    last_offset: int
    types: Sequence[int]


class StateBatch(NamedTuple):
    """Offsets as they are stored."""

    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int


@dataclass(frozen=True, slots=True)
class Change:
    """What has to be stored: the start offset, how many offsets from there on are done with, and what changed."""

    start_offset: int
    complete_count: int
    batches: tuple[StateBatch, ...]


@dataclass(frozen=True, slots=True)
class RefusedAcknowledgement:
    """Nothing of the request was taken."""

    error_code: ErrorCode
    message: str


class Window:
    """What is under way of one partition. `end_offset` is the offset after the last one that was ever acquired."""

    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._runs = Runs()
        for batch in sorted(batches):
            if batch.last_offset >= start_offset:
                self._extend(batch.last_offset)
                self._runs.put(
                    Run(max(batch.first_offset, start_offset), batch.last_offset, batch.state, batch.delivery_count)
                )
        self._advance()

    def _extend(self, last_offset: int) -> None:
        """The window reaches as far as `last_offset`; what is new in it is available."""
        if last_offset >= self.end_offset:
            self._runs.put(Run(self.end_offset, last_offset, RecordState.AVAILABLE))
            self.end_offset = last_offset + 1

    # -- what it is ------------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def in_flight_count(self) -> int:
        """Offsets that something may still happen to."""
        return sum(run.length for run in self._runs if not run.is_terminal)

    @property
    def complete_count(self) -> int:
        """Offsets from the start offset on that are done with."""
        return sum(run.length for run in self._runs if run.is_terminal)

    @property
    def next_offset(self) -> int:
        """The first offset that a member could get."""
        return next((run.first for run in self._runs if run.state is RecordState.AVAILABLE), self.end_offset)

    def can_acquire(self, settings: ShareSettings) -> bool:
        """Whether a member could get anything: something is available again, or there is room for more."""
        return self.next_offset < self.end_offset or self.in_flight_count < settings.locks_max

    @property
    def next_deadline_ms(self) -> int | None:
        """When the first lock is over."""
        return min((run.deadline_ms for run in self._runs if run.state is RecordState.ACQUIRED), default=None)

    # -- acquiring -------------------------------------------------------------------------------------------------

    def acquire(
        self,
        member_id: str,
        read_from: int,
        batches: Sequence[BatchSpan],
        settings: ShareSettings,
        *,
        records_max: int,
        batch_size: int,
        is_exact: bool = False,
        now_ms: int,
    ) -> list[Acquired]:
        """Give the member what is available of these batches, read from `read_from` on.

        Whole batches, so the last one may exceed `records_max` unless `is_exact` (KIP-1206). Aborted batches and offsets that
        nothing is left of are archived on the way.
        """
        taking = _Taking(self, member_id, settings, now_ms, records_max, is_exact)
        before = read_from
        for batch in batches:
            self._archive(before, batch.base_offset - 1)
            before = batch.last_offset + 1
            if not taking.take(batch):
                break
        self._advance()
        return _split(taking.acquired, [batch.base_offset for batch in batches], batch_size, is_exact=is_exact)

    def _archive(self, first: int, last: int) -> None:
        """Nobody gets these, unless somebody has them already."""
        if first > last:
            return
        self._extend(last)
        for run in self._runs.between(first, last):
            if run.state is RecordState.AVAILABLE:
                self._runs.put(run._replace(state=RecordState.ARCHIVED))

    # -- what becomes of them --------------------------------------------------------------------------------------

    def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement], settings: ShareSettings, now_ms: int
    ) -> Change | RefusedAcknowledgement:
        """All of a request or nothing; what lies below the start offset is done with and passes."""
        steps: list[tuple[Run, int]] = []
        before = -1
        for each in acknowledgements:
            if each.first_offset <= before:  # said twice: after the first time nobody has it
                return RefusedAcknowledgement(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)
            before = each.last_offset
            found = self._acknowledged(member_id, each)
            if isinstance(found, RefusedAcknowledgement):
                return found
            steps += found
        changed = []
        for run, kind in steps:
            if kind == RENEW:
                self._runs.put(run._replace(deadline_ms=now_ms + settings.lock_duration_ms))
            else:
                changed.append(self._settle(run, _STATE_AFTER[kind], settings))
        return self._changed(changed)

    def _acknowledged(self, member_id: str, each: Acknowledgement) -> list[tuple[Run, int]] | RefusedAcknowledgement:
        if each.last_offset < self.start_offset:
            return []
        if each.first_offset >= self.end_offset or each.last_offset >= self.end_offset:
            which = "first" if each.first_offset >= self.end_offset else "last"
            message = f"Batch record not found. The {which} offset in request is past acquired records."
            return RefusedAcknowledgement(ErrorCode.INVALID_REQUEST, message)
        found: list[tuple[Run, int]] = []
        for run in self._runs.between(each.first_offset, each.last_offset):
            if run.state is not RecordState.ACQUIRED:
                return RefusedAcknowledgement(ErrorCode.INVALID_RECORD_STATE, NOT_ACQUIRED)
            if run.member_id != member_id:
                return RefusedAcknowledgement(ErrorCode.INVALID_RECORD_STATE, NOT_OWNER)
            found += _with_types(run, each)
        return found

    def release(self, member_id: str, settings: ShareSettings) -> Change | None:
        """The member is gone: what it has is available again, or archived where it came too often. None where it has nothing."""
        return self._give_back(
            [run for run in self._runs if run.state is RecordState.ACQUIRED and run.member_id == member_id], settings
        )

    def expire(self, now_ms: int, settings: ShareSettings) -> Change | None:
        """Locks that are over: as `release`. None where there is none."""
        return self._give_back(
            [run for run in self._runs if run.state is RecordState.ACQUIRED and run.deadline_ms <= now_ms], settings
        )

    def _give_back(self, runs: Sequence[Run], settings: ShareSettings) -> Change | None:
        if not runs:
            return None
        return self._changed([self._settle(run, RecordState.AVAILABLE, settings) for run in runs])

    def _settle(self, run: Run, state: RecordState, settings: ShareSettings) -> StateBatch:
        if state is RecordState.AVAILABLE and run.delivery_count >= settings.delivery_count_limit:
            state = RecordState.ARCHIVED
        self._runs.put(Run(run.first, run.last, state, run.delivery_count))
        return StateBatch(run.first, run.last, state, run.delivery_count)

    def move_start(self, log_start_offset: int) -> None:
        """Records below are deleted from the log."""
        if log_start_offset > self.start_offset:
            self._runs.cut_before(log_start_offset)
            self.start_offset = log_start_offset
            self.end_offset = max(self.end_offset, log_start_offset)
            self._advance()

    def _changed(self, batches: Sequence[StateBatch]) -> Change:
        """What to store: with the start offset before this change, as in Apache Kafka; the batches say what lies between."""
        change = Change(self.start_offset, self.complete_count, tuple(batches))
        self._advance()
        return change

    def _advance(self) -> None:
        """The start offset is the first one that is not done with."""
        start_offset = next((run.first for run in self._runs if not run.is_terminal), self.end_offset)
        if start_offset > self.start_offset:
            self.start_offset = start_offset
            self._runs.cut_before(start_offset)

    # -- for `_Taking` ---------------------------------------------------------------------------------------------

    def available(self, first: int, last: int) -> list[Run]:
        """What a member could get in first..last; offsets behind the window are as if they were in it."""
        first = max(first, self.start_offset)
        found = [run for run in self._runs.between(first, last) if run.state is RecordState.AVAILABLE]
        if last >= self.end_offset:
            found.append(Run(max(first, self.end_offset), last, RecordState.AVAILABLE))
        return found

    def is_new(self, run: Run) -> bool:
        """Whether nobody was ever given it."""
        return run.first >= self.end_offset

    def give(self, run: Run, member_id: str, deadline_ms: int) -> Run:
        """The member has it from now on."""
        self._extend(run.last)
        given = Run(run.first, run.last, RecordState.ACQUIRED, run.delivery_count + 1, member_id, deadline_ms)
        self._runs.put(given)
        return given

    def drop(self, run: Run) -> None:
        """Nobody gets it: its transaction was aborted."""
        self._archive(run.first, run.last)


_STATE_AFTER = {
    GAP: RecordState.ARCHIVED,
    ACCEPT: RecordState.ACKNOWLEDGED,
    RELEASE: RecordState.AVAILABLE,
    REJECT: RecordState.ARCHIVED,
}


def _with_types(run: Run, each: Acknowledgement) -> list[tuple[Run, int]]:
    if len(each.types) == 1:
        return [(run, each.types[0])]
    found: list[tuple[Run, int]] = []
    for offset in range(run.first, run.last + 1):
        kind = each.types[offset - each.first_offset]
        if found and found[-1][1] == kind:
            found[-1] = (found[-1][0]._replace(last=offset), kind)
        else:
            found.append((run._replace(first=offset, last=offset), kind))
    return found


class _Taking:
    """One member's acquisition while it is being made."""

    def __init__(
        self,
        window: Window,
        member_id: str,
        settings: ShareSettings,
        now_ms: int,
        records_max: int,
        is_exact: bool,
    ) -> None:
        self._window = window
        self._member_id = member_id
        self._settings = settings
        self._deadline_ms = now_ms + settings.lock_duration_ms
        self._left = records_max
        self._room = settings.locks_max - window.in_flight_count
        self._is_exact = is_exact
        self.acquired: list[Acquired] = []

    def take(self, batch: BatchSpan) -> bool:
        """Take what is available of the batch; whether there may be more."""
        for run in self._window.available(batch.base_offset, batch.last_offset):
            if batch.is_aborted:
                self._window.drop(run)
                continue
            is_new = self._window.is_new(run)
            if self._left <= 0 or (is_new and self._room <= 0):
                return False
            wanted, is_throttled = self._wanted(run, is_new=is_new)
            if is_throttled and self.acquired:
                return False
            self._give(run._replace(last=run.first + wanted - 1))
            if is_throttled or wanted < run.length:
                return False
            if is_new:
                self._room -= run.length
        return True

    def _wanted(self, run: Run, *, is_new: bool) -> tuple[int, bool]:
        """How many of it, and whether it must come alone."""
        settings = self._settings
        excess = run.delivery_count - settings.throttled_deliveries
        if excess >= 0:
            is_last = run.delivery_count >= settings.delivery_count_limit - 1
            wanted = 1 if is_last else max(run.length >> (excess + 1), 1)
            return min(wanted, self._left) if self._is_exact else wanted, True
        if self._is_exact:
            return min(run.length, self._left, self._room if is_new else run.length), False
        return run.length, False

    def _give(self, run: Run) -> None:
        given = self._window.give(run, self._member_id, self._deadline_ms)
        self._left -= given.length
        last = self.acquired[-1] if self.acquired else None
        if last is not None and last.last_offset + 1 == given.first and last.delivery_count == given.delivery_count:
            self.acquired[-1] = last._replace(last_offset=given.last)
        else:
            self.acquired.append(Acquired(given.first, given.last, given.delivery_count))


def _split(acquired: list[Acquired], bases: Sequence[int], batch_size: int, *, is_exact: bool) -> list[Acquired]:
    """At boundaries of batches, so that none is much larger than what the member wants to acknowledge at once."""
    if is_exact:
        return acquired
    found = []
    for each in acquired:
        first = each.first_offset
        for base in bases:
            if first < base <= each.last_offset and base - first >= batch_size:
                found.append(Acquired(first, base - 1, each.delivery_count))
                first = base
        found.append(Acquired(first, each.last_offset, each.delivery_count))
    return found
