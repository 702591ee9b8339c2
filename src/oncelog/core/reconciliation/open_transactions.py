"""Open transactions of partitions against the coordinators: which will be ended, and by whom; which never (KIP-664).

And the other way round: what is Ongoing at a coordinator though nobody will end it.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.core.reconciliation.coordinator_log import COMPLETED, PREPARED, CoordinatorLog, Current
from oncelog.core.reconciliation.ended import Place, abort_command, lost_marker
from oncelog.core.reconciliation.findings import DECISION_WITHOUT_MARKER, HANGING, NOTE, ORPHANED, Finding
from oncelog.core.reconciliation.partition_replay import Open
from oncelog.core.shell_words import shell_text
from oncelog.core.two_phase.exactly_once_sink import DecisionLog, attempt_name
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import TWO_PHASE_TIMEOUT_MS, TransactionRecord, TransactionState

OVERDUE_MS = 60_000  # how long a coordinator may take to notice a timeout (it looks every ten seconds)


def judge_open(
    place: Place, opened: Open, coordinators: CoordinatorLog, *, names_every_producer: bool
) -> Finding | None:
    """Why this transaction will not be ended, or that it is only unfinished; None for one that is well.

    `names_every_producer`: all partitions of `__transaction_state` were given, so that an unknown id has no coordinator.
    """
    if coordinators.has_moved(opened.producer_id):
        return None
    if opened.is_uncertain:
        return _finding(
            NOTE,
            place,
            opened,
            "open, unless its marker lies in what is damaged or could not be read behind it",
            "",
            "",
        )
    current = coordinators.owner_of(opened.producer_id)
    if current is None:
        return _unknown(place, opened, coordinators, names_every_producer)
    found = _by_record(place, opened, current.record, coordinators)
    if found is not None and found.kind in (HANGING, DECISION_WITHOUT_MARKER) and coordinators.is_damaged_for(current):
        # The record that says so need not be the last one: an abort might tear what was committed.
        text = f"{found.text}; but records of its coordinator are damaged or gone: end nothing"
        return _finding(NOTE, place, opened, text, current.record.transactional_id, "")
    return found


def _by_record(place: Place, opened: Open, record: TransactionRecord, coordinators: CoordinatorLog) -> Finding | None:
    is_in_it = TopicPartition(place.topic, place.partition) in record.partitions
    if record.producer_id != opened.producer_id:
        return _hanging(place, opened, record, f"its coordinator went on to producer {record.producer_id}")
    if record.state is TransactionState.ONGOING:
        if record.producer_epoch != opened.producer_epoch:
            return _hanging(place, opened, record, f"its coordinator is at epoch {record.producer_epoch}")
        return (
            None if is_in_it else _hanging(place, opened, record, "its coordinator does not have this partition in it")
        )
    if record.state in PREPARED:
        if is_in_it and record.producer_epoch >= opened.producer_epoch:
            outcome = "committed" if record.state is TransactionState.PREPARE_COMMIT else "aborted"
            text = f"decided to be {outcome}; its marker is not here yet: the coordinator sends it, or will at its next start"
            return _finding(NOTE, place, opened, text, record.transactional_id, "")
        return _hanging(place, opened, record, "the decided transaction does not have this partition in it")
    return _decided(place, opened, record, coordinators)


def judge_ongoing(
    coordinators: CoordinatorLog, sink_decisions: DecisionLog | None, *, now_ms: int, prefix: str, directory: str
) -> Iterable[Finding]:
    """What the coordinators have as Ongoing and nobody will end. `now_ms`: the newest time that a broker wrote anywhere.

    `sink_decisions` are those of the Spark sink, with transactional ids of `prefix`.
    """
    for current in coordinators.current.values():
        record = current.record
        if record.state is not TransactionState.ONGOING or coordinators.has_moved(record.producer_id):
            continue
        if coordinators.is_damaged_for(current):
            continue  # it may be over
        name = attempt_name(prefix, record.transactional_id)
        if sink_decisions is not None and name is not None:
            found = _sink_finding(current, sink_decisions, directory, name.query_id, name.batch_id)
            if found is not None:
                yield found
                continue
        if record.timeout_ms == TWO_PHASE_TIMEOUT_MS:
            text = "in two-phase commit: it waits for the decision of a database or a driver, without a timeout"
            yield _of_coordinator(NOTE, current, directory, text, "")
        elif record.start_ms >= 0 and now_ms - record.start_ms > record.timeout_ms + OVERDUE_MS:
            late_ms = now_ms - record.start_ms - record.timeout_ms
            text = f"Ongoing, and its timeout passed {late_ms // 1000} s before the newest record of these directories"
            yield _of_coordinator(ORPHANED, current, directory, text, _force_terminate(record))


def _sink_finding(
    current: Current, decisions: DecisionLog, directory: str, query_id: str, batch_id: str
) -> Finding | None:
    record = current.record
    known = decisions.known(query_id, batch_id)
    if known.decision is None and not known.is_superseded:
        return None  # its driver may still decide, also a batch write's version below the newest
    repair = shell_text(["oncelog", "recover", "--query", query_id])
    if known.decision is not None and any(
        each.transactional_id == record.transactional_id for each in known.decision.winners
    ):
        text = f"decided by batch {batch_id} of query {query_id}, and not completed yet: the query's next start does"
        return _of_coordinator(NOTE, current, directory, text, repair)
    text = f"an attempt at batch {batch_id} of query {query_id}, which others won: it can never be committed"
    return _of_coordinator(ORPHANED, current, directory, text, repair)


def _unknown(place: Place, opened: Open, coordinators: CoordinatorLog, names_every_producer: bool) -> Finding:
    if not coordinators.partitions:
        text = "open; no log of a transaction coordinator was given, so nothing tells whether anybody will end it"
        return _finding(NOTE, place, opened, text, "", "")
    if coordinators.is_damaged:
        text = "open; no coordinator that can be read knows it, and records of others are damaged or gone: end nothing"
        return _finding(NOTE, place, opened, text, "", "")
    if not names_every_producer:
        text = "open; none of the given coordinators knows it: give the directories of all brokers"
        return _finding(NOTE, place, opened, text, "", "")
    text = "open, and no coordinator knows its producer"
    return _finding(HANGING, place, opened, text, "", abort_command(place, opened))


def _decided(place: Place, opened: Open, record: TransactionRecord, coordinators: CoordinatorLog) -> Finding:
    decision = coordinators.last_decision_of(record.transactional_id)
    if decision is not None and record.state in COMPLETED:
        decided = decision.record
        is_in_it = TopicPartition(place.topic, place.partition) in decided.partitions
        bumped = decided.producer_epoch - 1 if decided.client_transaction_version >= 2 else decided.producer_epoch
        # Before KIP-890 epochs do not tell: where a marker came after the decision, what is open came after it as well.
        came = opened.last_marker_timestamp >= decided.last_update_ms
        is_its = decided.producer_id == opened.producer_id and opened.producer_epoch == bumped and not came
        if is_in_it and is_its:
            commits = decided.state is TransactionState.PREPARE_COMMIT
            where = (decision.log_partition, decision.offset)
            return lost_marker(place, opened, *where, record.transactional_id, commits=commits)
    return _hanging(
        place, opened, record, f"its coordinator is in state {record.state.name} at epoch {record.producer_epoch}"
    )


def _hanging(place: Place, opened: Open, record: TransactionRecord, why: str) -> Finding:
    return _finding(HANGING, place, opened, f"open, and {why}", record.transactional_id, abort_command(place, opened))


def _force_terminate(record: TransactionRecord) -> str:
    return shell_text(["oncelog", "transactions", "force-terminate", "--transactional-id", record.transactional_id])


def _finding(kind: str, place: Place, opened: Open, text: str, transactional_id: str, repair: str) -> Finding:
    return Finding(
        kind,
        text,
        *place,
        first_offset=opened.first_offset,
        last_offset=opened.last_offset,
        producer_id=opened.producer_id,
        producer_epoch=opened.producer_epoch,
        transactional_id=transactional_id,
        repair=repair,
    )


def _of_coordinator(kind: str, current: Current, directory: str, text: str, repair: str) -> Finding:
    record = current.record
    return Finding(
        kind,
        text,
        directory,
        "__transaction_state",
        current.log_partition,
        first_offset=current.offset,
        last_offset=current.offset,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        transactional_id=record.transactional_id,
        repair=repair,
    )
