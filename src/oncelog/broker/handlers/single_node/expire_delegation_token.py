"""ExpireDelegationToken: tokens are not built."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.broker.requests.unsupported import refusal_of_tokens
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenResponse


def handle(_node: Node, request: Request) -> ExpireDelegationTokenResponse:
    """What Kafka answers on a plaintext listener, and to others where tokens are off."""
    return ExpireDelegationTokenResponse(error_code=refusal_of_tokens(request), expiry_timestamp_ms=-1)
