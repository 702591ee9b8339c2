"""DeleteGroups: empty groups and their offsets."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import NOTHING, Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DeleteGroupsResponse]:
    """Each group has its own result."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> DeleteGroupsResponse:
    message: DeleteGroupsRequest = request.message
    response = DeleteGroupsResponse()
    for group_id in dict.fromkeys(message.groups_names):
        response.results.append(await _delete(node, request, group_id))
    return response


async def _delete(node: Node, request: Request, group_id: str) -> DeletableGroupResult:
    asked = DeleteGroupsRequest(groups_names=[group_id])
    is_share = False

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        nonlocal is_share
        is_share = group_id in machine.share_groups.by_id
        return NOTHING if is_share else machine.delete_groups(asked)

    async def delete() -> DeleteGroupsResponse:
        reply: DeleteGroupsResponse = await node.groups.ask(group_id, lambda machine, _: machine.delete_groups(asked))
        if not reply.results[0].error_code:
            await node.share_groups.group_deleted(group_id)
        return reply

    try:
        reply: DeleteGroupsResponse = await node.groups.ask(group_id, decide)
        if is_share:
            reply = await node.share_partitions.changes.run(request.connection.tasks, group_id, delete)
    except CoordinatorFailed as failed:
        return DeletableGroupResult(group_id=group_id, error_code=failed.error_code)
    return reply.results[0]
