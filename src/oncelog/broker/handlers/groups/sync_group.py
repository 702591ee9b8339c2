"""SyncGroup: answered when the leader's assignment is committed."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.groups.classic.rebalance import sync_error
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, SyncGroupResponse]:
    """A closed connection takes its waiting sync along."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> SyncGroupResponse:
    message: SyncGroupRequest = request.message
    try:
        reply: SyncGroupResponse = await node.groups.ask_with_token(
            message.group_id,
            lambda machine, token, now_ms: machine.sync_group(message, request.api_version, token=token, now_ms=now_ms),
        )
    except CoordinatorFailed as failed:
        return sync_error(failed.error_code)
    return reply
