"""AddPartitionsToTxn: from clients (v0-3, held where the previous transaction is ending) and from brokers (v4+)."""

from __future__ import annotations

from functools import partial
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.broker.requests.request import CallbackListener, Later, Reply, Request, reply_of
from oncelog.core.metadata.topic_configs import BROKER_WRITTEN_TOPICS
from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

BATCHED_SINCE_VERSION = 4


def handle(node: Node, request: Request) -> Reply:
    """One bad topic fails its whole transaction (Kafka's `KafkaApis.handleAddPartitionsToTxnRequest`)."""
    if request.api_version < BATCHED_SINCE_VERSION:
        return _single(node, request)
    return _Batched(request).begin(node) if node.transactions.is_ready else _batched_when_ready(node, request)


def _single(node: Node, request: Request) -> Reply:
    message: AddPartitionsToTxnRequest = request.message
    topics = message.v3_and_below_topics
    bad = _bad_topics(node, topics, from_client=True)
    if bad is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=bad)

    def refused(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_all(topics, code))

    if not message.v3_and_below_transactional_id:
        return refused(ErrorCode.INVALID_REQUEST)
    return node.transactions.begin(
        message.v3_and_below_transactional_id,
        lambda machine, now_ms: machine.add_partitions_to_txn(message, request.api_version, now_ms),
        refused,
        request=request,
        is_for_append=True,
    )


class _Batched:
    """Some transactions' questions; counts those that are not answered."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._message: AddPartitionsToTxnRequest = request.message
        self._results: list[Any] = [None] * len(self._message.transactions)
        self._missing = len(self._results) + 1
        self._later = Later(keeps_turn=True)

    def begin(self, node: Node) -> Later:
        """Only when the coordinators are ready: then none of them has to be waited for."""
        for position, entry in enumerate(self._message.transactions):
            outcome = _entry(node, self._request, entry)
            if isinstance(outcome, Later) and not outcome.is_given:
                outcome.listen(CallbackListener(partial(self._given, position), self._later.fail))
            else:
                self._results[position] = outcome.reply if isinstance(outcome, Later) else outcome
                self._missing -= 1
        self._one_done()
        return self._later

    def _given(self, position: int, reply: Reply) -> None:
        self._results[position] = reply
        self._one_done()

    def _one_done(self) -> None:
        self._missing -= 1
        if not self._missing:
            self._later.give(AddPartitionsToTxnResponse(results_by_transaction=self._results))


async def _batched_when_ready(node: Node, request: Request) -> Reply:
    try:
        await node.transactions.make_ready()
    except CoordinatorFailed as failed:
        message: AddPartitionsToTxnRequest = request.message
        results = [_refused(entry, failed.error_code) for entry in message.transactions]
        return AddPartitionsToTxnResponse(results_by_transaction=results)
    return await reply_of(_Batched(request).begin(node))


def _entry(node: Node, request: Request, entry: AddPartitionsToTxnTransaction) -> Reply:
    bad = _bad_topics(node, entry.topics, from_client=False)
    if bad is not None:
        return AddPartitionsToTxnResult(transactional_id=entry.transactional_id, topic_results=bad)
    if not entry.transactional_id:
        return _refused(entry, ErrorCode.INVALID_REQUEST)
    # Never held here: the asking broker's gate holds, so this connection stays free for other transactions.
    return node.transactions.begin(
        entry.transactional_id,
        lambda machine, now_ms: machine.add_partitions(entry, request.api_version, now_ms),
        partial(_refused, entry),
        is_for_append=isinstance(request.connection, LocalPeer),
    )


def _refused(entry: AddPartitionsToTxnTransaction, code: ErrorCode) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(transactional_id=entry.transactional_id, topic_results=_all(entry.topics, code))


def _bad_topics(
    node: Node, topics: list[AddPartitionsToTxnTopic], *, from_client: bool
) -> list[AddPartitionsToTxnTopicResult] | None:
    """The results of a request that names a partition which cannot be added; None where all can."""
    metadata = node.metadata
    is_bad = False
    results = []
    for asked in topics:
        topic = metadata.topics.get(asked.name)
        result = AddPartitionsToTxnTopicResult(name=asked.name)
        for index in asked.partitions:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if from_client and asked.name in BROKER_WRITTEN_TOPICS:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # docs/kafka-notes.md C18
            elif topic is None or not 0 <= index < topic.partition_count:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_bad = is_bad or code is not ErrorCode.OPERATION_NOT_ATTEMPTED
            result.results_by_partition.append(
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
            )
        results.append(result)
    return results if is_bad else None


def _all(topics: list[AddPartitionsToTxnTopic], code: ErrorCode) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]
