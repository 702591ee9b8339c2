"""What a broker's shell does with a coordinator's decisions, without waiting: used by the coordinator's tests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.transactions.coordinator import MarkerResult, TransactionConfig, TransactionCoordinator
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.transaction import TransactionRecord, TransactionState
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import (
    TransactionLogRecord,
    record_from_key_value,
    record_to_key_value,
)
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

P = TopicPartition("t", 0)
Q = TopicPartition("t", 1)
NEW_ID = 500


class Shell:
    """One coordinator with its log; every decision is performed and committed at once."""

    def __init__(
        self, *, level: int = 3, two_phase: bool = True, log: Iterable[tuple[bytes, bytes | None]] = ()
    ) -> None:
        self.level = level
        self.producer_ids = ProducerIds()
        self.producer_ids.give_block(NEW_ID, 1000)
        self.coordinator = TransactionCoordinator(
            0, 1, TransactionConfig(two_phase_commit_enable=two_phase), self.producer_ids, lambda: self.level
        )
        self.log: list[tuple[bytes, bytes | None]] = []
        self.records: list[TransactionLogRecord] = []
        self.markers: list[MarkersToWrite] = []
        for key, value in log:
            record = record_from_key_value(key, value)
            assert record is not None
            self.log.append((key, value))
            self.coordinator.apply(record)

    def put(self, state: TransactionState, producer_id: int = 10, producer_epoch: int = 5, **fields: object) -> None:
        """The id "pay" is in this state, as if read from the log."""
        record = TransactionRecord("pay", producer_id, producer_epoch, 60000, state, last_update_ms=0)
        if state not in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
            record = replace(record, partitions=frozenset({P}), start_ms=0)
        self.coordinator.apply(replace(record, **fields))  # type: ignore[arg-type]

    @property
    def pay(self) -> TransactionRecord:
        record = self.coordinator.get("pay")
        assert record is not None
        return record

    def perform(self, decision: Decision) -> Decision:
        self.log += map(record_to_key_value, decision.records)
        self.records += decision.records
        self.coordinator.appended(decision.records)
        for record in decision.records:
            self.coordinator.apply(record)
        self.markers += decision.markers
        return decision

    def init(
        self,
        producer_id: int = -1,
        producer_epoch: int = -1,
        *,
        version: int = 6,
        keep: bool = False,
        two_phase: bool = False,
        timeout_ms: int = 60000,
        now_ms: int = 1,
    ) -> Decision:
        request = InitProducerIdRequest(
            transactional_id="pay",
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            enable_2pc=two_phase,
            keep_prepared_txn=keep,
        )
        return self.perform(self.coordinator.init_producer_id(request, version, now_ms))

    def add(
        self,
        producer_id: int,
        producer_epoch: int,
        *partitions: TopicPartition,
        version: int = 5,
        verify: bool = False,
        now_ms: int = 1,
    ) -> Decision:
        topics = [AddPartitionsToTxnTopic(name=p.topic, partitions=[p.partition]) for p in partitions or (P,)]
        if version >= 4:
            entry = AddPartitionsToTxnTransaction(
                transactional_id="pay",
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                verify_only=verify,
                topics=topics,
            )
            return self.perform(self.coordinator.add_partitions(entry, version, now_ms))
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="pay",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=producer_epoch,
            v3_and_below_topics=topics,
        )
        return self.perform(self.coordinator.add_partitions_to_txn(request, version, now_ms))

    def add_offsets(self, producer_id: int, producer_epoch: int, *, version: int = 3, now_ms: int = 1) -> Decision:
        request = AddOffsetsToTxnRequest(
            transactional_id="pay", producer_id=producer_id, producer_epoch=producer_epoch, group_id="g"
        )
        where = TopicPartition("__consumer_offsets", 3)
        return self.perform(self.coordinator.add_offsets_to_txn(request, version, now_ms, where))

    def end(
        self, producer_id: int, producer_epoch: int, *, commit: bool, version: int = 5, now_ms: int = 1
    ) -> Decision:
        request = EndTxnRequest(
            transactional_id="pay", producer_id=producer_id, producer_epoch=producer_epoch, committed=commit
        )
        return self.perform(self.coordinator.end_txn(request, version, now_ms))

    def write_markers(self, now_ms: int = 1) -> None:
        """Every marker on its way reaches its partition."""
        while self.markers:
            markers = self.markers.pop(0)
            results = dict.fromkeys(markers.partitions, MarkerResult())
            self.perform(self.coordinator.markers_written(markers, results, now_ms))

    def restarted(self) -> Shell:
        """Another coordinator that has read this one's log."""
        shell = Shell(level=self.level, log=self.log)
        shell.producer_ids = shell.coordinator.table.producer_ids = self.producer_ids
        for decision in shell.coordinator.pending_completions(1):
            shell.perform(decision)
        return shell


def code(decision: Decision) -> str:
    """The error of a reply, by name; of AddPartitionsToTxn the one of its first partition."""
    reply = decision.reply
    for name in ("topic_results", "results_by_topic_v3_and_below"):
        if getattr(reply, name, None):
            return ErrorCode(getattr(reply, name)[0].results_by_partition[0].partition_error_code).name
    return ErrorCode(reply.error_code).name


def answer(decision: Decision) -> str:
    """Error, and the identity where one is given."""
    if decision.reply.producer_id == -1:
        return code(decision)
    return f"{code(decision)} {decision.reply.producer_id}/{decision.reply.producer_epoch}"
