"""Open transactions against coordinators (KIP-664), and Ongoing ones that nobody ends."""

from __future__ import annotations

from oncelog.core.reconciliation.coordinator_log import CoordinatorLog
from oncelog.core.reconciliation.ended import Place
from oncelog.core.reconciliation.findings import DECISION_WITHOUT_MARKER, HANGING, NOTE, ORPHANED
from oncelog.core.reconciliation.open_transactions import judge_ongoing, judge_open
from oncelog.core.reconciliation.partition_replay import Open
from oncelog.core.two_phase.exactly_once_sink import (
    DECISION,
    Attempt,
    BatchDecision,
    DecisionLog,
    batch_write_query_id,
    decision_value,
    record_key,
    transactional_id_for,
)
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState, TransactionTombstone

PLACE = Place("/data", "t", 0)
OPEN = Open(7, 3, 10, 11, 100, is_uncertain=False)
State = TransactionState


def record(
    state: TransactionState, producer_epoch: int, *numbers: int, name: str = "id", timeout_ms: int = 60_000
) -> TransactionRecord:
    partitions = frozenset(TopicPartition("t", number) for number in numbers)
    return TransactionRecord(
        name, 7, producer_epoch, timeout_ms, state, partitions, 1000, 1000, client_transaction_version=2
    )


def log_of(*records: TransactionRecord | TransactionTombstone) -> CoordinatorLog:
    log = CoordinatorLog()
    log.begin(0)
    for offset, each in enumerate(records):
        log.take(0, offset, each)
    return log


def kind(log: CoordinatorLog, opened: Open = OPEN, *, names_every_producer: bool = True) -> str | None:
    found = judge_open(PLACE, opened, log, names_every_producer=names_every_producer)
    return None if found is None else found.kind


def test_an_ongoing_transaction_is_well() -> None:
    assert kind(log_of(record(State.ONGOING, 3, 0))) is None


def test_a_decided_one_without_its_marker_yet_is_unfinished() -> None:
    assert kind(log_of(record(State.PREPARE_COMMIT, 4, 0))) == NOTE


def test_hanging_transactions() -> None:
    for records in [
        (),
        (record(State.ONGOING, 3, 1),),
        (record(State.ONGOING, 4, 0),),
        (record(State.EMPTY, 4),),
        (record(State.COMPLETE_COMMIT, 9),),
        (record(State.PREPARE_ABORT, 4, 1),),
        (record(State.ONGOING, 3, 0), TransactionTombstone("id")),
    ]:
        assert kind(log_of(*records)) == HANGING, records
    found = judge_open(PLACE, OPEN, log_of(), names_every_producer=True)
    assert found is not None
    assert found.repair == "oncelog transactions abort --topic t --partition 0 --start-offset 10"


def test_without_all_coordinators_an_unknown_producer_is_not_judged() -> None:
    assert kind(log_of(), names_every_producer=False) == NOTE
    assert kind(CoordinatorLog()) == NOTE


def test_completed_without_a_marker() -> None:
    log = log_of(record(State.PREPARE_COMMIT, 4, 0), record(State.COMPLETE_COMMIT, 4))
    assert kind(log) == DECISION_WITHOUT_MARKER
    late = OPEN._replace(last_marker_timestamp=1000)
    assert kind(log, late) == HANGING, "its marker came, and then a late batch"


def test_what_moved_while_it_was_read_is_not_judged() -> None:
    log = log_of(record(State.EMPTY, 4))
    log.follow()
    log.take(0, 5, record(State.COMPLETE_COMMIT, 9))
    assert kind(log) is None


def test_an_uncertain_one_is_a_note() -> None:
    assert kind(log_of(), OPEN._replace(is_uncertain=True)) == NOTE


def test_ongoing_past_its_timeout_is_orphaned() -> None:
    def kinds(now_ms: int, timeout_ms: int = 60_000) -> list[str]:
        log = log_of(record(State.ONGOING, 3, 0, timeout_ms=timeout_ms))
        return [each.kind for each in judge_ongoing(log, None, now_ms=now_ms, prefix="p", directory="/data")]

    assert kinds(100_000) == []
    assert kinds(200_000) == [ORPHANED]
    assert kinds(200_000, 2147483647) == [NOTE]


def test_attempts_of_the_spark_sink() -> None:
    def kinds(attempt_number: int, batch: str) -> list[str]:
        name = transactional_id_for("p", "query", batch, 0, "runrunrun", attempt_number)
        winner = Attempt(transactional_id_for("p", "query", "4", 0, "runrunrun", 1), "7:3", 1)
        decisions = DecisionLog()
        value = decision_value(BatchDecision("query", "4", "runrunrun", (winner,)))
        decisions.apply(record_key("query", "4", DECISION, "runrunrun"), value)
        log = log_of(record(State.ONGOING, 3, 0, name=name, timeout_ms=2147483647))
        return [each.kind for each in judge_ongoing(log, decisions, now_ms=0, prefix="p", directory="/data")]

    assert kinds(0, "4") == [ORPHANED]
    assert kinds(1, "4") == [NOTE]
    assert kinds(0, "5") == [NOTE]  # its driver may still decide


def test_a_batch_writes_version_below_the_newest_may_still_be_decided() -> None:
    query_id = batch_write_query_id("app", "t")

    def kinds(batch: str, attempt_number: int = 0) -> list[str]:
        name = transactional_id_for("p", query_id, batch, 0, "runrunrun", attempt_number)
        decisions = DecisionLog()
        for decided in ("4", "007", "x"):
            winner = Attempt(transactional_id_for("p", query_id, decided, 0, "runrunrun", 1), "7:3", 1)
            value = decision_value(BatchDecision(query_id, decided, "runrunrun", (winner,)))
            decisions.apply(record_key(query_id, decided, DECISION, "runrunrun"), value)
        log = log_of(record(State.ONGOING, 3, 0, name=name))
        return [each.kind for each in judge_ongoing(log, decisions, now_ms=0, prefix="p", directory="/data")]

    assert kinds("3") == [], "a backfill that is being written"
    assert kinds("4") == [ORPHANED]
    assert kinds("007", 1) == kinds("x", 1) == [NOTE], "decided, and found under its own name"
    assert kinds("x") == [ORPHANED]


def test_nothing_is_ended_by_a_record_behind_which_others_are_damaged() -> None:
    """The last one that can be read says EMPTY, and the damaged one behind it said Ongoing: `why` said end nothing, and here an
    abort was advised."""
    for records in [
        (record(State.EMPTY, 3),),
        (record(State.ONGOING, 4, 0),),
        (record(State.PREPARE_COMMIT, 4, 0), record(State.COMPLETE_COMMIT, 4)),
        (),
    ]:
        log = log_of(*records)
        log.gap(0, is_damage=True)
        found = judge_open(PLACE, OPEN, log, names_every_producer=True)
        assert found is not None
        assert (found.kind, found.repair) == (NOTE, ""), records
        assert found.text.endswith("damaged or gone: end nothing")
    log = log_of(record(State.ONGOING, 3, 0))
    log.gap(0, is_damage=True)
    assert kind(log) is None
    assert list(judge_ongoing(log, None, now_ms=10**9, prefix="p", directory="/data")) == []


def test_damage_of_another_coordinator_is_no_doubt() -> None:
    log = log_of(record(State.EMPTY, 3))
    log.gap(1, is_damage=True)
    assert kind(log) == HANGING
    log.gap(0)
    assert kind(log) == HANGING, "compaction takes no record that is the last one"
