"""DescribeTransactions and ListTransactions (KIP-664, filters of KIP-994 and KIP-1152): they look and change nothing.

Apache Kafka's answers are kept in detail (docs/kafka-notes.md C20, C21): an error carries zeroes, not -1; a duration
filter looks at the start time whatever the state, so an id without a start (-1) passes every duration.
"""

from __future__ import annotations

from oncelog.core.name_pattern import InvalidPattern, NamePattern
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import NAMES, TransactionRecord, TransactionState, is_kept, is_two_phase
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.transaction_state import TransactionTombstone
from oncelog.wire.messages import describe_transactions, list_transactions

E = ErrorCode
_STATES = {name: state for state, name in NAMES.items()}


def describe_transaction(table: TransactionTable, transactional_id: str) -> describe_transactions.TransactionState:
    """One entry of DescribeTransactions. A kept transaction is shown with its own producer id and epoch (KIP-939)."""
    if not transactional_id:
        return describe_transactions.TransactionState(error_code=E.INVALID_REQUEST)
    transaction = table.get(transactional_id)
    if transaction is None or isinstance(table.pending.get(transactional_id), TransactionTombstone):
        return describe_transactions.TransactionState(
            error_code=E.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id
        )
    return describe_transactions.TransactionState(
        transactional_id=transactional_id,
        transaction_state=NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=_topics(transaction),
    )


def _topics(transaction: TransactionRecord) -> list[describe_transactions.TopicData]:
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(transaction.partitions):
        topics.setdefault(topic, []).append(partition)
    return [describe_transactions.TopicData(topic=name, partitions=numbers) for name, numbers in topics.items()]


def list_transactions_of(
    table: TransactionTable, request: list_transactions.ListTransactionsRequest, now_ms: int
) -> list_transactions.ListTransactionsResponse:
    """This coordinator's share of ListTransactions, by transactional id."""
    unknown = [name for name in request.state_filters if name not in _STATES]
    pattern = None
    if request.transactional_id_pattern:
        try:
            pattern = NamePattern(request.transactional_id_pattern)
        except InvalidPattern:
            return list_transactions.ListTransactionsResponse(error_code=E.INVALID_REGULAR_EXPRESSION)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}
    producer_ids = set(request.producer_id_filters)
    started_before_ms = now_ms - request.duration_filter if request.duration_filter >= 0 else None
    listed = [
        list_transactions.TransactionState(
            transactional_id=t.transactional_id, producer_id=t.producer_id, transaction_state=NAMES[t.state]
        )
        for t in sorted(table.transactions.values(), key=lambda t: t.transactional_id)
        if (not request.state_filters or t.state in states)
        and (not producer_ids or t.producer_id in producer_ids)
        and (started_before_ms is None or t.start_ms == -1 or t.start_ms < started_before_ms)
        and (pattern is None or pattern.matches(t.transactional_id))
        and not isinstance(table.pending.get(t.transactional_id), TransactionTombstone)
    ]
    return list_transactions.ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)


def two_phase_transactions(table: TransactionTable) -> list[str]:
    """Ids whose open transaction needs level 3: a downgrade would give them a timeout, or take their Next pair away."""
    return sorted(
        t.transactional_id
        for t in table.transactions.values()
        if t.state is TransactionState.ONGOING and (is_two_phase(t) or is_kept(t))
    )
