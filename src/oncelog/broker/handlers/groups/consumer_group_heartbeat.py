"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays, or leaves (KIP-848)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.requests.request import Request
from oncelog.core.groups.consumer.member import JOIN_EPOCH
from oncelog.core.metadata.features import GROUP_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.host.randomness import random_uuid
from oncelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    """Asked of the group's coordinator."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> ConsumerGroupHeartbeatResponse:
    message: ConsumerGroupHeartbeatRequest = request.message
    if level_of(broker.metadata.features, GROUP_VERSION) < 1:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        if message.group_id:
            await broker.groups.admit(message.group_id)
            if message.member_epoch == JOIN_EPOCH:
                await broker.groups.admit_member(message.group_id, message.member_id, message.instance_id)
        reply: ConsumerGroupHeartbeatResponse = await broker.groups.ask(
            message.group_id,
            lambda machine, now_ms: machine.consumer_group_heartbeat(
                message,
                request.api_version,
                client_id=request.client_id,
                client_host=f"/{request.connection.client_host}",
                member_uuid=random_uuid(broker.host.random).hex(),
                now_ms=now_ms,
            ),
        )
    except CoordinatorFailed as failed:
        return ConsumerGroupHeartbeatResponse(error_code=failed.error_code)
    return reply
