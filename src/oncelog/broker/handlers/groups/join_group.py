"""JoinGroup: answered when the rebalance it takes part in is prepared."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.groups.classic.rebalance import join_error
from oncelog.host.randomness import random_uuid
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse

NULLABLE_PROTOCOL_SINCE = 7


def handle(node: Node, request: Request) -> Coroutine[Any, Any, JoinGroupResponse]:
    """A closed connection takes its waiting join along."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> JoinGroupResponse:
    message: JoinGroupRequest = request.message
    drawn = random_uuid(node.random).hex()
    member_uuid = "-".join((drawn[:8], drawn[8:12], drawn[12:16], drawn[16:20], drawn[20:]))
    try:
        await node.groups.admit(message.group_id)
        if not message.member_id:
            await node.groups.admit_member(message.group_id, "", message.group_instance_id)
        reply: JoinGroupResponse = await node.groups.ask_with_token(
            message.group_id,
            lambda machine, token, now_ms: machine.join_group(
                message,
                request.api_version,
                client_id=request.client_id,
                client_host=f"/{request.connection.client_host}",
                token=token,
                member_uuid=member_uuid,
                now_ms=now_ms,
            ),
        )
    except CoordinatorFailed as failed:
        reply = join_error(failed.error_code, message.member_id)
    if reply.error_code and request.api_version >= NULLABLE_PROTOCOL_SINCE:
        reply.protocol_name = None  # as Apache Kafka answers where the version can say so
    return reply
