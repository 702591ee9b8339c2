"""SaslHandshake: 34 on a listener without authentication, as Kafka answers."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.sasl_handshake import SaslHandshakeResponse


def handle(_node: Node, _request: Request) -> SaslHandshakeResponse:
    """There is nothing to agree on."""
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
