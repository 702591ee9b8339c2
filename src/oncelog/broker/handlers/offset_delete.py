"""OffsetDelete: committed offsets of a group are forgotten."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinator_shell import CoordinatorFailed
from oncelog.broker.request import Request
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, OffsetDeleteResponse]:
    """Asked of the group's coordinator."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: OffsetDeleteRequest) -> OffsetDeleteResponse:
    try:
        reply: OffsetDeleteResponse = await broker.groups.ask(
            message.group_id, lambda machine, _now_ms: machine.delete_offsets(message)
        )
    except CoordinatorFailed as failed:
        return OffsetDeleteResponse(error_code=failed.error_code)
    return reply
