"""Consume, transform, produce: which step is next, and what a failure calls for.

Pure: what steps brought goes in, `next_step` says what is to be done. The rules: what is written of a record, and the
position behind it, are in one transaction; a transaction that was begun and did not certainly commit is aborted, or its
producer replaced, and positions go back to the committed ones before anything else is read; a record that fails again
and again is written to the dead-letter topic or ends the work by name, and never stands in silence.
Without a database the transform is called before the transaction is begun: neither a slow transform nor its pauses keep
one open. With one (`transforms_inside`) it is called within, and its failure rolls everything back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from oncelog.core.processing.steps import (
    END_POLL_TIMEOUT_MS,
    POLL_TIMEOUT_MS,
    Abort,
    CheckEnd,
    Counts,
    End,
    Failure,
    Item,
    Limits,
    Place,
    Poll,
    Renew,
    Rewind,
    Step,
    Transform,
    Write,
)
from oncelog.core.processing.verdicts import Verdict, ends_reading, verdict_of
from oncelog.errors import ProcessingFailed
from oncelog.types import TopicPartition

SLOW_ATTEMPTS_MAX = 2  # of a record that takes longer than the group waits: each costs a rebalance
SLOW_COUNT_MAX = 100
HELD_BACK_MS = 3_000  # until_end: for the last stable offset to reach the end


class Phase(Enum):
    """Where it stands."""

    READING = "reading"
    TRANSFORMED = "transformed: the next thing is to write it"
    ABORTING = "a transaction is open that must not be committed"
    RENEWING = "the producer is over"
    REWINDING = "positions must go back to the committed ones"
    ENDED = "over"


class _Trouble:
    """Failures of brokers, one behind the other, until something succeeds."""

    def __init__(self) -> None:
        self.count, self.since_ms, self.last_ms = 0, 0.0, 0.0

    def again(self, now_ms: float, quiet_ms: int) -> float:
        """One more; for how long it goes on. After a quiet time it is a new one."""
        if not self.count or now_ms - self.last_ms > quiet_ms:
            self.count, self.since_ms = 0, now_ms
        self.count, self.last_ms = self.count + 1, now_ms
        return now_ms - self.since_ms


class Processing:
    """One member's work."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.phase = Phase.READING
        self.counts = Counts()
        self.error: BaseException | None = None  # what it ended of, or will
        self.last_trouble: BaseException | None = None  # the last error of brokers or group, for metrics
        self._hand: list[Item] = []
        self._in_writing = 0  # how many of them, from the front, are transformed and not committed yet
        self._opened_ms = 0.0  # when the first record of the next transaction came
        self._failures: dict[Place, Failure] = {}  # of the few records that failed and are not done with
        self._not_before_ms = 0.0
        self._retry_at_ms: dict[Place, float] = {}  # when each of them is tried again
        self._suspects: dict[TopicPartition, int] = {}  # before these offsets stands a record that cannot be stored
        self._suspect_count_max = 1  # how many of those one transaction takes: half as many each time it fails
        self._are_too_slow = False  # the suspects: it is not that one cannot be stored, together they take too long
        self._slow: dict[Place, int] = {}  # how often they alone took longer than the group waits
        self._is_stopping = False
        self._must_check_end = False
        self._held_back_since_ms: float | None = None
        self._reading_trouble, self._writing_trouble = _Trouble(), _Trouble()

    # -- what is next

    @property
    def hand_count(self) -> int:
        """Records that were read and are not written yet."""
        return len(self._hand)

    @property
    def hand_bytes(self) -> int:
        """Their size."""
        return sum(item.size_bytes for item in self._hand)

    @property
    def is_stopping(self) -> bool:
        """Whether it ends when what is begun has ended."""
        return self._is_stopping

    def next_step(self, now_ms: float) -> Step:
        """What to do now."""
        if self.phase is Phase.READING:
            return self._next_reading(now_ms)
        if self.phase is Phase.TRANSFORMED:
            return self._write()
        if self.phase is Phase.ENDED:
            return End(self.error)
        if self.phase is Phase.ABORTING:
            return Abort()
        if now_ms < self._not_before_ms:
            return self._pause(now_ms, self._not_before_ms)
        return Renew() if self.phase is Phase.RENEWING else Rewind(self._first_offsets())

    def _next_reading(self, now_ms: float) -> Step:
        if self._is_stopping or self.error is not None or self._left() == 0:
            self.phase = Phase.ENDED
            return End(self.error)
        if now_ms < self._not_before_ms:
            return self._pause(now_ms, self._not_before_ms)
        if self._must_check_end:
            self._must_check_end = False
            return CheckEnd()
        portion = self._portion()
        if portion and now_ms < (retry_at_ms := self._retry_at_ms.get(portion[0].place, now_ms)):
            return self._pause(now_ms, retry_at_ms)
        waits_ms = self._opened_ms + self.limits.transaction_interval_ms - now_ms
        if portion and (waits_ms <= 0 or self._is_full(portion)):
            return self._transform(portion, now_ms)
        room = self.limits.transaction_records_max - len(self._hand)
        longest_ms = END_POLL_TIMEOUT_MS if self.limits.until_end else POLL_TIMEOUT_MS
        timeout_ms = max(min(waits_ms, longest_ms), 1) if portion else longest_ms
        return Poll(int(timeout_ms), max(min(room, self._left(room)), 1))

    def _left(self, otherwise: int = 1) -> int:
        """How many records may still be processed."""
        if self.limits.max_records is None:
            return otherwise
        return max(self.limits.max_records - self.counts.consumed_record_count, 0)

    def _pause(self, now_ms: float, until_ms: float) -> Step:
        """Nothing can be done now, but the group must hear of this member."""
        if self._is_stopping:
            self.phase = Phase.ENDED
            return End(self.error)
        return Poll(max(int(min(until_ms - now_ms, POLL_TIMEOUT_MS)), 1), 1, pauses=True)

    def _is_full(self, portion: Sequence[Item]) -> bool:
        """Whether the next transaction takes no more."""
        return (
            len(portion) < len(self._hand)
            or len(portion) >= self.limits.transaction_records_max
            or len(portion) >= self._left(self.limits.transaction_records_max)
            or self._is_suspect(portion[0])
            or portion[0].place in self._failures
            or sum(item.size_bytes for item in portion) >= self.limits.transaction_bytes_max
        )

    def _is_suspect(self, item: Item) -> bool:
        return bool(self._suspects) and item.offset < self._suspects.get(item.topic_partition, 0)

    def _portion(self) -> list[Item]:
        """What the next transaction takes of what is in hand: a record that failed before stands alone."""
        count_max = min(self.limits.transaction_records_max, self._left(len(self._hand)))
        if self._hand and self._is_suspect(self._hand[0]):
            count_max = self._suspect_count_max
        portion: list[Item] = []
        size_bytes = 0
        for item in self._hand[:count_max]:
            has_failed = bool(self._failures) and item.place in self._failures
            if portion and (has_failed or size_bytes + item.size_bytes > self.limits.transaction_bytes_max):
                break
            portion.append(item)
            size_bytes += item.size_bytes
            if has_failed:
                break
        return portion

    def _transform(self, portion: list[Item], now_ms: float) -> Step:
        if self._slow.get(portion[0].place, 0) >= SLOW_ATTEMPTS_MAX:
            text = f"the transform takes longer than max_poll_interval_ms={self.limits.max_poll_interval_ms}"
            self._record_failed(portion[0], Failure(TimeoutError(text), SLOW_ATTEMPTS_MAX, is_final=True), now_ms)
            if self.error is not None:
                self.phase = Phase.ENDED
                return End(self.error)
            del portion[1:]
        failure = self._failures.get(portion[0].place)
        if (failure is not None and failure.is_final) or self.limits.transforms_inside:
            self._in_writing = len(portion)
            self.phase = Phase.TRANSFORMED
            return self._write()
        return Transform(tuple(portion), self.limits.transaction_interval_ms or None)

    def _write(self) -> Write:
        written, left = self._hand[: self._in_writing], self._hand[self._in_writing :]
        next_offsets = {item.topic_partition: item.offset + 1 for item in written}
        failure = self._failures.get(written[0].place)
        return Write(
            tuple(written),
            next_offsets,
            frozenset(next_offsets.keys() - {item.topic_partition for item in left}),
            failure if failure is not None and failure.is_final else None,
        )

    def _first_offsets(self) -> dict[TopicPartition, int]:
        first: dict[TopicPartition, int] = {}
        for item in self._hand:
            first.setdefault(item.topic_partition, item.offset)
        return first

    # -- reading

    def polled(self, items: Iterable[Item], now_ms: float, *, pauses: bool = False) -> None:
        """What a Poll brought."""
        came = list(items)
        self._reading_trouble.count = 0
        if came and not self._hand:
            self._opened_ms = now_ms
        self._hand += came
        if not came and not self._hand and not pauses and self.limits.until_end:
            self._must_check_end = True

    def gone(self, partitions: Iterable[TopicPartition]) -> None:
        """These partitions were given away, or lost, within a Poll: their records are somebody else's."""
        lost = set(partitions)
        kept = [item for item in self._hand if item.topic_partition not in lost]
        self.counts.given_up_record_count += len(self._hand) - len(kept)
        self._hand = kept
        for place in [place for place in self._failures if place.topic_partition in lost]:
            self._forget(place)
        if (
            not self._are_too_slow
        ):  # who is put out for that loses its partitions, and is to take fewer records of them next time
            for topic_partition in lost:
                self._suspects.pop(topic_partition, None)

    def checked_end(self, is_at_end: bool, now_ms: float, *, is_held_back: bool = False) -> bool:
        """What CheckEnd brought; whether it is the end.

        `is_held_back`: there is more behind the last stable offset. A commit is answered when it is decided and can be read some
        milliseconds later, so that is waited for; what is open for longer belongs to a later run.
        """
        if not (is_at_end and is_held_back):
            self._held_back_since_ms = None
        elif self._held_back_since_ms is None:
            self._held_back_since_ms = now_ms
        since_ms = self._held_back_since_ms
        if is_at_end and (since_ms is None or now_ms - since_ms >= HELD_BACK_MS):
            self._is_stopping = True
        return self._is_stopping

    def poll_failed(self, error: BaseException, now_ms: float) -> None:
        """A Poll, or a CheckEnd, raised. What is in hand stays there."""
        self.last_trouble = error
        if ends_reading(error):
            self.error, self.phase = self.error or error, Phase.ENDED
        else:
            self._in_trouble(self._reading_trouble, error, now_ms)

    # -- transforming

    def transformed(self, count: int, failure: Failure | None, now_ms: float) -> None:
        """So many, from the front, were transformed; then one failed, if a failure is told."""
        if failure is not None:
            self._record_failed(self._hand[count], failure, now_ms)
        self._in_writing = count
        if count:
            self.phase = Phase.TRANSFORMED

    def batch_failed(self, count: int, failure: Failure, now_ms: float) -> None:
        """The transform of so many records together failed: fewer are tried, until one stands alone."""
        if count == 1:
            self.transformed(0, failure, now_ms)
            return
        self.counts.retry_count += 1
        self._suspect_them(count)
        self._not_before_ms = now_ms + self.limits.transform_backoff_ms

    def _record_failed(self, item: Item, failure: Failure, now_ms: float) -> None:
        before = self._failures.get(item.place)
        attempt_count = failure.attempt_count + (before.attempt_count if before is not None else 0)
        if failure.is_outage:
            self.last_trouble = failure.error
            lasted_ms = self._writing_trouble.again(now_ms, self.limits.outage_timeout_ms)
            if lasted_ms > self.limits.outage_timeout_ms:
                self._end_of(item, Failure(failure.error, attempt_count))
        is_final = failure.is_final or (attempt_count > self.limits.transform_retries and not failure.is_outage)
        self._failures[item.place] = Failure(failure.error, attempt_count, is_final)
        if not is_final:
            self.counts.retry_count += 1
            self._retry_at_ms[item.place] = now_ms + self._backoff_ms(attempt_count)
            return
        self._retry_at_ms.pop(item.place, None)
        if not self.limits.has_dead_letter_topic:
            self._end_of(item, self._failures[item.place])

    def _forget(self, place: Place) -> None:
        del self._failures[place]
        self._retry_at_ms.pop(place, None)

    def _end_of(self, item: Item, failure: Failure) -> None:
        cure = "mend the transform, or give a dead_letter_topic"
        if self.limits.has_dead_letter_topic:
            cure = "see what it needs, or make room for it as a dead letter"
        times = "once" if failure.attempt_count == 1 else f"{failure.attempt_count} times"
        self.error = ProcessingFailed(
            f"record {item.place} failed {times}: {type(failure.error).__name__}: {failure.error}; "
            f"nothing of it was written, and the next start comes to it again: {cure}",
            item.topic_partition,
            item.offset,
            failure.attempt_count,
        )
        self.error.__cause__ = failure.error

    def _backoff_ms(self, attempt_count: int) -> int:
        doubled: int = self.limits.transform_backoff_ms << min(attempt_count - 1, 20)
        return min(doubled, self.limits.transform_backoff_max_ms)

    # -- writing

    def committed(self, produced_count: int) -> None:
        """The transaction of a Write is committed."""
        count = self._in_writing
        first = self._hand[0].place
        failure = self._failures.get(first)
        if failure is not None and failure.is_final:
            self.counts.dead_letter_count += 1
            produced_count = 0
            self._suspects.clear()  # it was the one; where there is another, it will be noticed
        for item in self._hand[:count] if self._failures or self._suspects or self._slow else ():
            self._slow.pop(item.place, None)
            if item.place in self._failures:
                self._forget(item.place)
            if item.offset + 1 >= self._suspects.get(item.topic_partition, item.offset + 2):
                del self._suspects[item.topic_partition]
        del self._hand[:count]
        self._in_writing = 0
        self._writing_trouble.count = 0
        self.counts.consumed_record_count += count
        self.counts.produced_record_count += produced_count
        self.counts.committed_transaction_count += 1
        self.phase = Phase.READING

    def rolled_back(self, index: int, failure: Failure, now_ms: float) -> None:
        """Transforming inside: that of the `index`-th record failed, and all of the transaction was rolled back, surely."""
        self.counts.aborted_transaction_count += 1
        self._record_failed(self._hand[index], failure, now_ms)
        self._in_writing = 0
        self.phase = Phase.READING

    def refused(self, index: int, error: BaseException, now_ms: float) -> None:
        """What was to be written of the `index`-th record cannot be sent. The transaction is open."""
        self.phase = Phase.ABORTING
        self._cannot_be_written(self._hand[index], error, now_ms)
        self._in_writing = 0

    def _cannot_be_written(self, item: Item, error: BaseException, now_ms: float) -> None:
        before = self._failures.get(item.place)
        if before is not None and before.is_final:
            self._end_of(item, Failure(error, before.attempt_count + 1))  # not even as a dead letter
        else:
            self._record_failed(item, Failure(error, is_final=True), now_ms)

    def failed(self, error: BaseException, now_ms: float, *, is_open: bool, transform_ms: float = 0) -> None:
        """A Write, an Abort, a Renew or a Rewind failed. `is_open`: the transaction is surely open and can be aborted.

        `transform_ms`: how long the transform took for what was written.
        """
        verdict = verdict_of(error)
        self.last_trouble = error
        if self.phase is not Phase.REWINDING:
            self.phase = Phase.ABORTING if is_open and verdict is not Verdict.FENCED else Phase.RENEWING
        if verdict is Verdict.FATAL or (verdict is Verdict.FENCED and not self.limits.restarts_when_fenced):
            self.error = self.error or error
            if self.phase is not Phase.ABORTING:
                self.phase = Phase.ENDED
        elif verdict is Verdict.RECORD and self._in_writing:
            self._find_the_one(error, now_ms)
        elif verdict is Verdict.GROUP:
            self._look_at_the_clock(transform_ms, now_ms)
        else:
            self._in_trouble(self._writing_trouble, error, now_ms)
        self._in_writing = 0

    def _find_the_one(self, error: BaseException, now_ms: float) -> None:
        """One of the records in the transaction cannot be stored, and the brokers do not say which."""
        if self._in_writing == 1:
            self._cannot_be_written(self._hand[0], error, now_ms)
        else:
            self._suspect_them(self._in_writing)

    def _suspect_them(self, count: int, *, are_too_slow: bool = False) -> None:
        self._are_too_slow = are_too_slow
        self._suspect_count_max = max(count // 2, 1)
        for item in self._hand[:count]:
            self._suspects[item.topic_partition] = item.offset + 1

    def _look_at_the_clock(self, transform_ms: float, now_ms: float) -> None:
        """Put out of the group because the transform took too long: it would be so for ever."""
        self._not_before_ms = now_ms + self.limits.transform_backoff_ms
        if transform_ms <= self.limits.max_poll_interval_ms or not self._in_writing:
            return
        if self._in_writing > 1:
            self._suspect_them(self._in_writing, are_too_slow=True)
            return
        # Kept also where the partition is lost, as it will be: it comes back to whoever is left, and so it goes on.
        place = self._hand[0].place
        while len(self._slow) >= SLOW_COUNT_MAX:
            del self._slow[next(iter(self._slow))]
        self._slow[place] = self._slow.get(place, 0) + 1

    def _in_trouble(self, trouble: _Trouble, error: BaseException, now_ms: float) -> None:
        lasted_ms = trouble.again(now_ms, self.limits.outage_timeout_ms)
        self._not_before_ms = now_ms + self._backoff_ms(trouble.count)
        if lasted_ms > self.limits.outage_timeout_ms:
            self.error = self.error or error
            self.phase = Phase.ENDED

    # -- the way back

    def aborted(self) -> None:
        """The Abort is done."""
        self.counts.aborted_transaction_count += 1
        self.phase = Phase.REWINDING if self.error is None else Phase.ENDED

    def renewed(self) -> None:
        """The Renew is done: what the former producer left is ended, one way or the other."""
        self.counts.producer_renewal_count += 1
        self.phase = Phase.REWINDING if self.error is None else Phase.ENDED

    def rewound(self) -> None:
        """The Rewind is done."""
        self.counts.rewind_count += 1
        self._hand.clear()
        self._in_writing = 0
        self.phase = Phase.READING

    # -- the end

    def stop(self) -> None:
        """End when what is begun has ended."""
        self._is_stopping = True
