"""Whether a broker looks at the condition of a commit, and what another one knows of a commit whose answer was lost."""

from __future__ import annotations

from oncelog.client.cluster.connection import Connection
from oncelog.core.producer.conditional_commit import FEATURE
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest


def takes_condition(connection: Connection) -> bool:
    """By what the broker itself supports: a level that is finalized in a directory says nothing of an older broker there."""
    return connection.versions.supported_features.get(FEATURE, (0, 0))[1] > 0


async def why_not_yet(connection: Connection, manager: TransactionManager, *, timeout_ms: int) -> int:
    """Why a broker that looks at no condition must not be asked for the commit (again), as the error code of its answer: NONE
    where the transaction has ended there, as an end has another epoch, and an id is forgotten only where it is in no transaction;
    OPERATION_NOT_ATTEMPTED while it is open. Raises Network, RequestTimedOut."""
    asked = DescribeTransactionsRequest(transactional_ids=[manager.transactional_id])
    answer, _ = await connection.request(asked, timeout_ms=timeout_ms)
    if not answer.transaction_states:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    found = answer.transaction_states[0]
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return ErrorCode.NONE
    if found.error_code:
        return int(found.error_code)
    is_open = (found.producer_id, found.producer_epoch) == manager.identity
    return ErrorCode.OPERATION_NOT_ATTEMPTED if is_open else ErrorCode.NONE
