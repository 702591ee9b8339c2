"""OffsetFetch: committed positions of one group (v1-7) or several (v8+). Version 10 names topics by id."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

GROUPS_SINCE_VERSION = 8
TOPIC_IDS_SINCE_VERSION = 10


def handle(node: Node, request: Request) -> Coroutine[Any, Any, OffsetFetchResponse]:
    """Asked of each group's coordinator."""
    if request.api_version < GROUPS_SINCE_VERSION:
        return _one(node, request)
    return _several(node, request)


async def _one(node: Node, request: Request) -> OffsetFetchResponse:
    message: OffsetFetchRequest = request.message
    try:
        reply: OffsetFetchResponse = await node.groups.ask(
            message.group_id, lambda machine, _now_ms: machine.fetch_offsets(message, request.api_version)
        )
    except CoordinatorFailed as failed:
        return _refused(message, request.api_version, failed.error_code)
    return reply


def _refused(message: OffsetFetchRequest, version: int, code: ErrorCode) -> OffsetFetchResponse:
    # v1 has no error of its own: every partition carries it.
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=code)
                for index in topic.partition_indexes
            ],
        )
        for topic in (message.topics or [] if version < 2 else [])
    ]
    return OffsetFetchResponse(error_code=code, topics=topics)


async def _several(node: Node, request: Request) -> OffsetFetchResponse:
    message: OffsetFetchRequest = request.message
    response = OffsetFetchResponse()
    for group in message.groups:
        response.groups.append(await _group(node, request, group, require_stable=message.require_stable))
    return response


async def _group(
    node: Node, request: Request, asked: OffsetFetchRequestGroup, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    by_id = request.api_version >= TOPIC_IDS_SINCE_VERSION
    unknown: list[OffsetFetchResponseTopics] = []
    topics: list[OffsetFetchRequestTopics] | None = None
    if asked.topics is not None:
        topics = []
        for topic in asked.topics:
            known = node.metadata.topics_by_id.get(topic.topic_id) if by_id else None
            if by_id and known is None:
                unknown.append(_unknown(topic))
            else:
                topics.append(topic.replace(name=known.name if known else topic.name))
    one = OffsetFetchRequest(groups=[asked.replace(topics=topics)], require_stable=require_stable)
    try:
        reply: OffsetFetchResponse = await node.groups.ask(
            asked.group_id, lambda machine, _now_ms: machine.fetch_offsets(one, request.api_version)
        )
    except CoordinatorFailed as failed:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=failed.error_code)
    answered = reply.groups[0]
    if by_id:
        answered.topics = _with_ids(node, answered.topics) + unknown
    return answered


def _with_ids(node: Node, topics: list[OffsetFetchResponseTopics]) -> list[OffsetFetchResponseTopics]:
    """Topics by id; those that were deleted since have none and are left out."""
    found = []
    for topic in topics:
        known = node.metadata.topics.get(topic.name)
        if known is not None:
            found.append(topic.replace(topic_id=known.topic_id))
    return found


def _unknown(topic: OffsetFetchRequestTopics) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
            )
            for index in topic.partition_indexes
        ],
    )
