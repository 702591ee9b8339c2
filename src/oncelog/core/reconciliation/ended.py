"""Ended transactions against decisions: torn ones, and markers that nobody decided.

All markers and all decisions of one producer id are judged together (`judge_producer`), so that a caller may split the work by
producer id. With KIP-890 a transaction has an epoch of its own; before, transactions of an instance share one and are told
apart by time: a marker belongs to the last decision made before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog.core.reconciliation.coordinator_log import Decision, Known
from oncelog.core.reconciliation.findings import (
    DECISION_WITHOUT_MARKER,
    MARKER_WITHOUT_DECISION,
    NOTE,
    TORN,
    Finding,
)
from oncelog.core.reconciliation.partition_replay import NO_COORDINATOR_EPOCH, Ended, Open
from oncelog.core.shell_words import shell_text
from oncelog.types import NO_OFFSET
from oncelog.wire.log_records.transaction_state import TransactionState

NO_COMMIT = "no command writes a lost COMMIT, and an ABORT would tear it: write the records of these offsets again"
NO_REPAIR = "no command: a marker cannot be taken back; give the records of the shown offsets to whoever owns the data"


COORDINATOR_GONE = "ended by a coordinator whose records may be gone: its log begins later, or is not there"


class Unheard(NamedTuple):
    """Of producers that no coordinator knows. Below `end_id` ids were given to somebody, and until `begins_ms` some coordinator's
    log was not there: what it had may have been given up."""

    end_id: int
    begins_ms: int


NOTHING_GONE = Unheard(0, 0)


class Place(NamedTuple):
    """Whose log."""

    directory: str
    topic: str
    partition: int


def judge_producer(
    markers: Sequence[tuple[Place, Ended]],
    decisions: Sequence[Decision],
    known: Known | None,
    *,
    opened: Sequence[tuple[Place, Open]] = (),
    is_whole: bool,
    clock_skew_ms: int,
    unheard: Unheard = NOTHING_GONE,
) -> list[Finding]:
    """Findings about one producer id. `is_whole`: the coordinators' logs are, so that an unknown id never was there.

    `opened` are its transactions without a marker: an older decision may be about them. `clock_skew_ms`: how far the clocks
    of the brokers that wrote these logs may differ (0 where it was one).
    """
    judge = _Judge(decisions, known, is_whole=is_whole, clock_skew_ms=clock_skew_ms, unheard=unheard)
    findings = [found for place, marker in markers if (found := judge.finding(place, marker)) is not None]
    findings += [found for place, each in opened if (found := judge.finding_of_open(place, each)) is not None]
    torn = {(each.directory, each.topic, each.partition, each.last_offset) for each in findings if each.kind == TORN}
    return findings + [
        found
        for found in _contradictions(markers)
        if (found.directory, found.topic, found.partition, found.last_offset) not in torn and not judge.has_decisions
    ]


class _Judge:
    def __init__(
        self,
        decisions: Sequence[Decision],
        known: Known | None,
        *,
        is_whole: bool,
        clock_skew_ms: int,
        unheard: Unheard,
    ) -> None:
        self._unheard = unheard
        self.has_decisions = bool(decisions)
        self._known = known
        self._is_whole = is_whole
        self._skew_ms = clock_skew_ms
        self._by_epoch: dict[int, list[Decision]] = {}
        self._partitions: dict[tuple[int, int], set[tuple[str, int]]] = {}  # of a record: log partition, offset
        for each in sorted(decisions, key=lambda each: (each.log_partition, each.offset)):
            where = (each.log_partition, each.offset)
            if where not in self._partitions:
                self._partitions[where] = set()
                self._by_epoch.setdefault(each.producer_epoch, []).append(each)
            self._partitions[where].add((each.topic, each.partition))

    @property
    def _transactional_id(self) -> str:
        return self._known.transactional_id if self._known is not None else ""

    def finding(self, place: Place, marker: Ended) -> Finding | None:
        """About one marker."""
        decision = self._decision_of(marker, place)
        if self._known is not None and self._known.is_damaged and not (decision is not None and decision.is_bumped):
            return None  # its own decision may be what is gone; one with an epoch of its own is no other transaction's
        if decision is not None:
            is_in_it = (place.topic, place.partition) in self._partitions[(decision.log_partition, decision.offset)]
            if decision.commit == marker.commit:
                return None if is_in_it else self._undecided(place, marker, "its decision does not name this partition")
            if is_in_it:
                return self._torn(place, marker, decision)
            return self._undecided(place, marker, "the decision of that time is another partition's")
        if self._known is None:
            if self._is_whole and self._may_be_gone(marker):
                return self._made(NOTE, COORDINATOR_GONE, place, marker, "")
            return self._undecided(place, marker, "no coordinator ever knew this producer") if self._is_whole else None
        if self._known.state == TransactionState.ONGOING and self._is_of_ongoing(marker, self._known):
            return self._undecided(place, marker, "its coordinator has it as Ongoing")
        if self._known.producer_epoch >= 0 and marker.marker_epoch > self._known.producer_epoch:
            text = f"its coordinator is at epoch {self._known.producer_epoch}, the marker at {marker.marker_epoch}"
            return self._undecided(place, marker, text)
        if 0 <= self._known.first_known_ms < marker.marker_timestamp - self._skew_ms:
            return self._undecided(
                place, marker, "no decision about it is in the coordinator's log, which has that time"
            )
        return None

    def _may_be_gone(self, marker: Ended) -> bool:
        is_before = marker.marker_timestamp - self._skew_ms <= self._unheard.begins_ms
        return marker.producer_id < self._unheard.end_id and is_before

    def finding_of_open(self, place: Place, opened: Open) -> Finding | None:
        """An open transaction that was decided long ago, under an epoch of its own, and whose marker never came."""
        for decision in self._by_epoch.get(opened.producer_epoch + 1, ()):
            is_in_it = (place.topic, place.partition) in self._partitions[(decision.log_partition, decision.offset)]
            is_over = self._known is not None and self._known.producer_epoch > decision.producer_epoch
            if is_in_it and decision.is_bumped and is_over and not opened.is_uncertain:
                return lost_marker(
                    place,
                    opened,
                    decision.log_partition,
                    decision.offset,
                    self._transactional_id,
                    commits=decision.commit,
                )
        return None

    def _decision_of(self, marker: Ended, place: Place) -> Decision | None:
        same = self._by_epoch.get(marker.marker_epoch, [])
        if marker.first_offset != NO_OFFSET and marker.data_epoch == marker.marker_epoch:
            # An epoch that its own transaction ended (before KIP-890), or an operator's marker, which bumps nothing.
            found = self._by_time([each for each in same if not each.is_bumped], marker, place)
            return found if found is not None else self._by_data(marker)
        return self._by_time(same, marker, place)

    def _by_data(self, marker: Ended) -> Decision | None:
        later = [each for each in self._by_epoch if each > marker.data_epoch]
        found = self._by_epoch[min(later)][0] if later else None
        is_its = found is not None and found.is_bumped and found.producer_epoch == marker.data_epoch + 1
        return found if is_its else None

    def _by_time(self, candidates: list[Decision], marker: Ended, place: Place) -> Decision | None:
        if len(candidates) == 1 and candidates[0].is_bumped:
            return candidates[0]
        before = [each for each in candidates if each.prepared_ms <= marker.marker_timestamp + self._skew_ms]
        if not before:
            return None
        if self._skew_ms and any(
            each.commit != marker.commit and abs(each.prepared_ms - marker.marker_timestamp) <= self._skew_ms
            for each in candidates
        ):
            # Clocks differ, and a decision of the other kind is near: it is believed to fit.
            near = [
                each
                for each in candidates
                if each.commit == marker.commit
                and (place.topic, place.partition) in self._partitions[(each.log_partition, each.offset)]
            ]
            return near[-1] if near else before[-1]
        newest = before[-1]
        # In the marker's own millisecond others may have been decided, before it and after it: its own is one of them, or the
        # last one of before.
        same_time = [each for each in before if each.prepared_ms >= marker.marker_timestamp]
        earlier = [each for each in before if each.prepared_ms < marker.marker_timestamp]
        fitting = [
            each
            for each in (*earlier[-1:], *same_time)
            if each.commit == marker.commit
            and (place.topic, place.partition) in self._partitions[(each.log_partition, each.offset)]
        ]
        return fitting[-1] if fitting else newest

    def _is_of_ongoing(self, marker: Ended, known: Known) -> bool:
        if marker.data_epoch != known.producer_epoch:
            return False
        return 0 <= known.start_ms < marker.marker_timestamp - self._skew_ms

    def _torn(self, place: Place, marker: Ended, decision: Decision) -> Finding:
        here = "committed" if marker.commit else "aborted"
        decided = "commit" if decision.commit else "abort"
        text = (
            f"{here} here by the marker at offset {marker.marker_offset}, but the coordinator decided to {decided} it "
            f"(__transaction_state-{decision.log_partition} offset {decision.offset}); other partitions: "
            + (", ".join(self._others(place, decision)) or "none")
        )
        return self._made(TORN, text, place, marker, NO_REPAIR)

    def _others(self, place: Place, decision: Decision) -> list[str]:
        everywhere = self._partitions[(decision.log_partition, decision.offset)]
        return [f"{topic}-{number}" for topic, number in sorted(everywhere - {(place.topic, place.partition)})]

    def _undecided(self, place: Place, marker: Ended, why: str) -> Finding:
        here = "committed" if marker.commit else "aborted"
        if marker.coordinator_epoch == NO_COORDINATOR_EPOCH and not marker.commit:
            text = f"{here} at offset {marker.marker_offset} by an operator ({why})"
            return self._made(NOTE, text, place, marker, "")
        text = f"{here} by the marker at offset {marker.marker_offset}, but {why}"
        return self._made(MARKER_WITHOUT_DECISION, text, place, marker, NO_REPAIR)

    def _made(self, kind: str, text: str, place: Place, marker: Ended, repair: str) -> Finding:
        return Finding(
            kind,
            text,
            *place,
            first_offset=marker.marker_offset if marker.first_offset == NO_OFFSET else marker.first_offset,
            last_offset=marker.marker_offset,
            producer_id=marker.producer_id,
            producer_epoch=marker.marker_epoch if marker.data_epoch < 0 else marker.data_epoch,
            transactional_id=self._transactional_id,
            repair=repair,
        )


def lost_marker(
    place: Place, opened: Open, log_partition: int, offset: int, transactional_id: str, *, commits: bool
) -> Finding:
    """A transaction that its coordinator decided and has as over, without its marker here."""
    return Finding(
        DECISION_WITHOUT_MARKER,
        f"the coordinator decided to {'commit' if commits else 'abort'} it (__transaction_state-{log_partition} offset "
        f"{offset}) and has it as complete; its marker is not here",
        *place,
        first_offset=opened.first_offset,
        last_offset=opened.last_offset,
        producer_id=opened.producer_id,
        producer_epoch=opened.producer_epoch,
        transactional_id=transactional_id,
        # An ABORT where the rest was committed would tear it: no command writes a lost COMMIT.
        repair=NO_COMMIT if commits else abort_command(place, opened),
    )


def abort_command(place: Place, opened: Open) -> str:
    """What ends a transaction on one partition."""
    words = ["transactions", "abort", "--topic", place.topic, "--partition", str(place.partition)]
    return shell_text(["oncelog", *words, "--start-offset", str(opened.first_offset)])


def _contradictions(markers: Sequence[tuple[Place, Ended]]) -> list[Finding]:
    """Without any decision left: one transaction of KIP-890 (an epoch is one transaction) with both outcomes."""
    outcomes: dict[int, dict[bool, tuple[Place, Ended]]] = {}
    found = []
    for place, marker in markers:
        if marker.first_offset == NO_OFFSET or marker.marker_epoch <= marker.data_epoch:
            continue
        other = outcomes.setdefault(marker.data_epoch, {}).setdefault(marker.commit, (place, marker))
        contrary = outcomes[marker.data_epoch].get(not marker.commit)
        if contrary is None or other[1] is not marker:
            continue
        where, that = contrary
        # With a commit that bumped the epoch it was one transaction; two aborts by a fence may share an epoch.
        here, there = ("committed", "aborted") if marker.commit else ("aborted", "committed")
        found.append(
            Finding(
                TORN,
                f"{here} here by the marker at offset {marker.marker_offset}, {there} on {where.topic}-{where.partition} "
                f"by the marker at offset {that.marker_offset}",
                *place,
                first_offset=marker.first_offset,
                last_offset=marker.marker_offset,
                producer_id=marker.producer_id,
                producer_epoch=marker.data_epoch,
                repair=NO_REPAIR,
            )
        )
    return found
