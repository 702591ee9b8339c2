"""RenewDelegationToken: tokens need an authenticated connection, which there is not yet."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenResponse


def handle(_node: Node, _request: Request) -> RenewDelegationTokenResponse:
    """What Kafka answers on a plaintext listener."""
    return RenewDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, expiry_timestamp_ms=-1
    )
