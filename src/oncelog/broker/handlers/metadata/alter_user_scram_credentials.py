"""AlterUserScramCredentials: set and delete credentials, each user with its own result."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.credentials import alter_credentials
from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, AlterUserScramCredentialsResponse]:
    """Write what is right."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    async with broker.store.changing() as metadata:
        records, response = alter_credentials(
            metadata.scram_credentials, message, broker.config.oncelog_max_scram_credentials
        )
        broker.metrics.limit_hits_of("oncelog.max.scram.credentials", response.results)
        refusal = await broker.store.append_or_refuse(records) if records else None
    if refusal is not None:
        for result in response.results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
    return response
