"""StreamsGroupDescribe: each streams group as its own coordinator knows it (KIP-1071)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.handlers.groups.describing import ask, describe_each
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import STREAMS_VERSION
from oncelog.errors import ErrorCode
from oncelog.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, StreamsGroupDescribeResponse]:
    """One description per group asked for."""

    async def describe(group_id: str) -> DescribedGroup:
        if not group_id:
            return DescribedGroup(group_id=group_id, error_code=ErrorCode.INVALID_GROUP_ID)
        asked = StreamsGroupDescribeRequest(group_ids=[group_id])
        return await ask(node, group_id, lambda machine: machine.streams_group_describe(asked), DescribedGroup)

    return describe_each(
        node, request.message, describe, DescribedGroup, StreamsGroupDescribeResponse, feature=STREAMS_VERSION
    )
