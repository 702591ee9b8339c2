"""Random clients, delays, lost answers and crashes against one coordinator, and what must hold meanwhile.

`simulate(seed)` raises AssertionError when one of these breaks:
replay of every prefix of the log is the live state; no identity belongs to two instances; only legal transitions happen
(asserted in `appended`); a Complete record comes only after every marker; an end is answered the same however often it is
asked, also over restarts and new producer ids; a two-phase transaction is never ended by time; every added partition is
marked.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass

from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.transactions.coordinator import MarkerResult, TransactionConfig, TransactionCoordinator
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.transaction import PREPARED, TransactionRecord, TransactionState, acting, is_two_phase
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import (
    TransactionLogRecord,
    TransactionTombstone,
    record_from_key_value,
    record_to_key_value,
)
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

E = ErrorCode
NONE = ProducerIdAndEpoch()
MARKER_ERRORS = [E.NONE] * 4 + [E.NOT_LEADER_OR_FOLLOWER, E.TRANSACTION_COORDINATOR_FENCED, E.REQUEST_TIMED_OUT]


@dataclass
class Instance:
    """One producer process: it knows the identity of its last answer, and retries what was not answered."""

    transactional_id: str
    number: int
    identity: ProducerIdAndEpoch = NONE
    two_phase: bool = False
    is_dead: bool = False


class Simulation:
    """One seed. A decision is appended at once, committed later in order, and lost by a crash before that."""

    def __init__(self, seed: int, *, level: int) -> None:
        self.random = random.Random(seed)
        self.level = level
        self.now_ms = 1_000_000
        self.coordinator_epoch = 0
        self.ids = ProducerIds()
        self.next_block = 0
        self.committed: list[tuple[bytes, bytes | None]] = []
        self.waiting: list[tuple[Instance | None, object, Decision]] = []
        self.markers: list[MarkersToWrite] = []
        self.instances: list[Instance] = []
        self.owner: dict[tuple[str, ProducerIdAndEpoch], int] = {}
        self.outcomes: dict[tuple[str, ProducerIdAndEpoch], bool] = {}
        self.acknowledged: dict[str, set[TopicPartition]] = {}
        self.seen: Counter[str] = Counter()
        self.coordinator = self.loaded()
        self.twin = self.loaded()

    def loaded(self) -> TransactionCoordinator:
        config = TransactionConfig(two_phase_commit_enable=True, transactional_id_expiration_ms=10_000_000)
        coordinator = TransactionCoordinator(0, self.coordinator_epoch, config, self.ids, lambda: self.level)
        for key, value in self.committed:
            record = record_from_key_value(key, value)
            assert record is not None
            coordinator.apply(record)
        return coordinator

    # -- the shell

    def perform(self, instance: Instance | None, request: object, decision: Decision) -> None:
        self.check_decision(decision)
        self.coordinator.appended(decision.records)
        self.waiting.append((instance, request, decision))
        if not decision.records or self.random.random() < 0.6:
            self.commit(len(self.waiting))

    def commit(self, count: int) -> None:
        for _ in range(count):
            instance, request, decision = self.waiting.pop(0)
            for record in decision.records:
                self.committed.append(record_to_key_value(record))
                self.coordinator.apply(record)
                self.note(record)
                replayed = record_from_key_value(*self.committed[-1])
                assert replayed is not None
                self.twin.apply(replayed)
            assert self.twin.table.transactions == self.coordinator.table.transactions, "replay is the live state"
            self.markers += decision.markers
            if instance is not None and decision.reply is not None and self.random.random() < 0.8:
                self.answered(instance, request, decision)

    def crash(self) -> None:
        """Any part of what waits may have reached the log, in order; nobody is answered."""
        self.seen["crash"] += 1
        for _, _, decision in self.waiting[: self.random.randint(0, len(self.waiting))]:
            for record in decision.records:
                self.committed.append(record_to_key_value(record))
                self.note(record)
                self.twin.apply(record)
        self.waiting, self.markers = [], []
        self.coordinator_epoch += 1
        self.coordinator = self.loaded()
        assert self.twin.table.transactions == self.coordinator.table.transactions
        for decision in self.coordinator.pending_completions(self.now_ms):
            self.perform(None, None, decision)

    # -- what must hold

    def check_decision(self, decision: Decision) -> None:
        for record in decision.records:
            if isinstance(record, TransactionTombstone) or record.state not in PREPARED:
                continue
            before = self.coordinator.get(record.transactional_id)
            assert before is not None
            if before.state is TransactionState.ONGOING:
                expected = self.acknowledged.get(record.transactional_id, set())
                assert expected <= record.partitions, "every partition that was answered gets a marker"
            assert record.producer_id == before.producer_id
            assert record.producer_epoch == before.producer_epoch + 1, "the marker fences the transaction (KIP-890)"

    def note(self, record: TransactionLogRecord) -> None:
        """A record is in the log for good."""
        if isinstance(record, TransactionTombstone):
            self.acknowledged.pop(record.transactional_id, None)
            return
        name = record.transactional_id
        self.seen[record.state.name] += 1
        if record.state in PREPARED:
            before = self.twin.get(name)
            assert before is not None
            commit = record.state is TransactionState.PREPARE_COMMIT
            assert self.outcomes.setdefault((name, acting(before)), commit) == commit, "one identity, one outcome"
            self.acknowledged.pop(name, None)
        elif record.state is not TransactionState.ONGOING:
            self.acknowledged.pop(name, None)

    def answered(self, instance: Instance, request: object, decision: Decision) -> None:
        reply = decision.reply
        if isinstance(request, AddPartitionsToTxnTransaction):
            codes = {r.partition_error_code for t in reply.topic_results for r in t.results_by_partition}
            if codes == {E.NONE} and decision.records:
                self.acknowledged.setdefault(instance.transactional_id, set()).update(_partitions(request))
            instance.is_dead |= bool(codes & {E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING, E.INVALID_TXN_STATE})
            return
        if reply.error_code == E.NONE:
            identity = ProducerIdAndEpoch(reply.producer_id, reply.producer_epoch)
            if isinstance(request, EndTxnRequest):
                asked = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
                outcome = self.outcomes.get((instance.transactional_id, asked))
                assert outcome == request.committed, "success says that what was asked is what happened"
                self.seen["ended"] += 1
            owner = self.owner.setdefault((instance.transactional_id, identity), instance.number)
            assert owner == instance.number, f"{identity} belongs to two instances"
            assert 0 <= identity.producer_epoch <= (32766 if isinstance(request, EndTxnRequest) else 32767)
            instance.identity = identity
        elif reply.error_code in (E.PRODUCER_FENCED, E.INVALID_PRODUCER_ID_MAPPING):
            instance.is_dead = True
            self.seen["fenced"] += 1
        assert reply.error_code not in (E.UNKNOWN_SERVER_ERROR, E.INVALID_REQUEST)

    # -- what happens

    def step(self) -> None:
        self.now_ms += self.random.choice([0, 1, 1000, 40_000]) * (self.random.random() < 0.9) - 5
        live = [instance for instance in self.instances if not instance.is_dead]
        chance = self.random.random()
        if not live or chance < 0.03:
            self.start_instance()
        elif chance < 0.05:
            self.crash()
        elif chance < 0.30:
            self.marker_answer()
        elif chance < 0.32:
            self.let_time_pass()
        elif chance < 0.45 and self.waiting:
            self.commit(self.random.randint(1, len(self.waiting)))
        else:
            self.request_of(self.random.choice(live))
        if self.ids.wants_block() and self.random.random() < 0.5:
            self.ids.give_block(self.next_block, 10)
            self.next_block += 10

    def start_instance(self) -> None:
        name = self.random.choice("ab")
        instance = Instance(name, len(self.instances), two_phase=self.level == 3 and self.random.random() < 0.3)
        self.instances.append(instance)

    def request_of(self, instance: Instance) -> None:
        kind = self.random.choice(["init", "add", "add", "end", "end"])
        if kind == "init" or instance.identity == NONE:
            resumes = self.random.random() < 0.7
            producer_id, producer_epoch = instance.identity if resumes else NONE
            init = InitProducerIdRequest(
                transactional_id=instance.transactional_id,
                transaction_timeout_ms=self.random.choice([60_000, 500_000]),
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                enable_2pc=instance.two_phase,
                keep_prepared_txn=self.level == 3 and self.random.random() < 0.4,
            )
            if not resumes:
                # A process that starts anew is another instance; the one before it lives on as a zombie.
                instance = Instance(instance.transactional_id, len(self.instances), two_phase=instance.two_phase)
                self.instances.append(instance)
            self.perform(instance, init, self.coordinator.init_producer_id(init, 6, self.now_ms))
        elif kind == "add":
            topic = AddPartitionsToTxnTopic(name="t", partitions=self.random.sample(range(4), 2))
            add = AddPartitionsToTxnTransaction(
                transactional_id=instance.transactional_id,
                producer_id=instance.identity.producer_id,
                producer_epoch=instance.identity.producer_epoch,
                topics=[topic],
            )
            self.perform(instance, add, self.coordinator.add_partitions(add, 5, self.now_ms))
        else:
            end = EndTxnRequest(
                transactional_id=instance.transactional_id,
                producer_id=instance.identity.producer_id,
                producer_epoch=instance.identity.producer_epoch,
                committed=self.random.random() < 0.5,
            )
            self.perform(instance, end, self.coordinator.end_txn(end, 5, self.now_ms))

    def marker_answer(self) -> None:
        if not self.markers:
            return
        markers = self.markers.pop(self.random.randrange(len(self.markers)))
        if self.random.random() < 0.1:
            self.markers.append(markers)  # delivered twice
        results = {p: MarkerResult(self.random.choice(MARKER_ERRORS), 0) for p in markers.partitions}
        decision = self.coordinator.markers_written(markers, results, self.now_ms)
        if decision.records:
            prepared = self.coordinator.get(markers.transactional_id)
            assert prepared is markers.prepared
            assert not self.coordinator.table.unwritten[markers.transactional_id], "complete only after every marker"
        self.perform(None, None, decision)

    def let_time_pass(self) -> None:
        self.now_ms += self.random.choice([61_000, 501_000, 20_000_000])
        for decision in self.coordinator.timed_out(self.now_ms):
            for record in decision.records:
                assert not is_two_phase(record), "nobody but its owner ends it"
            self.seen["timeout"] += 1
            self.perform(None, None, decision)
        for decision in self.coordinator.expired(self.now_ms):
            self.seen["expired"] += 1
            self.perform(None, None, decision)

    def heal(self) -> None:
        """Liveness: with everything delivered every id is free, and a new instance gets it."""
        self.ids.give_block(self.next_block, 1000)
        for _ in range(3):
            self.commit(len(self.waiting))
            while self.markers:
                markers = self.markers.pop()
                results = dict.fromkeys(markers.partitions, MarkerResult())
                decision = self.coordinator.markers_written(markers, results, self.now_ms)
                self.coordinator.appended(decision.records)
                self.waiting.append((None, None, decision))
                self.commit(len(self.waiting))
            for name in "ab":
                assert not self.coordinator.is_busy(name)
        for name in "ab":
            init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
            reply = self.coordinator.init_producer_id(init, 6, self.now_ms).reply
            assert reply.error_code in (E.NONE, E.CONCURRENT_TRANSACTIONS)


def simulate(seed: int, steps: int = 200, *, level: int = 3) -> Counter[str]:
    """Run one seed; how often each thing was seen."""
    simulation = Simulation(seed, level=level)
    start_epoch = simulation.random.choice([0, 32758, 32764])
    simulation.next_block = 100
    for name in "ab":
        record = TransactionRecord(name, ord(name), start_epoch, 60_000, last_update_ms=simulation.now_ms)
        simulation.coordinator.appended([record])
        simulation.waiting.append((None, None, Decision(records=(record,))))
        simulation.commit(1)
    for _ in range(steps):
        simulation.step()
    simulation.heal()
    return simulation.seen


def _partitions(request: AddPartitionsToTxnTransaction) -> set[TopicPartition]:
    return {TopicPartition(topic.name, partition) for topic in request.topics for partition in topic.partitions}
