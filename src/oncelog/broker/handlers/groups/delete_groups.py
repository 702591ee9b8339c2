"""DeleteGroups: empty groups and their offsets."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DeleteGroupsResponse]:
    """Each group has its own result."""
    return _handle(node, request.message)


async def _handle(node: Node, message: DeleteGroupsRequest) -> DeleteGroupsResponse:
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(message.groups_names):
        response.results.append(await _delete(node, group_id))
    return response


async def _delete(node: Node, group_id: str) -> DeletableGroupResult:
    asked = DeleteGroupsRequest(groups_names=[group_id])

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        return machine.delete_groups(asked)

    try:
        is_share = group_id in (await node.groups.coordinator_of(group_id)).machine.share_groups.by_id
        reply: DeleteGroupsResponse = await node.groups.ask(group_id, decide)
        if is_share and not reply.results[0].error_code:
            await node.share_groups.group_deleted(group_id)
    except CoordinatorFailed as failed:
        return DeletableGroupResult(group_id=group_id, error_code=failed.error_code)
    return reply.results[0]
