"""RenewDelegationToken: a token holds longer."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.config.token_terms import terms_of
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.broker.requests.tokens import may_ask_for_tokens
from oncelog.core.metadata.delegation_tokens import renew_token
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.errors import ErrorCode
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenResponse

Response = RenewDelegationTokenResponse


def handle(node: Node, request: Request) -> Response | Coroutine[Any, Any, Response]:
    """When it ends now."""
    if not may_ask_for_tokens(request):
        return Response(error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1)
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> Response:
    try:
        return await _renew(node, request)
    except ChangeTimedOut:
        return Response(error_code=ErrorCode.REQUEST_TIMED_OUT, expiry_timestamp_ms=0)


async def _renew(node: Node, request: Request) -> Response:
    async with node.store.changing() as metadata:
        records, response = renew_token(
            metadata.delegation_tokens,
            terms_of(node.config),
            request.message,
            principal=request.connection.principal,
            now_ms=node.clock.now_ms(),
        )
        refusal = await node.store.append_or_refuse(records) if records else None
    return response if refusal is None else Response(error_code=refusal.error_code, expiry_timestamp_ms=0)
