"""LeaveGroup: members go, and the others share their partitions."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, LeaveGroupResponse]:
    """Asked of the group's coordinator."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> LeaveGroupResponse:
    message: LeaveGroupRequest = request.message
    try:
        reply: LeaveGroupResponse = await node.groups.ask(
            message.group_id, lambda machine, now_ms: machine.leave_group(message, request.api_version, now_ms)
        )
    except CoordinatorFailed as failed:
        return LeaveGroupResponse(error_code=failed.error_code)
    return reply
