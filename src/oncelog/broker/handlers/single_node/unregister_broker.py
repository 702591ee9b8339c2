"""UnregisterBroker: only a broker that is gone can be forgotten, and the only one there is answers."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


def handle(node: Node, request: Request) -> UnregisterBrokerResponse:
    """Refused: this one is running, others are not registered."""
    message: UnregisterBrokerRequest = request.message
    if message.broker_id == node.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="The broker is running: a node cannot forget itself."
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {message.broker_id} is not currently registered",
    )
