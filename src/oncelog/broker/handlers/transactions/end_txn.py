"""EndTxn: answered once the decision is synced; the markers follow."""

from __future__ import annotations

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Reply, Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse


def handle(node: Node, request: Request) -> Reply:
    """Never held: it is what others wait for."""
    message: EndTxnRequest = request.message
    if not message.transactional_id:
        return _refused(ErrorCode.INVALID_REQUEST)
    return node.transactions.begin(
        message.transactional_id,
        lambda machine, now_ms: machine.end_txn(message, request.api_version, now_ms),
        _refused,
    )


def _refused(code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=code)
