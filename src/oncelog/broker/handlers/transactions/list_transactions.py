"""ListTransactions: what passes the filters, of all coordinators on this node."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.transactions.queries import list_transactions_of
from oncelog.core.transactions.table import TransactionConfig, TransactionTable
from oncelog.errors import ErrorCode
from oncelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, ListTransactionsResponse]:
    """An unknown state is told and matches nothing; a bad pattern is refused as a whole."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> ListTransactionsResponse:
    message: ListTransactionsRequest = request.message
    now_ms = node.clock.now_ms()
    # What the filters alone say also holds where no coordinator is in use yet.
    nothing = TransactionTable(0, TransactionConfig(), node.producer_id_blocks.ids, lambda: 0)
    response = list_transactions_of(nothing, message, now_ms)
    coordinators = list(node.transactions.loaded())
    for coordinator in coordinators:
        share = coordinator.machine.list_transactions(message, now_ms)
        if share.error_code != ErrorCode.NONE:
            return share
        response.transaction_states += share.transaction_states
    for coordinator in coordinators:
        try:
            await coordinator.committed()
        except CoordinatorFailed as failed:
            return ListTransactionsResponse(error_code=failed.error_code)
    return response
