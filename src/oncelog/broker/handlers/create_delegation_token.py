"""CreateDelegationToken: tokens need an authenticated connection, which there is not yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(_broker: Broker, _request: Request) -> CreateDelegationTokenResponse:
    """What Kafka answers on a plaintext listener."""
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type="User",
        principal_name="ANONYMOUS",
        token_requester_principal_type="User",  # noqa: S106
        token_requester_principal_name="ANONYMOUS",  # noqa: S106
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
