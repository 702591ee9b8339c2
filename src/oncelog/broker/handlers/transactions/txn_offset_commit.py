"""TxnOffsetCommit: offsets of a group that become visible with the transaction.

First the coordinator of the transaction verifies or adds the group's partition, then the group's own rules apply; the
offsets are one transactional batch of the producer.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.requests.request import Request
from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi
from oncelog.core.leader.guards import Guard
from oncelog.core.leader.verdict import AskCoordinator, Refuse
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

E = ErrorCode


class _Refused(Exception):
    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


def handle(node: Node, request: Request) -> Coroutine[Any, Any, TxnOffsetCommitResponse]:
    """Unknown partitions are refused one by one; everything else is refused as a whole."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> TxnOffsetCommitResponse:
    message: TxnOffsetCommitRequest = request.message
    asked = message.topics
    known = _known(node, asked)
    try:
        if not message.group_id:
            raise _Refused(E.INVALID_GROUP_ID)
        if not message.transactional_id:
            raise _Refused(E.INVALID_REQUEST)
        answer = TxnOffsetCommitResponse()
        if known:
            answer = await _commit(node, request, message.replace(topics=known))
    except _Refused as refused:
        return _response(asked, {}, refused.error_code)
    except CoordinatorFailed as failed:
        code = failed.error_code
        if code is E.COORDINATOR_LOAD_IN_PROGRESS and request.api_version < 2:
            code = E.COORDINATOR_NOT_AVAILABLE  # KAFKA-7296
        return _response(asked, {}, code)
    except StorageError:
        return _response(asked, {}, E.COORDINATOR_NOT_AVAILABLE)
    codes = {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
    return _response(asked, codes, E.UNKNOWN_TOPIC_OR_PARTITION)


async def _commit(node: Node, request: Request, message: TxnOffsetCommitRequest) -> TxnOffsetCommitResponse:
    topic_ids = {each.name: node.metadata.topics[each.name].topic_id for each in message.topics}
    await node.groups.admit(message.group_id)
    asked = [TopicPartition(topic.name, each.partition_index) for topic in message.topics for each in topic.partitions]
    await node.groups.admit_offsets(message.group_id, asked, len(asked))
    coordinator = await node.groups.coordinator_of(message.group_id)
    partition = coordinator.partition
    guard = await _guard(node, request, message, partition)
    # Meanwhile a topic may have been deleted, and another one made under its name: these are no positions in that one.
    there = [each for each in message.topics if topic_ids[each.name] in node.metadata.topics_by_id]
    if not there:
        return TxnOffsetCommitResponse()
    message = message.replace(topics=there)
    producer = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
    decision = coordinator.machine.txn_commit_offsets(message, node.groups.now_ms(coordinator))
    reply: TxnOffsetCommitResponse = await coordinator.perform(decision, producer=producer, guard=guard)
    return reply


async def _guard(
    node: Node, request: Request, message: TxnOffsetCommitRequest, partition: LocalPartition
) -> Guard | None:
    client = ClientVersion(GuardedApi.TXN_OFFSET_COMMIT, request.api_version)
    guard: Guard | None = None
    for _ in range(2):
        if partition.is_offline:
            raise CoordinatorFailed(E.NOT_COORDINATOR)
        verdict = partition.rules.check_offset_commit(
            ProducerIdAndEpoch(message.producer_id, message.producer_epoch),
            transactional_id=message.transactional_id,
            supports_implicit_add=client.supports_implicit_add,
            guard=guard,
            now_ms=node.clock.now_ms(),
        )
        if isinstance(verdict, Refuse):
            raise _Refused(verdict.error_code)
        if not isinstance(verdict, AskCoordinator):
            return guard
        guard = verdict.guard
        refused = await node.gate.ask(request, client, {partition.name: verdict})
        if partition.name in refused:
            raise _Refused(refused[partition.name].error_code)
    raise _Refused(E.INVALID_TXN_STATE)


def _known(node: Node, topics: list[TxnOffsetCommitRequestTopic]) -> list[TxnOffsetCommitRequestTopic]:
    known = []
    for asked in topics:
        topic = node.metadata.topics.get(asked.name)
        partitions = [each for each in asked.partitions if topic and 0 <= each.partition_index < topic.partition_count]
        if partitions:
            known.append(asked.replace(partitions=partitions))
    return known


def _response(
    topics: list[TxnOffsetCommitRequestTopic], codes: dict[tuple[str, int], ErrorCode], otherwise: ErrorCode
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(
                        partition_index=each.partition_index,
                        error_code=codes.get((topic.name, each.partition_index), otherwise),
                    )
                    for each in topic.partitions
                ],
            )
            for topic in topics
        ]
    )
