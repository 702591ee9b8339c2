"""Markers against decisions, before and after KIP-890."""

from __future__ import annotations

from oncelog.core.reconciliation.coordinator_log import Decision, Known
from oncelog.core.reconciliation.ended import COORDINATOR_GONE, Place, Unheard, judge_producer
from oncelog.core.reconciliation.findings import (
    DECISION_WITHOUT_MARKER,
    MARKER_WITHOUT_DECISION,
    NOTE,
    TORN,
)
from oncelog.core.reconciliation.partition_replay import Ended, Open
from oncelog.wire.log_records.transaction_state import TransactionState

A, B = Place("/data", "t", 0), Place("/data", "t", 1)
DONE = Known(7, 0, TransactionState.COMPLETE_COMMIT, 9, 0, "id")


def ended(data_epoch: int, marker_epoch: int, *, commit: bool, at_ms: int = 100, coordinator_epoch: int = 0) -> Ended:
    return Ended(7, data_epoch, marker_epoch, 10, 11, 12, at_ms, commit, coordinator_epoch)


def decision(
    producer_epoch: int, *, commit: bool, partition: int = 0, at_ms: int = 100, bumped: bool = True, offset: int = 1
) -> Decision:
    return Decision(7, producer_epoch, bumped, commit, "t", partition, at_ms, 0, offset)


def kinds(
    markers: list[tuple[Place, Ended]], decisions: list[Decision], known: Known | None = DONE, **more: object
) -> list[str]:
    options = {"is_whole": True, "clock_skew_ms": 0} | more
    return [each.kind for each in judge_producer(markers, decisions, known, **options)]  # type: ignore[arg-type]


def test_a_marker_as_decided() -> None:
    assert kinds([(A, ended(1, 2, commit=True))], [decision(2, commit=True)]) == []


def test_a_marker_against_its_decision_is_torn() -> None:
    decisions = [decision(2, commit=True), decision(2, commit=True, partition=1)]
    (found,) = judge_producer(
        [(A, ended(1, 2, commit=True)), (B, ended(1, 2, commit=False))], decisions, DONE, is_whole=True, clock_skew_ms=0
    )
    assert (found.kind, found.partition, found.first_offset, found.last_offset, found.producer_epoch) == (
        TORN,
        1,
        10,
        12,
        1,
    )
    assert "t-0" in found.text


def test_an_operators_abort_of_what_was_committed_elsewhere_is_torn() -> None:
    assert kinds([(A, ended(1, 1, commit=False))], [decision(2, commit=True)]) == [TORN]


def test_both_outcomes_without_a_decision_are_torn() -> None:
    markers = [(A, ended(1, 2, commit=True)), (B, ended(1, 2, commit=False))]
    assert kinds(markers, [], None, is_whole=False) == [TORN]
    assert kinds([(A, ended(1, 2, commit=True)), (B, ended(2, 3, commit=False))], [], None, is_whole=False) == []


def test_a_marker_that_no_decision_names() -> None:
    assert kinds([(A, ended(1, 2, commit=True))], [decision(2, commit=True, partition=1)]) == [MARKER_WITHOUT_DECISION]
    assert kinds([(A, ended(1, 2, commit=True))], [decision(4, commit=True)]) == [MARKER_WITHOUT_DECISION]
    assert kinds([(A, ended(11, 12, commit=True))], []) == [MARKER_WITHOUT_DECISION]  # ahead of its coordinator


def test_a_marker_from_before_what_is_known_is_not_judged() -> None:
    assert kinds([(A, ended(1, 2, commit=True))], [], DONE._replace(first_known_ms=500)) == []
    assert kinds([(A, ended(1, 2, commit=True))], [], DONE._replace(first_known_ms=-1)) == []


def test_a_producer_that_no_whole_coordinator_knows() -> None:
    assert kinds([(A, ended(1, 2, commit=True))], [], None) == [MARKER_WITHOUT_DECISION]
    assert kinds([(A, ended(1, 2, commit=True))], [], None, is_whole=False) == []


def test_a_producer_whose_coordinator_may_be_gone_is_not_judged() -> None:
    """A coordinator's log that was lost and begun anew knows nobody from before."""
    marker = [(A, ended(1, 2, commit=True))]

    def judged(unheard: Unheard, *, is_whole: bool = True) -> list[tuple[str, str]]:
        found = judge_producer(marker, [], None, is_whole=is_whole, clock_skew_ms=0, unheard=unheard)
        return [(each.kind, each.text) for each in found]

    assert judged(Unheard(end_id=8, begins_ms=101)) == [(NOTE, COORDINATOR_GONE)]
    assert judged(Unheard(8, 101), is_whole=False) == []
    for unheard in (Unheard(end_id=7, begins_ms=101), Unheard(end_id=8, begins_ms=99)):
        ((kind, text),) = judged(unheard)
        assert (kind, "no coordinator ever knew" in text) == (MARKER_WITHOUT_DECISION, True)


def test_an_operators_abort_of_a_hanging_transaction_is_a_note() -> None:
    assert kinds([(A, ended(1, 1, commit=False, coordinator_epoch=-1))], []) == [NOTE]


def test_a_marker_within_an_ongoing_transaction() -> None:
    ongoing = Known(7, -1, TransactionState.ONGOING, 1, 50, "id")
    assert kinds([(A, ended(1, 1, commit=True))], [], ongoing) == [MARKER_WITHOUT_DECISION]
    assert kinds([(A, ended(1, 1, commit=True, at_ms=40))], [], ongoing) == []


def test_before_kip_890_transactions_are_told_apart_by_time() -> None:
    decisions = [
        decision(3, commit=True, at_ms=100, bumped=False, offset=1),
        decision(3, commit=False, at_ms=200, bumped=False, offset=2),
    ]
    good = [(A, ended(3, 3, commit=True, at_ms=101)), (A, ended(3, 3, commit=False, at_ms=201))]
    assert kinds(good, decisions) == []
    assert kinds([(A, ended(3, 3, commit=False, at_ms=101)), good[1]], decisions) == [TORN]
    # With clocks that may differ a decision of the other kind is near enough.
    assert kinds([(A, ended(3, 3, commit=False, at_ms=101))], decisions, clock_skew_ms=1000) == []


def test_an_older_decision_whose_marker_never_came() -> None:
    opened = Open(7, 1, 10, 11, 100, False)
    found = judge_producer([], [decision(2, commit=True)], DONE, opened=[(A, opened)], is_whole=True, clock_skew_ms=0)
    assert [each.kind for each in found] == [DECISION_WITHOUT_MARKER]
    assert found[0].repair.startswith("no command")
    aborted = judge_producer(
        [], [decision(2, commit=False)], DONE, opened=[(A, opened)], is_whole=True, clock_skew_ms=0
    )
    assert aborted[0].repair == "oncelog transactions abort --topic t --partition 0 --start-offset 10"


def test_a_decision_that_may_be_damaged_is_not_missed() -> None:
    damaged = DONE._replace(is_damaged=True)
    ahead = [(A, ended(11, 12, commit=True))]
    assert kinds(ahead, [], DONE) == [MARKER_WITHOUT_DECISION]
    assert kinds(ahead, [], damaged) == []
    assert kinds([(A, ended(1, 2, commit=True))], [], damaged) == []
    # Before KIP-890 the one before it has the same epoch; with it an epoch is one transaction.
    assert kinds([(A, ended(1, 1, commit=False))], [decision(1, commit=True, bumped=False)], DONE) == [TORN]
    assert kinds([(A, ended(1, 1, commit=False))], [decision(1, commit=True, bumped=False)], damaged) == []
    assert kinds([(A, ended(1, 2, commit=False))], [decision(2, commit=True)], damaged) == [TORN]


def test_before_kip_890_the_next_decision_in_a_markers_own_millisecond_is_not_taken_for_its_own() -> None:
    """A fast broker completes one, and decides the next, in the millisecond of the first one's marker."""
    decisions = [
        decision(1, commit=True, at_ms=99, bumped=False, offset=1),
        decision(1, commit=False, at_ms=100, bumped=False, offset=2),
        decision(1, commit=True, partition=1, at_ms=100, bumped=False, offset=3),
    ]
    assert kinds([(A, ended(1, 1, commit=True, at_ms=100)), (A, ended(1, 1, commit=False, at_ms=100))], decisions) == []
    assert kinds([(B, ended(1, 1, commit=False, at_ms=100))], decisions) == [TORN]
    assert kinds([(A, ended(1, 1, commit=True, at_ms=100))], decisions[1:2]) == [TORN]
