"""ShareGroupDescribe: share groups with their members and assignments (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.handlers.groups.describe_groups import GROUP_OPERATIONS
from oncelog.broker.handlers.groups.describing import ask
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ShareGroupDescribeResponse]:
    """One description per group asked for."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> ShareGroupDescribeResponse:
    message: ShareGroupDescribeRequest = request.message
    response = ShareGroupDescribeResponse()
    is_served = level_of(node.metadata.features, SHARE_VERSION) >= 1
    for group_id in message.group_ids:
        if not is_served:
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.UNSUPPORTED_VERSION)
        elif not group_id:
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        else:
            described = await _describe(node, group_id)
        if message.include_authorized_operations and not described.error_code:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


async def _describe(node: Node, group_id: str) -> DescribedGroup:
    asked = ShareGroupDescribeRequest(group_ids=[group_id])
    return await ask(node, group_id, lambda machine: machine.share_group_describe(asked), DescribedGroup)
