"""DescribeTransactions: each id as its own coordinator knows it (KIP-664)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DescribeTransactionsResponse]:
    """One state per id, in the order of the request; an id asked twice is answered twice."""
    return _handle(node, request.message)


async def _handle(node: Node, message: DescribeTransactionsRequest) -> DescribeTransactionsResponse:
    response = DescribeTransactionsResponse()
    for transactional_id in message.transactional_ids:
        try:
            coordinator = await node.transactions.coordinator_of(transactional_id)
            state = coordinator.machine.describe_transaction(transactional_id)
            await coordinator.committed()
            response.transaction_states.append(state)
        except CoordinatorFailed as failed:
            response.transaction_states.append(
                TransactionState(transactional_id=transactional_id, error_code=failed.error_code)
            )
    return response
