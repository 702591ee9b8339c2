"""SaslAuthenticate: 34 on a listener without authentication, as Kafka answers."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateResponse


def handle(_node: Node, _request: Request) -> SaslAuthenticateResponse:
    """There is nobody to authenticate."""
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
