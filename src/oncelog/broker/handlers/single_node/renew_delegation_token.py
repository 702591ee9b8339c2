"""RenewDelegationToken: tokens are not built."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.broker.requests.unsupported import refusal_of_tokens
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenResponse


def handle(_node: Node, request: Request) -> RenewDelegationTokenResponse:
    """What Kafka answers on a plaintext listener, and to others where tokens are off."""
    return RenewDelegationTokenResponse(error_code=refusal_of_tokens(request), expiry_timestamp_ms=-1)
