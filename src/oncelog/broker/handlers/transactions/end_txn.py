"""EndTxn: answered once the decision is synced; the markers follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.requests.request import Reply, Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Reply:
    """Never held: it is what others wait for."""
    message: EndTxnRequest = request.message
    if not message.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    return broker.transactions.begin(
        message.transactional_id,
        lambda machine, now_ms: machine.end_txn(message, request.api_version, now_ms),
        _refused,
    )


def _refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
