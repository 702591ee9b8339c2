"""StreamsGroupDescribe: each streams group as its own coordinator knows it (KIP-1071)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.handlers.groups.describe_groups import GROUP_OPERATIONS
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.features import STREAMS_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, StreamsGroupDescribeResponse]:
    """One description per group asked for."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> StreamsGroupDescribeResponse:
    message: StreamsGroupDescribeRequest = request.message
    if level_of(node.metadata.features, STREAMS_VERSION) < 1:
        refused = [
            DescribedGroup(group_id=each, error_code=ErrorCode.UNSUPPORTED_VERSION) for each in message.group_ids
        ]
        return StreamsGroupDescribeResponse(groups=refused)
    response = StreamsGroupDescribeResponse()
    for group_id in message.group_ids:
        described = await _describe(node, group_id)
        if message.include_authorized_operations:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


async def _describe(node: Node, group_id: str) -> DescribedGroup:
    if not group_id:
        return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
    asked = StreamsGroupDescribeRequest(group_ids=[group_id])

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        return machine.streams_group_describe(asked)

    try:
        reply: StreamsGroupDescribeResponse = await node.groups.ask(group_id, decide)
    except CoordinatorFailed as failed:
        return DescribedGroup(group_id=group_id, error_code=failed.error_code)
    return reply.groups[0]
