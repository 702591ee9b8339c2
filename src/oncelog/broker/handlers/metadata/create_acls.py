"""CreateAcls: access rules, each with its own result; 54 where no authorizer is configured."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.acls import SWITCHED_OFF, UNKNOWN_NUMBERS, create_acls, has_unknown_numbers
from oncelog.core.metadata.refusal import NO_TURN, ChangeTimedOut, Refusal
from oncelog.errors import ErrorCode
from oncelog.host.randomness import random_uuid
from oncelog.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse


def handle(node: Node, request: Request) -> CreateAclsResponse | Coroutine[Any, Any, CreateAclsResponse]:
    """Write what is new and right."""
    message: CreateAclsRequest = request.message
    if any(has_unknown_numbers(creation) for creation in message.creations):
        return _refused(message, UNKNOWN_NUMBERS)
    if node.authorization is None:
        return _refused(message, SWITCHED_OFF)
    return _handle(node, message)


async def _handle(node: Node, message: CreateAclsRequest) -> CreateAclsResponse:
    try:
        return await _create(node, message)
    except ChangeTimedOut:
        return _refused(message, NO_TURN)


async def _create(node: Node, message: CreateAclsRequest) -> CreateAclsResponse:
    async with node.store.changing() as metadata:
        records, results = create_acls(
            metadata.acls, message.creations, lambda: random_uuid(node.random), node.config.oncelog_max_acls
        )
        node.metrics.limit_hits_of("oncelog.max.acls", results)
        refusal = await node.store.append_or_refuse(records) if records else None
    if refusal is not None:
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
    return CreateAclsResponse(results=results)


def _refused(message: CreateAclsRequest, refusal: Refusal) -> CreateAclsResponse:
    result = AclCreationResult(error_code=refusal.error_code, error_message=refusal.message)
    return CreateAclsResponse(results=[result] * len(message.creations))
