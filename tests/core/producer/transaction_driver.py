"""Plays the sender and the coordinator to a TransactionManager: what it asks, and answers of our choice."""

from __future__ import annotations

from typing import Any

from oncelog.core.producer.requests import PendingResult, TxnRequest
from oncelog.core.producer.responses import on_response
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager, TransactionManagerConfig
from oncelog.core.producer.verdicts import TxnApi
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from oncelog.wire.messages.init_producer_id import InitProducerIdResponse
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
GROUP_OFFSETS = TopicPartition("in", 3)


class Driver:
    """`level` is transaction.version as the broker reports it."""

    def __init__(self, *, level: int = 2, transactional_id: str | None = "tid", **config: Any) -> None:
        self.manager = TransactionManager(TransactionManagerConfig(transactional_id=transactional_id, **config))
        self.manager.note_features(1, level)
        self.now_ms = 1000.0
        self.has_incomplete = False
        self.asked: list[str] = []

    def request(self) -> TxnRequest | None:
        found = self.manager.next_request(self.now_ms, has_incomplete=self.has_incomplete)
        if found is not None:
            self.asked.append(found.api.name)
        return found

    def expect(self, api: TxnApi) -> TxnRequest:
        """The next request, which must be of this API; coordinators are found on the way."""
        request = self.request()
        while request is not None and request.api is TxnApi.FIND_COORDINATOR and api is not TxnApi.FIND_COORDINATOR:
            self.answer(request)
            request = self.request()
        assert request is not None, f"nothing to send, expected {api.name}"
        assert request.api is api
        return request

    def answer(self, request: TxnRequest, code: int = 0, **fields: Any) -> None:
        on_response(self.manager, request, response_to(request, code, **fields), self.now_ms)

    def ask(self, api: TxnApi, code: int = 0, **fields: Any) -> TxnRequest:
        request = self.expect(api)
        self.answer(request, code, **fields)
        return request

    def take(self, result: PendingResult) -> PendingResult:
        assert result.is_done
        self.manager.result_taken(result)
        return result

    def ready(self, producer_id: int = 7, producer_epoch: int = 0) -> Driver:
        result = self.manager.initialize()
        self.ask(TxnApi.INIT_PRODUCER_ID, producer_id=producer_id, producer_epoch=producer_epoch)
        assert self.take(result).error is None
        return self

    def begun(self, *, with_partition: bool = True) -> Driver:
        self.ready()
        self.manager.begin_transaction()
        if with_partition:
            self.manager.add_partition(A)
            if not self.manager.is_tv2:
                self.ask(TxnApi.ADD_PARTITIONS_TO_TXN)
        return self

    def in_state(self, state: TransactionState) -> Driver:
        """Bring the producer into a state by what an application does."""
        S = TransactionState  # noqa: N806
        if state is S.UNINITIALIZED:
            return self
        if state is S.INITIALIZING:
            self.manager.result_taken(self.manager.initialize())
            return self
        if state is S.READY:
            return self.ready()
        if state is S.FATAL_ERROR:
            from oncelog.errors import ProducerFenced

            self.begun().manager.fatal_error(ProducerFenced())
            return self
        self.begun()
        if state is S.PREPARED_TRANSACTION:
            self.manager.suspend() if not self.manager.config.two_phase_commit_enable else self.manager.prepare()
        elif state is S.COMMITTING_TRANSACTION:
            self.manager.result_taken(self.manager.begin_commit())
        elif state is S.ABORTING_TRANSACTION:
            self.manager.result_taken(self.manager.begin_abort())
        elif state is S.ABORTABLE_ERROR:
            from oncelog.errors import TransactionAbortable

            self.manager.abortable_error(TransactionAbortable())
        assert self.manager.state is state
        return self


def asked(column: str, level: int = 1) -> tuple[Driver, TxnRequest, PendingResult]:
    """A producer that has just sent the request of that name in client_rules.txt, and what its caller waits for."""
    driver = Driver(level=level)
    manager = driver.manager
    if column in ("InitPid", "FindCoord"):
        result = manager.initialize()
        api = TxnApi.INIT_PRODUCER_ID if column == "InitPid" else TxnApi.FIND_COORDINATOR
        return driver, driver.expect(api), result
    driver.begun(with_partition=column.startswith("EndTxn"))
    if column == "AddParts":
        manager.add_partition(A)
        request = driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN)
        return driver, request, request.result
    if column in ("AddOffsets", "TxnOffsetCommit"):
        result = manager.send_offsets({GROUP_OFFSETS: OffsetAndMetadata(1)}, GroupMetadata("g"))
        if column == "AddOffsets":
            return driver, driver.expect(TxnApi.ADD_OFFSETS_TO_TXN), result
        if level < 2:
            driver.ask(TxnApi.ADD_OFFSETS_TO_TXN)
        return driver, driver.expect(TxnApi.TXN_OFFSET_COMMIT), result
    result = manager.begin_commit() if column == "EndTxn commit" else manager.begin_abort()
    return driver, driver.expect(TxnApi.END_TXN), result


def response_to(request: TxnRequest, code: int, **fields: Any) -> Any:
    if request.api is TxnApi.FIND_COORDINATOR:
        assert request.finds is not None
        node = {"node_id": 1, "host": "h", "port": 9} if code == 0 else {"node_id": -1}
        return FindCoordinatorResponse(coordinators=[Coordinator(key=request.finds.key, error_code=code, **node)])
    if request.api is TxnApi.INIT_PRODUCER_ID:
        fields = {"producer_id": 7, "producer_epoch": 0} | fields if code == 0 else {}
        return InitProducerIdResponse(error_code=code, **fields)
    if request.api is TxnApi.ADD_PARTITIONS_TO_TXN:
        codes = fields.get("codes") or dict.fromkeys(request.partitions, code)
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnTopicResult(
                    name=tp.topic,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=tp.partition, partition_error_code=each)
                    ],
                )
                for tp, each in codes.items()
            ]
        )
    if request.api is TxnApi.ADD_OFFSETS_TO_TXN:
        return AddOffsetsToTxnResponse(error_code=code)
    if request.api is TxnApi.TXN_OFFSET_COMMIT:
        result = TxnOffsetCommitResponsePartition(partition_index=3, error_code=code)
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="in", partitions=[result])])
    return EndTxnResponse(error_code=code, **fields)
