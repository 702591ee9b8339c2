"""AddPartitionsToTxn and AddOffsetsToTxn: which partitions the open transaction's markers will go to.

v0-3 come from clients; v4+ from partition leaders, either to add for a Produce v12 (implicit add) or, with
`verify_only`, to ask for an older client whether the partition belongs to the open transaction (KIP-890 §2 and §3).
Whether a partition exists and may be written is checked by the shell before. A kept transaction takes no more
partitions (KIP-939).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.core.decision import Decision
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import (
    ENDED_BY_OLD_PROTOCOL,
    NEW_PROTOCOL,
    PREPARED,
    TransactionRecord,
    TransactionState,
    added,
    following,
    is_kept,
    own,
)
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)

E = ErrorCode
Outcome = ErrorCode | TransactionRecord
BATCHED_VERSION = 4  # from here on requests come from brokers and may open a transaction of the new protocol


def add_partitions_to_txn(
    table: TransactionTable, request: AddPartitionsToTxnRequest, version: int, now_ms: int
) -> Decision:
    """The answer to a client's AddPartitionsToTxn, v0-3: one error code for all partitions."""
    assert version < BATCHED_VERSION
    transactional_id = request.v3_and_below_transactional_id
    identity = ProducerIdAndEpoch(request.v3_and_below_producer_id, request.v3_and_below_producer_epoch)
    topics = request.v3_and_below_topics
    outcome = _add(table, transactional_id, identity, _partitions(topics), 0, now_ms)
    results = topic_results(topics, {}, default=_code(outcome, version))
    return _decision(outcome, AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results), transactional_id)


def add_partitions(
    table: TransactionTable, entry: AddPartitionsToTxnTransaction, version: int, now_ms: int
) -> Decision:
    """The answer to one transaction of a broker's AddPartitionsToTxn, v4+: an AddPartitionsToTxnResult."""
    assert version >= BATCHED_VERSION
    identity = ProducerIdAndEpoch(entry.producer_id, entry.producer_epoch)
    if entry.verify_only:
        codes = _verify(table, entry.transactional_id, identity, _partitions(entry.topics))
        return Decision(reply=_result(entry, codes, E.NONE))
    outcome = _add(table, entry.transactional_id, identity, _partitions(entry.topics), NEW_PROTOCOL, now_ms)
    return _decision(outcome, _result(entry, {}, _code(outcome, version)), entry.transactional_id)


def add_offsets_to_txn(
    table: TransactionTable,
    request: AddOffsetsToTxnRequest,
    version: int,
    now_ms: int,
    offsets_partition: TopicPartition,
) -> Decision:
    """The answer to AddOffsetsToTxn. `offsets_partition`: where the group's offsets are (`__consumer_offsets`)."""
    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    outcome = _add(table, request.transactional_id, identity, frozenset({offsets_partition}), 0, now_ms)
    reply = AddOffsetsToTxnResponse(error_code=_code(outcome, version))
    return _decision(outcome, reply, request.transactional_id)


def _add(
    table: TransactionTable,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
    client_version: int,
    now_ms: int,
) -> Outcome:
    if not transactional_id:
        return E.INVALID_REQUEST
    transaction = table.get(transactional_id)
    waiting = table.pending.get(transactional_id)
    if isinstance(waiting, TransactionRecord) and waiting.state is TransactionState.ONGOING and not is_kept(waiting):
        # An add waits for its sync: this one goes behind it in the log, and is committed after it.
        transaction = waiting
    elif transaction is None and waiting is None:
        return E.INVALID_PRODUCER_ID_MAPPING
    elif transaction is None or table.is_busy(transactional_id):
        # Before the identity is looked at: a client that already has the next one must wait, not be fenced.
        return E.CONCURRENT_TRANSACTIONS
    refusal = _mismatch(transaction, identity)
    if refusal is not E.NONE:
        return refusal
    is_open = transaction.state is TransactionState.ONGOING
    if is_open and waiting is None and partitions <= transaction.partitions:
        return E.NONE
    if client_version >= NEW_PROTOCOL:
        if table.transaction_version() < 1:
            # Value version 0 cannot say that the epoch has to be bumped. Kafka answers the same, but leaves the id
            # unusable.
            return E.UNSUPPORTED_VERSION
        if transaction.client_transaction_version == ENDED_BY_OLD_PROTOCOL:
            # This epoch has written from sequence 0 already (see end_transaction): an abort by EndTxn v5 bumps it.
            return E.TRANSACTION_ABORTABLE
    return added(
        transaction, partitions, client_version=client_version, now_ms=now_ms, value_version=table.value_version
    )


def is_verified(
    table: TransactionTable, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
) -> bool:
    """Whether `verify_only` would be answered NONE for all of these: what a leader on the same node may ask directly."""
    return all(code is E.NONE for code in _verify(table, transactional_id, identity, partitions).values())


def _verify(
    table: TransactionTable,
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    partitions: frozenset[TopicPartition],
) -> Mapping[TopicPartition, ErrorCode]:
    """KIP-890 §3. A pending transition does not matter here (KAFKA-14904): nothing is changed."""
    transaction = table.get(transactional_id)
    if not transactional_id:
        refusal = E.INVALID_REQUEST
    elif transaction is None:
        refusal = E.INVALID_PRODUCER_ID_MAPPING
    else:
        refusal = _mismatch(transaction, identity)
        if refusal is E.NONE and transaction.state in PREPARED:
            refusal = E.CONCURRENT_TRANSACTIONS
    if refusal is not E.NONE or transaction is None:
        return dict.fromkeys(partitions, refusal)
    return {p: E.NONE if p in transaction.partitions else E.TRANSACTION_ABORTABLE for p in partitions}


def _mismatch(transaction: TransactionRecord, identity: ProducerIdAndEpoch) -> ErrorCode:
    if is_kept(transaction):
        # KIP-939: the new owner may only end the transaction; the former one is fenced.
        if identity == following(transaction):
            return E.INVALID_TXN_STATE
        ids = {transaction.producer_id, transaction.next_producer_id}
        return E.PRODUCER_FENCED if identity.producer_id in ids else E.INVALID_PRODUCER_ID_MAPPING
    if identity == own(transaction):
        return E.NONE
    return E.PRODUCER_FENCED if identity.producer_id == transaction.producer_id else E.INVALID_PRODUCER_ID_MAPPING


def _partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic.name, partition) for topic in topics for partition in topic.partitions)


def _code(outcome: Outcome, version: int) -> ErrorCode:
    if isinstance(outcome, TransactionRecord):
        return E.NONE
    return E.INVALID_PRODUCER_EPOCH if outcome is E.PRODUCER_FENCED and version < 2 else outcome


def _decision(outcome: Outcome, reply: object, transactional_id: str) -> Decision:
    if isinstance(outcome, TransactionRecord):
        return Decision(records=(outcome,), reply=reply)
    held = transactional_id if outcome is E.CONCURRENT_TRANSACTIONS else None
    return Decision(reply=reply, held_until_complete=held)


def topic_results(
    topics: Iterable[AddPartitionsToTxnTopic], codes: Mapping[TopicPartition, ErrorCode], default: ErrorCode
) -> list[AddPartitionsToTxnTopicResult]:
    """One result per partition asked for; `default` where `codes` says nothing. Used by shells for their own checks."""
    return [
        AddPartitionsToTxnTopicResult(
            name=topic.name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition,
                    partition_error_code=codes.get(TopicPartition(topic.name, partition), default),
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


def _result(
    entry: AddPartitionsToTxnTransaction, codes: Mapping[TopicPartition, ErrorCode], default: ErrorCode
) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=entry.transactional_id, topic_results=topic_results(entry.topics, codes, default)
    )
