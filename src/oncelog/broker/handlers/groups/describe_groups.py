"""DescribeGroups: each group as its own coordinator knows it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

# What Kafka grants on a group where no authorizer is configured: read, delete, describe, configs (bits of AclOperation).
GROUP_OPERATIONS = sum(1 << bit for bit in (3, 6, 8, 10, 11))


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DescribeGroupsResponse]:
    """One description per group asked for."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> DescribeGroupsResponse:
    message: DescribeGroupsRequest = request.message
    response = DescribeGroupsResponse()
    for group_id in message.groups:
        described = await _describe(node, group_id, request.api_version)
        if message.include_authorized_operations:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


async def _describe(node: Node, group_id: str, version: int) -> DescribedGroup:
    asked = DescribeGroupsRequest(groups=[group_id])

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        return machine.describe_groups(asked, version)

    try:
        reply: DescribeGroupsResponse = await node.groups.ask(group_id, decide)
    except CoordinatorFailed as failed:
        return DescribedGroup(group_id=group_id, error_code=failed.error_code)
    return reply.groups[0]
