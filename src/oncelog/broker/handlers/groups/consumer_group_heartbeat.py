"""ConsumerGroupHeartbeat: a member of a consumer group joins, stays, or leaves (KIP-848)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.groups.consumer.member import JOIN_EPOCH
from oncelog.core.metadata.features import GROUP_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.host.randomness import random_uuid
from oncelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ConsumerGroupHeartbeatResponse]:
    """Asked of the group's coordinator."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> ConsumerGroupHeartbeatResponse:
    message: ConsumerGroupHeartbeatRequest = request.message
    if level_of(node.metadata.features, GROUP_VERSION) < 1:
        return ConsumerGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        if message.group_id:
            await node.groups.admit(message.group_id)
            if message.member_epoch == JOIN_EPOCH:
                await node.groups.admit_member(message.group_id, message.member_id, message.instance_id)
        reply: ConsumerGroupHeartbeatResponse = await node.groups.ask(
            message.group_id,
            lambda machine, now_ms: machine.consumer_group_heartbeat(
                message,
                request.api_version,
                client_id=request.client_id,
                client_host=f"/{request.connection.client_host}",
                member_uuid=random_uuid(node.random).hex(),
                now_ms=now_ms,
            ),
        )
    except CoordinatorFailed as failed:
        return ConsumerGroupHeartbeatResponse(error_code=failed.error_code)
    return reply
