"""EndTxn: answered once the decision is synced; the markers follow."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.coordinator_shell import CoordinatorFailed
from oncelog.broker.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> EndTxnResponse | Coroutine[Any, Any, EndTxnResponse]:
    """Never held: it is what others wait for."""
    message: EndTxnRequest = request.message
    if not message.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.INVALID_REQUEST)
    return _handle(broker, message, request.api_version)


async def _handle(broker: Broker, message: EndTxnRequest, version: int) -> EndTxnResponse:
    try:
        reply: EndTxnResponse = await broker.transactions.ask(
            message.transactional_id, lambda machine, now_ms: machine.end_txn(message, version, now_ms)
        )
    except CoordinatorFailed as failed:
        return EndTxnResponse(error_code=failed.error_code)
    return reply
