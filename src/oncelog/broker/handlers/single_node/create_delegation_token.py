"""CreateDelegationToken: tokens are not built."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.broker.requests.unsupported import refusal_of_tokens
from oncelog.wire.messages.create_delegation_token import CreateDelegationTokenResponse

REQUESTER_SINCE_VERSION = 3


def handle(_node: Node, request: Request) -> CreateDelegationTokenResponse:
    """What Kafka answers on a plaintext listener, and to others where tokens are off."""
    name = request.connection.principal.partition(":")[2]
    response = CreateDelegationTokenResponse(
        error_code=refusal_of_tokens(request),
        principal_type="User",
        principal_name=name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    if request.api_version >= REQUESTER_SINCE_VERSION:
        response.token_requester_principal_type = "User"  # noqa: S105 - Kafka's name of the field
        response.token_requester_principal_name = name
    return response
