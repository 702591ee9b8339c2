"""ConsumerGroupDescribe: each consumer group as its own coordinator knows it (KIP-848)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.handlers.groups.describing import ask, describe_each
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.features import GROUP_VERSION
from oncelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ConsumerGroupDescribeResponse]:
    """One description per group asked for."""

    async def describe(group_id: str) -> DescribedGroup:
        asked = ConsumerGroupDescribeRequest(group_ids=[group_id])
        return await ask(node, group_id, lambda machine: machine.consumer_group_describe(asked), DescribedGroup)

    return describe_each(
        node, request.message, describe, DescribedGroup, ConsumerGroupDescribeResponse, feature=GROUP_VERSION
    )
