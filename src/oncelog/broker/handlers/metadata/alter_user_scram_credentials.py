"""AlterUserScramCredentials: set and delete credentials, each user with its own result."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.credentials import alter_credentials
from oncelog.core.metadata.refusal import NO_TURN, ChangeTimedOut, Refusal
from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, AlterUserScramCredentialsResponse]:
    """Apply the valid entries."""
    return _handle(node, request.message)


async def _handle(node: Node, message: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    try:
        return await _alter(node, message)
    except ChangeTimedOut:
        return _refused(message, NO_TURN)


async def _alter(node: Node, message: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    async with node.store.changing() as metadata:
        records, response = alter_credentials(
            metadata.scram_credentials, message, node.config.oncelog_max_scram_credentials
        )
        node.metrics.limit_hits_of("oncelog.max.scram.credentials", response.results)
        refusal = await node.store.append_or_refuse(records) if records else None
    if refusal is not None:
        for result in response.results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
    return response


def _refused(message: AlterUserScramCredentialsRequest, refusal: Refusal) -> AlterUserScramCredentialsResponse:
    names = [each.name for each in message.deletions] + [each.name for each in message.upsertions]
    code, why = refusal.error_code, refusal.message
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=why)
            for user in dict.fromkeys(names)
        ]
    )
