"""DeleteAcls: every access rule that matches one of the filters goes; 54 where no authorizer is configured."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.acls import SWITCHED_OFF, UNKNOWN_NUMBERS, delete_acls, filter_of
from oncelog.core.metadata.refusal import NO_TURN, ChangeTimedOut, Refusal
from oncelog.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse


def handle(node: Node, request: Request) -> DeleteAclsResponse | Coroutine[Any, Any, DeleteAclsResponse]:
    """Remove, and tell what was removed."""
    message: DeleteAclsRequest = request.message
    if any(filter_of(each).is_unknown for each in message.filters):
        return _refused(message, UNKNOWN_NUMBERS)
    if node.authorization is None:
        return _refused(message, SWITCHED_OFF)
    return _handle(node, message)


async def _handle(node: Node, message: DeleteAclsRequest) -> DeleteAclsResponse:
    try:
        return await _delete(node, message)
    except ChangeTimedOut:
        return _refused(message, NO_TURN)


async def _delete(node: Node, message: DeleteAclsRequest) -> DeleteAclsResponse:
    async with node.store.changing() as metadata:
        records, results = delete_acls(metadata.acls, message.filters)
        refusal = await node.store.append_or_refuse(records) if records else None
    return DeleteAclsResponse(filter_results=results) if refusal is None else _refused(message, refusal)


def _refused(message: DeleteAclsRequest, refusal: Refusal) -> DeleteAclsResponse:
    result = DeleteAclsFilterResult(error_code=refusal.error_code, error_message=refusal.message)
    return DeleteAclsResponse(filter_results=[result] * len(message.filters))
