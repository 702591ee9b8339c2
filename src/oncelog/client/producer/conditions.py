"""Whether a broker looks at the condition of a commit, and what another one knows of a commit whose answer was lost."""

from __future__ import annotations

from oncelog.client.cluster.connection import Connection
from oncelog.core.producer.conditional_commit import FEATURE
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.errors import ErrorCode, error_for
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest


def takes_condition(connection: Connection) -> bool:
    """By what the broker itself supports: a level that is finalized in a directory says nothing of an older broker there."""
    return connection.versions.supported_features.get(FEATURE, (0, 0))[1] > 0


async def has_ended(connection: Connection, manager: TransactionManager, *, timeout_ms: int) -> bool:
    """Whether the producer's transaction has ended at its coordinator: an end has another epoch, and an id is forgotten
    only where it is in no transaction. Raises KafkaError."""
    asked = DescribeTransactionsRequest(transactional_ids=[manager.transactional_id])
    answer, _ = await connection.request(asked, timeout_ms=timeout_ms)
    found = answer.transaction_states[0]
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        return True
    if found.error_code:
        raise error_for(found.error_code, f"transactional id {manager.transactional_id!r} could not be described")
    return (found.producer_id, found.producer_epoch) != manager.identity
