"""Checks of the requests about records: produce, list offsets, delete records, leader epochs, producers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.core.access.passage import Caller, Passage
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation
from oncelog.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from oncelog.wire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from oncelog.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from oncelog.wire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from oncelog.wire.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_ATTRIBUTES_LOW_BYTE, _TRANSACTIONAL_BIT = 22, 0x10


def _without(
    message: Any, refused: list[Any], answers: list[Any], *, into: str, empty: Callable[[], Any]
) -> Passage | None:
    """`message.topics` without the refused ones; their answers go into the reply's list `into`."""
    if not refused:
        return None
    passed = [topic for topic in message.topics if topic not in refused]
    if not passed:
        reply = empty()
        setattr(reply, into, answers)
        return Passage(reply=reply)

    def complete(reply: Any) -> Any:
        setattr(reply, into, [*getattr(reply, into), *answers])
        return reply

    return Passage(message.replace(topics=passed), complete=complete)


def check_produce(caller: Caller, message: ProduceRequest, _version: int) -> Passage | None:
    """A transactional batch needs the right to its id, each topic the right to write."""
    identity = message.transactional_id
    if (
        identity is not None
        and _has_transactional_batch(message)
        and not caller.may_on_transactional_id(Operation.WRITE, identity)
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return Passage(reply=ProduceResponse(responses=[_not_produced(each, code) for each in message.topic_data]))
    passed, refused = caller.split(
        message.topic_data, Operation.WRITE, lambda each: caller.topic_name(each.name, each.topic_id)
    )
    if not refused:
        return None
    answers = [_not_produced(each, DENIED) for each in refused]
    if not passed:
        return Passage(reply=ProduceResponse(responses=answers))

    def complete(reply: ProduceResponse) -> ProduceResponse:
        return reply.replace(responses=[*reply.responses, *answers])

    return Passage(message.replace(topic_data=passed), complete=complete)


def _has_transactional_batch(message: ProduceRequest) -> bool:
    batches = (part.records for topic in message.topic_data for part in topic.partition_data)
    return any(
        batch is not None and len(batch) > _ATTRIBUTES_LOW_BYTE and batch[_ATTRIBUTES_LOW_BYTE] & _TRANSACTIONAL_BIT
        for batch in batches
    )


def _not_produced(topic: TopicProduceData, code: ErrorCode) -> TopicProduceResponse:
    return TopicProduceResponse(
        name=topic.name,
        topic_id=topic.topic_id,
        partition_responses=[
            PartitionProduceResponse(index=part.index, error_code=code, base_offset=-1) for part in topic.partition_data
        ],
    )


def check_list_offsets(caller: Caller, message: ListOffsetsRequest, _version: int) -> Passage | None:
    """Each topic needs the right to describe it."""
    _, refused = caller.split(message.topics, Operation.DESCRIBE, lambda each: each.name)
    answers = [
        ListOffsetsTopicResponse(
            name=topic.name,
            partitions=[
                ListOffsetsPartitionResponse(partition_index=part.partition_index, error_code=DENIED)
                for part in topic.partitions
            ],
        )
        for topic in refused
    ]
    return _without(message, refused, answers, into="topics", empty=ListOffsetsResponse)


def check_delete_records(caller: Caller, message: DeleteRecordsRequest, _version: int) -> Passage | None:
    """Each topic needs the right to delete."""
    _, refused = caller.split(message.topics, Operation.DELETE, lambda each: each.name)
    answers = [
        DeleteRecordsTopicResult(
            name=topic.name,
            partitions=[
                DeleteRecordsPartitionResult(partition_index=part.partition_index, low_watermark=-1, error_code=DENIED)
                for part in topic.partitions
            ],
        )
        for topic in refused
    ]
    return _without(message, refused, answers, into="topics", empty=DeleteRecordsResponse)


def check_offset_for_leader_epoch(
    caller: Caller, message: OffsetForLeaderEpochRequest, _version: int
) -> Passage | None:
    """Each topic needs the right to describe it."""
    _, refused = caller.split(message.topics, Operation.DESCRIBE, lambda each: each.topic)
    answers = [
        OffsetForLeaderTopicResult(
            topic=topic.topic,
            partitions=[EpochEndOffset(error_code=DENIED, partition=part.partition) for part in topic.partitions],
        )
        for topic in refused
    ]
    return _without(message, refused, answers, into="topics", empty=OffsetForLeaderEpochResponse)


def check_describe_producers(caller: Caller, message: DescribeProducersRequest, _version: int) -> Passage | None:
    """Each topic needs the right to read it."""
    _, refused = caller.split(message.topics, Operation.READ, lambda each: each.name)
    answers = [
        TopicResponse(
            name=topic.name,
            partitions=[
                PartitionResponse(partition_index=index, error_code=DENIED) for index in topic.partition_indexes
            ],
        )
        for topic in refused
    ]
    return _without(message, refused, answers, into="topics", empty=DescribeProducersResponse)
