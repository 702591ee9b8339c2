"""CreateDelegationToken: a token for who asks, or for somebody else where it may (KIP-373)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.config.token_terms import terms_of
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.broker.requests.tokens import may_ask_for_tokens, new_token_id
from oncelog.core.metadata.delegation_tokens import create_token, owner_of, refused_creation
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, ResourceType
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenResponse

Response = CreateDelegationTokenResponse


def handle(node: Node, request: Request) -> Response | Coroutine[Any, Any, Response]:
    """The token, stored before it is told."""
    requester = request.connection.principal
    owner = owner_of(request.message, requester)
    code = ErrorCode.NONE
    if not may_ask_for_tokens(request):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not _may_create(node, request, owner):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    return refused_creation(code, owner, requester, request.api_version) if code else _handle(node, request)


def _may_create(node: Node, request: Request, owner: str) -> bool:
    authorization = node.authorization
    caller = None if authorization is None else authorization.caller_of(request)
    if authorization is None or caller is None or caller.may(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        return True
    authorization.note_denied(request, caller)
    return False


async def _handle(node: Node, request: Request) -> Response:
    try:
        return await _create(node, request)
    except ChangeTimedOut:
        return _refused(request, ErrorCode.REQUEST_TIMED_OUT)


async def _create(node: Node, request: Request) -> Response:
    async with node.store.changing() as metadata:
        records, response, limit = create_token(
            metadata.delegation_tokens,
            terms_of(node.config),
            request.message,
            requester=request.connection.principal,
            token_id=new_token_id(node.random),
            now_ms=node.clock.now_ms(),
            version=request.api_version,
        )
        if limit is not None:
            node.metrics.limit_hit(limit.limit)
        refusal = await node.store.append_or_refuse(records) if records else None
    return response if refusal is None else _refused(request, refusal.error_code)


def _refused(request: Request, code: ErrorCode) -> Response:
    requester = request.connection.principal
    return refused_creation(code, owner_of(request.message, requester), requester, request.api_version)
