"""DescribeGroups: each group as its own coordinator knows it."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

# What Kafka grants on a group where no authorizer is configured: read, delete, describe, configs (bits of AclOperation).
GROUP_OPERATIONS = sum(1 << bit for bit in (3, 6, 8, 10, 11))


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, DescribeGroupsResponse]:
    """One description per group asked for."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> DescribeGroupsResponse:
    message: DescribeGroupsRequest = request.message
    response = DescribeGroupsResponse()
    for group_id in message.groups:
        described = await _describe(broker, group_id, request.api_version)
        if message.include_authorized_operations:
            described.authorized_operations = GROUP_OPERATIONS
        response.groups.append(described)
    return response


async def _describe(broker: Broker, group_id: str, version: int) -> DescribedGroup:
    asked = DescribeGroupsRequest(groups=[group_id])

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        return machine.describe_groups(asked, version)

    try:
        reply: DescribeGroupsResponse = await broker.groups.ask(group_id, decide)
    except CoordinatorFailed as failed:
        return DescribedGroup(group_id=group_id, error_code=failed.error_code)
    return reply.groups[0]
