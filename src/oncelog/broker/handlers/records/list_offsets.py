"""ListOffsets: the first, last or timed offset of partitions, as far as the isolation level may see."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.partitions.index_mending import MendingDue
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.unwritten_partition import UnwrittenPartition
from oncelog.broker.requests.request import Request
from oncelog.core.leader.offset_lookup import FoundOffset, SearchTimestamp, below, look_up, named_twice
from oncelog.core.leader.partition import IsolationLevel
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)

EMPTY_LOG_LEADER_EPOCH = 0
LEADER_EPOCH_SINCE_VERSION = 4


def handle(node: Node, request: Request) -> ListOffsetsResponse | Coroutine[Any, Any, ListOffsetsResponse]:
    """One answer per partition; a partition named twice gets one error."""
    try:
        return _response(node, request)
    except MendingDue as due:
        return _when_mended(node, request, due)


async def _when_mended(node: Node, request: Request, due: MendingDue) -> ListOffsetsResponse:
    # One that is given up is found offline, or not at all, by the next look.
    return await node.partitions.index_mending.when_mended(due, lambda: _response(node, request), lambda _: None)


def _response(node: Node, request: Request) -> ListOffsetsResponse:
    message: ListOffsetsRequest = request.message
    names = (TopicPartition(topic.name, each.partition_index) for topic in message.topics for each in topic.partitions)
    repeated = named_twice(names)
    told: set[TopicPartition] = set()
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(name=topic.name, partitions=_answers(node, request, topic, repeated, told))
            for topic in message.topics
        ]
    )


def _answers(
    node: Node,
    request: Request,
    topic: ListOffsetsTopic,
    repeated: set[TopicPartition],
    told: set[TopicPartition],
) -> list[ListOffsetsPartitionResponse]:
    answers = []
    for asked in topic.partitions:
        name = TopicPartition(topic.name, asked.partition_index)
        if name in told:
            continue
        answer = ListOffsetsPartitionResponse(partition_index=asked.partition_index)
        if name in repeated:
            told.add(name)
            answer.error_code = ErrorCode.INVALID_REQUEST
        else:
            outcome = _find(node, request, name, asked)
            if isinstance(outcome, ErrorCode):
                answer.error_code = outcome
            else:
                answer.offset, answer.timestamp = outcome.offset, outcome.timestamp
                if request.api_version >= LEADER_EPOCH_SINCE_VERSION:
                    answer.leader_epoch = outcome.leader_epoch
        answers.append(answer)
    return answers


def _find(node: Node, request: Request, name: TopicPartition, asked: ListOffsetsPartition) -> FoundOffset | ErrorCode:
    try:
        partition = node.partitions.find(name)
    except StorageError:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if partition is None:
        return node.partitions.led.why_not(name)
    rules = partition.rules
    outcome = look_up(
        rules,
        asked.timestamp,
        IsolationLevel(request.message.isolation_level == 1),
        version=request.api_version,
        current_leader_epoch=asked.current_leader_epoch,
        earliest_leader_epoch=EMPTY_LOG_LEADER_EPOCH
        if isinstance(partition, UnwrittenPartition) or rules.log_end_offset == 0
        else partition.log.leader_epochs.leader_epoch_of(rules.log_start_offset),
    )
    if isinstance(outcome, Refuse):
        return outcome.error_code
    if isinstance(outcome, SearchTimestamp):
        if isinstance(partition, UnwrittenPartition):
            return below(None, outcome)
        try:
            found = node.partitions.index_mending.look_up(
                partition, outcome.timestamp, lambda: _search(partition, outcome)
            )
        except MendingDue:
            if partition.is_offline:
                return ErrorCode.KAFKA_STORAGE_ERROR
            raise
        except StorageError as error:
            partition.go_offline(str(error))
            return ErrorCode.KAFKA_STORAGE_ERROR
        return below(found, outcome)
    return outcome


def _search(partition: LocalPartition, search: SearchTimestamp) -> FoundOffset | None:
    log = partition.log
    if search.timestamp is None:
        found = log.offset_of_max_timestamp()
    else:
        found = log.offset_for_timestamp(search.timestamp)
    if found is None:
        return None
    return FoundOffset(found.offset, found.timestamp, log.leader_epochs.leader_epoch_of(found.offset))
