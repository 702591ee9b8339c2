"""OffsetCommit: a group's positions. Version 10 names topics by id; the coordinator knows names only."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import NOTHING, Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE_VERSION = 10


def handle(node: Node, request: Request) -> Coroutine[Any, Any, OffsetCommitResponse]:
    """Unknown partitions are refused one by one, the rest is the coordinator's to judge."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> OffsetCommitResponse:
    message: OffsetCommitRequest = request.message
    by_id = request.api_version >= TOPIC_IDS_SINCE_VERSION
    unknown = ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    known: list[OffsetCommitRequestTopic] = []
    codes: dict[tuple[object, int], int] = {}
    for asked in message.topics:
        topic = node.metadata.topic(asked.name, asked.topic_id)
        count = topic.partition_count if topic else 0
        there = [each for each in asked.partitions if 0 <= each.partition_index < count]
        if topic is not None and there:
            known.append(asked.replace(name=topic.name, topic_id=topic.topic_id, partitions=there))
        for each in asked.partitions:
            missing = unknown if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            codes[_key(asked, by_id=by_id), each.partition_index] = missing
    if known:
        await _commit(node, request, known, codes)
    return OffsetCommitResponse(topics=[_answered(asked, codes, by_id=by_id) for asked in message.topics])


async def _commit(
    node: Node,
    request: Request,
    known: list[OffsetCommitRequestTopic],
    codes: dict[tuple[object, int], int],
) -> None:
    message: OffsetCommitRequest = request.message
    by_id = request.api_version >= TOPIC_IDS_SINCE_VERSION

    def decide(machine: GroupCoordinator, now_ms: int) -> Decision:
        # Meanwhile a topic may have been deleted, and another one made under its name: these are no positions in that one.
        there = [each for each in known if each.topic_id in node.metadata.topics_by_id]
        if by_id:  # the answer for what is there comes over it
            _refuse(known, ErrorCode.UNKNOWN_TOPIC_ID, codes, by_id=by_id)
        if not there:
            return NOTHING
        return machine.commit_offsets(message.replace(topics=there), request.api_version, now_ms)

    try:
        await node.groups.admit(message.group_id)
        await node.groups.admit_offsets(
            message.group_id, _partitions(known), sum(len(each.partitions) for each in known)
        )
        reply: OffsetCommitResponse | None = await node.groups.ask(message.group_id, decide)
    except CoordinatorFailed as failed:
        _refuse(known, failed.error_code, codes, by_id=by_id)
        return
    for topic in reply.topics if reply is not None else ():
        key = topic.topic_id if by_id else topic.name
        codes |= {(key, each.partition_index): each.error_code for each in topic.partitions}


def _refuse(
    topics: list[OffsetCommitRequestTopic], code: ErrorCode, codes: dict[tuple[object, int], int], *, by_id: bool
) -> None:
    for asked in topics:
        codes |= {(_key(asked, by_id=by_id), each.partition_index): code for each in asked.partitions}


def _partitions(topics: list[OffsetCommitRequestTopic]) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, each.partition_index) for topic in topics for each in topic.partitions)


def _key(topic: OffsetCommitRequestTopic, *, by_id: bool) -> object:
    return topic.topic_id if by_id else topic.name


def _answered(
    asked: OffsetCommitRequestTopic, codes: dict[tuple[object, int], int], *, by_id: bool
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=asked.name,
        topic_id=asked.topic_id,
        partitions=[
            OffsetCommitResponsePartition(
                partition_index=each.partition_index,
                error_code=codes[_key(asked, by_id=by_id), each.partition_index],
            )
            for each in asked.partitions
        ],
    )
