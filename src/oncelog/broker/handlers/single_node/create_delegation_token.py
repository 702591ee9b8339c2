"""CreateDelegationToken: tokens need an authenticated connection, which there is not yet."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenResponse

REQUESTER_SINCE_VERSION = 3


def handle(_node: Node, request: Request) -> CreateDelegationTokenResponse:
    """What Kafka answers on a plaintext listener."""
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        principal_type="User",
        principal_name="ANONYMOUS",
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if request.api_version >= REQUESTER_SINCE_VERSION:
        response.token_requester_principal_type = "User"  # noqa: S105 - Kafka's name of the field
        response.token_requester_principal_name = "ANONYMOUS"  # noqa: S105
    return response
