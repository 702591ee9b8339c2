"""ExpireDelegationToken: tokens need an authenticated connection, which there is not yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(_broker: Broker, _request: Request) -> ExpireDelegationTokenResponse:
    """What Kafka answers on a plaintext listener."""
    return ExpireDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
