"""The coordinator's steps: `core.transaction_coordinator` itself, rebuilt before each."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

from evidence.model.states import (
    TRANSACTIONAL_ID,
    Coordinator,
    Kind,
    Message,
    Pending,
    Rules,
)
from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.transactions.coordinator import MarkerResult, TransactionConfig, TransactionCoordinator
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

FIRST_PRODUCER_ID = 100
CONFIG = TransactionConfig(two_phase_commit_enable=True)
AFTER_EVERY_TIMEOUT_MS = 10**12


class Step(NamedTuple):
    """The coordinator afterwards and what it sends; None where the request has to wait."""

    coordinator: Coordinator
    messages: tuple[Message, ...] = ()


class CountedIds(ProducerIds):
    """Every id from the first on."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def take(self) -> int:
        self.count += 1
        return FIRST_PRODUCER_ID + self.count - 1


def partition_named(partition: int) -> TopicPartition:
    return TopicPartition("p", partition)


def rebuilt(state: Coordinator, rules: Rules) -> TransactionCoordinator:
    ids = CountedIds(state.producer_id_count)
    coordinator = TransactionCoordinator(0, state.coordinator_epoch, CONFIG, ids, lambda: rules.transaction_version)
    if state.record is not None:
        coordinator.apply(state.record)
        if TRANSACTIONAL_ID in coordinator.table.unwritten:
            coordinator.table.unwritten[TRANSACTIONAL_ID] = set(map(partition_named, state.unwritten))
    for waiting in state.pending:
        coordinator.appended((waiting.record,))
    return coordinator


def value_of(coordinator: TransactionCoordinator, state: Coordinator) -> Coordinator:
    ids = coordinator.table.producer_ids
    assert isinstance(ids, CountedIds)
    return state._replace(
        record=coordinator.get(TRANSACTIONAL_ID),
        unwritten=frozenset(p.partition for p in coordinator.table.unwritten.get(TRANSACTIONAL_ID, ())),
        producer_id_count=ids.count,
    )


def decided(coordinator: TransactionCoordinator, state: Coordinator, decision: Decision, reply: Message | None) -> Step:
    """Append what was decided; `core` itself refuses a transition that its table does not have."""
    coordinator.appended(decision.records)
    after = value_of(coordinator, state)
    if not decision.records:
        return Step(after, (*((reply,) if reply else ()), *markers_of(decision.markers)))
    (record,) = decision.records
    waiting = Pending(record, reply, decision.markers)
    return Step(after._replace(pending=(*state.pending, waiting), decision_count=state.decision_count + 1))


def markers_of(markers: tuple[MarkersToWrite, ...]) -> tuple[Message, ...]:
    """One message per partition. `prepared` travels beside: equality of markers ignores it."""
    return tuple(
        Message(
            Kind.MARKER,
            partition=partition.partition,
            markers=replace(each, partitions=frozenset({partition}), prepared=None),
            prepared=each.prepared,
        )
        for each in markers
        for partition in each.partitions
    )


@cache
def synced(state: Coordinator, rules: Rules) -> Step:
    """What waits is durable: apply it, then answer, then write markers."""
    waiting, *rest = state.pending
    coordinator = rebuilt(state, rules)
    coordinator.apply(waiting.record)
    after = value_of(coordinator, state)._replace(pending=tuple(rest))
    return Step(after, (*((waiting.reply,) if waiting.reply else ()), *markers_of(waiting.markers)))


@cache
def crashed(state: Coordinator, rules: Rules, *, kept_count: int) -> Step:
    """It loads its log again, of whose unsynced records some first ones are there, and resends the markers it owes."""
    for _ in range(kept_count):
        state = synced(state, rules).coordinator
    state = state._replace(pending=(), coordinator_epoch=state.coordinator_epoch + 1)
    coordinator = rebuilt(state._replace(unwritten=frozenset()), rules)
    if state.record is not None:
        coordinator.apply(state.record)
    state = value_of(coordinator, state)
    messages: tuple[Message, ...] = ()
    for decision in coordinator.pending_completions(state.decision_count + 1):
        state, more = decided(coordinator, state, decision, None)
        messages += more
    return Step(state, messages)


@cache
def timed_out(state: Coordinator, rules: Rules) -> Step | None:
    """The transaction's timeout passes; None where nothing has one."""
    coordinator = rebuilt(state, rules)
    for decision in coordinator.timed_out(AFTER_EVERY_TIMEOUT_MS):
        # The clock of the model counts decisions, else every record after this one would be younger.
        records = tuple(replace(r, last_update_ms=state.decision_count + 1) for r in decision.records)
        markers = tuple(replace(m, prepared=records[0]) for m in decision.markers)
        return decided(coordinator, state, replace(decision, records=records, markers=markers), None)
    return None


@cache
def request(state: Coordinator, message: Message, rules: Rules) -> Step | None:
    """A request of a client or of a leader; None while it is held until the transition under way is over."""
    coordinator = rebuilt(state, rules)
    now_ms = state.decision_count + 1
    if message.kind is Kind.ASK:
        return _ask(coordinator, state, message, rules, now_ms)
    decision = _decision(coordinator, message, rules, now_ms)
    if decision.held_until_complete is not None and not decision.records:
        return None
    reply = Message(Kind.REPLY, message.client, message.number, error=_error(decision.reply))
    if message.kind is not Kind.ADD and reply.error == 0:
        reply = reply._replace(
            identity=(getattr(decision.reply, "producer_id", -1), getattr(decision.reply, "producer_epoch", -1)),
            ongoing=(
                getattr(decision.reply, "ongoing_txn_producer_id", -1),
                getattr(decision.reply, "ongoing_txn_producer_epoch", -1),
            ),
        )
    return decided(coordinator, state, decision, reply)


def _decision(coordinator: TransactionCoordinator, message: Message, rules: Rules, now_ms: int) -> Decision:
    producer_id, producer_epoch = message.identity
    if message.kind is Kind.INIT:
        init = InitProducerIdRequest(
            transactional_id=TRANSACTIONAL_ID,
            transaction_timeout_ms=60_000,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            enable_2pc=rules.two_phase,
            keep_prepared_txn=message.keep,
        )
        return coordinator.init_producer_id(init, 6 if rules.two_phase else 5, now_ms)
    if message.kind is Kind.END:
        end = EndTxnRequest(
            transactional_id=TRANSACTIONAL_ID,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            committed=message.commit,
        )
        return coordinator.end_txn(end, 5 if rules.is_new else 4, now_ms)
    assert message.kind is Kind.ADD
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTIONAL_ID,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=producer_epoch,
        v3_and_below_topics=[_topic(message.partition)],
    )
    return coordinator.add_partitions_to_txn(add, 3, now_ms)


def _ask(
    coordinator: TransactionCoordinator, state: Coordinator, message: Message, rules: Rules, now_ms: int
) -> Step | None:
    entry = AddPartitionsToTxnTransaction(
        transactional_id=TRANSACTIONAL_ID,
        producer_id=message.identity[0],
        producer_epoch=message.identity[1],
        verify_only=not rules.is_new,
        topics=[_topic(message.partition)],
    )
    decision = coordinator.add_partitions(entry, 5, now_ms)
    if decision.held_until_complete is not None and not decision.records:
        return None
    return decided(
        coordinator, state, decision, message._replace(kind=Kind.ANSWER, error=_error(decision.reply), copy=0)
    )


def _topic(partition: int) -> AddPartitionsToTxnTopic:
    return AddPartitionsToTxnTopic(name="p", partitions=[partition])


def _error(reply: object) -> int:
    for name in ("topic_results", "results_by_topic_v3_and_below"):
        if getattr(reply, name, None):
            return int(getattr(reply, name)[0].results_by_partition[0].partition_error_code)
    return int(reply.error_code)


@cache
def written(state: Coordinator, message: Message, rules: Rules) -> Step:
    """A leader's answer for a marker. It belongs to the very decision that sent it (KAFKA-16352)."""
    assert message.markers is not None
    if message.markers.coordinator_epoch < state.coordinator_epoch:
        return Step(state)  # who asked is gone
    coordinator = rebuilt(state, rules)
    prepared = coordinator.get(TRANSACTIONAL_ID) if state.record == message.prepared else None
    markers = replace(message.markers, prepared=prepared)
    results = {partition_named(message.partition): MarkerResult(ErrorCode(message.error))}
    decision = coordinator.markers_written(markers, results, state.decision_count + 1)
    return decided(coordinator, state, decision, None)
