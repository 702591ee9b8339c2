"""Heartbeat: a member is alive, and hears whether a rebalance is on."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, HeartbeatResponse]:
    """Asked of the group's coordinator."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: HeartbeatRequest) -> HeartbeatResponse:
    try:
        reply: HeartbeatResponse = await broker.groups.ask(
            message.group_id, lambda machine, now_ms: machine.heartbeat(message, now_ms)
        )
    except CoordinatorFailed as failed:
        return HeartbeatResponse(error_code=failed.error_code)
    return reply
