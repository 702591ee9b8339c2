"""ShareGroupHeartbeat: a member of a share group joins, stays, or leaves (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.groups.share.group import JOIN_EPOCH
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ShareGroupHeartbeatResponse]:
    """Asked of the group's coordinator, after the partitions that the group will read have a state."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> ShareGroupHeartbeatResponse:
    message: ShareGroupHeartbeatRequest = request.message
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    try:
        begun = {}
        if message.group_id:
            await node.groups.admit(message.group_id)
            if message.member_epoch == JOIN_EPOCH:
                await node.groups.admit_member(message.group_id, message.member_id, None)
            begun = await _begin(node, message)
        reply: ShareGroupHeartbeatResponse = await node.groups.ask(
            message.group_id,
            lambda machine, now_ms: machine.share_group_heartbeat(
                message,
                client_id=request.client_id,
                client_host=f"/{request.connection.client_host}",
                begun=begun,
                now_ms=now_ms,
            ),
        )
    except CoordinatorFailed as failed:
        return ShareGroupHeartbeatResponse(error_code=failed.error_code)
    return reply


async def _begin(node: Node, message: ShareGroupHeartbeatRequest) -> dict[bytes, frozenset[int]]:
    """The partitions whose state has begun now. Raises CoordinatorFailed."""
    coordinator = await node.groups.coordinator_of(message.group_id)
    wanted = coordinator.machine.share_groups.to_begin(message)
    if wanted:
        shares = node.share_partitions
        keys = [ShareKey(message.group_id, topic_id, index) for topic_id, found in wanted.items() for index in found]
        limit = node.config.oncelog_max_committed_offsets
        if shares.coordinators.key_count + len(keys) > limit:
            node.metrics.limit_hit("oncelog.max.committed.offsets")
            raise CoordinatorFailed(ErrorCode.POLICY_VIOLATION)
        await shares.coordinators.begin(keys)
    return wanted
