"""Heartbeat: a member is alive, and hears whether a rebalance is on."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, HeartbeatResponse]:
    """Asked of the group's coordinator."""
    return _handle(node, request.message)


async def _handle(node: Node, message: HeartbeatRequest) -> HeartbeatResponse:
    try:
        reply: HeartbeatResponse = await node.groups.ask(
            message.group_id, lambda machine, now_ms: machine.heartbeat(message, now_ms)
        )
    except CoordinatorFailed as failed:
        return HeartbeatResponse(error_code=failed.error_code)
    return reply
