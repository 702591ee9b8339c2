"""UnregisterBroker: only a broker that is gone can be forgotten, and the only one there is answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> UnregisterBrokerResponse:
    """Refused: this one is running, others are not registered."""
    message: UnregisterBrokerRequest = request.message
    if message.broker_id == broker.node_id:
        return UnregisterBrokerResponse(
            error_code=ErrorCode.INVALID_REQUEST, error_message="The broker is running: a node cannot forget itself."
        )
    return UnregisterBrokerResponse(
        error_code=ErrorCode.BROKER_ID_NOT_REGISTERED,
        error_message=f"Broker ID {message.broker_id} is not currently registered",
    )
