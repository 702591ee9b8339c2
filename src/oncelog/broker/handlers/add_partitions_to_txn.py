"""AddPartitionsToTxn: from clients (v0-3, held where the previous transaction is ending) and from brokers (v4+)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinator_shell import CoordinatorFailed
from oncelog.broker.request import Request
from oncelog.core.topic_configs import INTERNAL_TOPICS
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

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

BATCHED_SINCE_VERSION = 4


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, AddPartitionsToTxnResponse]:
    """One bad topic fails its whole transaction (facts 4.3)."""
    return _batched(broker, request) if request.api_version >= BATCHED_SINCE_VERSION else _single(broker, request)


async def _single(broker: Broker, request: Request) -> AddPartitionsToTxnResponse:
    message: AddPartitionsToTxnRequest = request.message
    topics = message.v3_and_below_topics
    bad = _bad_topics(broker, topics, from_client=True)
    if bad is not None:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=bad)
    transactional_id = message.v3_and_below_transactional_id
    try:
        if not transactional_id:
            raise CoordinatorFailed(ErrorCode.INVALID_REQUEST)
        reply: AddPartitionsToTxnResponse = await broker.transactions.ask(
            transactional_id,
            lambda machine, now_ms: machine.add_partitions_to_txn(message, request.api_version, now_ms),
            request=request,
        )
    except CoordinatorFailed as failed:
        return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_all(topics, failed.error_code))
    return reply


async def _batched(broker: Broker, request: Request) -> AddPartitionsToTxnResponse:
    message: AddPartitionsToTxnRequest = request.message
    results = await asyncio.gather(*(_entry(broker, request, entry) for entry in message.transactions))
    return AddPartitionsToTxnResponse(results_by_transaction=list(results))


async def _entry(broker: Broker, request: Request, entry: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult:
    bad = None if entry.verify_only else _bad_topics(broker, entry.topics, from_client=False)
    if bad is not None:
        return AddPartitionsToTxnResult(transactional_id=entry.transactional_id, topic_results=bad)
    try:
        if not entry.transactional_id:
            raise CoordinatorFailed(ErrorCode.INVALID_REQUEST)
        # Never held here: the asking broker's gate holds, so this connection stays free for other transactions.
        reply: AddPartitionsToTxnResult = await broker.transactions.ask(
            entry.transactional_id,
            lambda machine, now_ms: machine.add_partitions(entry, request.api_version, now_ms),
        )
    except CoordinatorFailed as failed:
        refused = _all(entry.topics, failed.error_code)
        return AddPartitionsToTxnResult(transactional_id=entry.transactional_id, topic_results=refused)
    return reply


def _bad_topics(
    broker: Broker, topics: list[AddPartitionsToTxnTopic], *, from_client: bool
) -> list[AddPartitionsToTxnTopicResult] | None:
    """The results of a request that names a partition which cannot be added; None where all can."""
    metadata = broker.metadata
    is_bad = False
    results = []
    for asked in topics:
        topic = metadata.topics.get(asked.name)
        result = AddPartitionsToTxnTopicResult(name=asked.name)
        for index in asked.partitions:
            code = ErrorCode.OPERATION_NOT_ATTEMPTED
            if from_client and asked.name in INTERNAL_TOPICS:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED  # observed C18
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
