"""SyncGroup: answered when the leader's assignment is committed."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.requests.request import Request
from oncelog.core.groups.classic.rebalance import sync_error
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, SyncGroupResponse]:
    """A closed connection takes its waiting sync along."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> SyncGroupResponse:
    message: SyncGroupRequest = request.message
    try:
        reply: SyncGroupResponse = await broker.groups.ask_with_token(
            message.group_id,
            lambda machine, token, now_ms: machine.sync_group(message, request.api_version, token=token, now_ms=now_ms),
        )
    except CoordinatorFailed as failed:
        return sync_error(failed.error_code)
    return reply
