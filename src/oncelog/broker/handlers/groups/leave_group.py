"""LeaveGroup: members go, and the others share their partitions."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, LeaveGroupResponse]:
    """Asked of the group's coordinator."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> LeaveGroupResponse:
    message: LeaveGroupRequest = request.message
    try:
        reply: LeaveGroupResponse = await broker.groups.ask(
            message.group_id, lambda machine, now_ms: machine.leave_group(message, request.api_version, now_ms)
        )
    except CoordinatorFailed as failed:
        return LeaveGroupResponse(error_code=failed.error_code)
    return reply
