"""EndTxn, and every other way a transaction ends: the outcome is decided here, once.

v5 is KIP-890's protocol: each end bumps the epoch, a retry is recognised by the epoch before it, and an abort of
nothing is an end too. v0-4 keep the epoch. Where they end a transaction that was opened by implicit add (Produce v12),
the record says so (client version 1): its producer's next batches would begin at sequence 0 of the same epoch and be
taken for duplicates, so implicit add is refused until the epoch is bumped. Apache Kafka loses those batches silently.

A commit may be conditional (`EndTxnRequest.needed`, v5, ours): it comes right behind the last records, before their producer
knows that they have arrived, and is not attempted where they have not: OPERATION_NOT_ATTEMPTED. That is final for all that the
producer has sent of it so far. A repeated one is answered as the first time where a conditional one was done; a plain commit
of the transaction (an operator's) says nothing of records that came later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import (
    ENDED_BY_OLD_PROTOCOL,
    EXHAUSTED_PRODUCER_EPOCH,
    LAST_PRODUCER_EPOCH,
    NEW_PROTOCOL,
    TransactionRecord,
    TransactionState,
    acting,
    completed,
    following,
    is_kept,
    is_retry,
    is_rotated_away,
    marker_epoch_of,
    own,
    prepared,
    remembering,
)
from oncelog.errors import ErrorCode
from oncelog.types import NO_PRODUCER_ID, ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse

S = TransactionState
E = ErrorCode
ENDED = frozenset({S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
HasNeeded = Callable[[Mapping[TopicPartition, int]], bool]
"""Whether the open transaction ends with these sequences in these partitions, as their leader knows."""


def end_txn(
    table: TransactionTable,
    request: EndTxnRequest,
    version: int,
    now_ms: int,
    has_needed: HasNeeded | None = None,
) -> Decision:
    """The answer to EndTxn. It is sent when the outcome is durable; the markers follow it."""
    if not request.transactional_id:
        return _refused(E.INVALID_REQUEST, version)
    transaction = table.get(request.transactional_id)
    if version >= 5 and table.is_busy(request.transactional_id):
        return _refused(E.CONCURRENT_TRANSACTIONS, version)
    if transaction is None:
        return _refused(E.INVALID_PRODUCER_ID_MAPPING, version)
    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if version >= 5:
        outcome = _new_protocol(table, transaction, identity, request, now_ms, has_needed)
    else:
        outcome = _old_protocol(table, transaction, identity, request.committed, now_ms)
    if isinstance(outcome, ErrorCode) and outcome is not E.NONE:
        return _refused(outcome, version)
    if isinstance(outcome, ErrorCode):  # a retry: the answer of the first time
        return Decision(reply=_reply(own(transaction), version))
    records, markers = outcome
    # KIP-890: the identity of the Complete record, which on overflow has the new producer id and epoch 0.
    return Decision(records=records, reply=_reply(following(records[0]), version), markers=markers)


def _finds_needed(
    table: TransactionTable, transaction: TransactionRecord, request: EndTxnRequest, has_needed: HasNeeded | None
) -> bool:
    """Whether what a conditional commit names (each partition once) is there, in the open transaction, and gets its markers."""
    if has_needed is None or transaction.state is not S.ONGOING:
        return False
    identity = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    if table.was_overtaken(transaction.transactional_id, identity, request.attempt):
        return False
    named = [
        (TopicPartition(topic.name, each.partition_index), each.last_sequence)
        for topic in request.needed
        for each in topic.partitions
    ]
    needed = dict(named)
    is_named_once = len(needed) == len(named)
    return is_named_once and needed.keys() <= transaction.partitions and has_needed(needed)


Ended = tuple[tuple[TransactionRecord, ...], tuple[MarkersToWrite, ...]]


def _new_protocol(
    table: TransactionTable,
    transaction: TransactionRecord,
    identity: ProducerIdAndEpoch,
    request: EndTxnRequest,
    now_ms: int,
    has_needed: HasNeeded | None,
) -> Ended | ErrorCode:
    """EndTxn v5 (KIP-890), on an id that is not busy."""
    commit = request.committed
    bumped_by_end = transaction.client_transaction_version >= NEW_PROTOCOL and transaction.state in ENDED
    if bumped_by_end and is_retry(transaction, identity):
        if commit and request.needed:
            return _repeated_on_condition(transaction)
        return _repeated(transaction.state, commit)
    refusal = _mismatch(transaction, identity)
    if is_rotated_away(transaction, identity):
        refusal = E.PRODUCER_FENCED
    if refusal is not E.NONE:
        return refusal
    on_condition = commit and bool(request.needed)
    if on_condition and not _finds_needed(table, transaction, request, has_needed):
        table.refused_attempt(transaction.transactional_id, identity, request.attempt)
        return E.OPERATION_NOT_ATTEMPTED  # also where nothing of the transaction has arrived yet
    if commit and transaction.state is not S.ONGOING:
        return E.INVALID_TXN_STATE  # there is nothing to commit
    if table.transaction_version() < 1:
        # Value version 0 has no room for this protocol. Kafka answers the same, but leaves the id unusable.
        return E.UNSUPPORTED_VERSION
    requester = acting(transaction)
    afterwards = table.bumped(requester)
    if afterwards is None:
        return E.COORDINATOR_LOAD_IN_PROGRESS
    return end(
        table,
        remembering(transaction, requester),
        commit=commit,
        afterwards=afterwards,
        client_version=NEW_PROTOCOL,
        now_ms=now_ms,
        on_condition=on_condition if commit else None,
    )


def _old_protocol(
    table: TransactionTable, transaction: TransactionRecord, identity: ProducerIdAndEpoch, commit: bool, now_ms: int
) -> Ended | ErrorCode:
    """EndTxn v0-4. The identity is checked before CONCURRENT_TRANSACTIONS."""
    refusal = E.NONE if identity == following(transaction) else _mismatch(transaction, identity)
    if refusal is not E.NONE:
        return refusal
    if table.is_busy(transaction.transactional_id):
        return E.CONCURRENT_TRANSACTIONS
    if transaction.state is S.EMPTY:
        return E.INVALID_TXN_STATE
    if transaction.state is not S.ONGOING:
        return _repeated(transaction.state, commit)
    if is_kept(transaction):
        # KIP-939: the kept transaction is fenced by epoch + 1; its new owner goes on as it is, having written nothing.
        return end(table, transaction, commit=commit, afterwards=acting(transaction), client_version=0, now_ms=now_ms)
    return end(
        table,
        transaction,
        commit=commit,
        afterwards=own(transaction),
        client_version=ENDED_BY_OLD_PROTOCOL if transaction.client_transaction_version else 0,
        now_ms=now_ms,
        marker_epoch=transaction.producer_epoch,
    )


def _mismatch(transaction: TransactionRecord, identity: ProducerIdAndEpoch) -> ErrorCode:
    expected = acting(transaction)
    if identity == expected:
        return E.NONE
    if identity.producer_id == expected.producer_id:
        return E.PRODUCER_FENCED
    # The former instance of a kept transaction is fenced, not unknown, also where the Next pair has another id.
    return E.PRODUCER_FENCED if identity.producer_id == transaction.producer_id else E.INVALID_PRODUCER_ID_MAPPING


def _repeated(state: TransactionState, commit: bool) -> ErrorCode:
    """A retry is answered as the first time where it asks for what was done."""
    return E.NONE if state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT) else E.INVALID_TXN_STATE


def _repeated_on_condition(transaction: TransactionRecord) -> ErrorCode:
    """A retry of a conditional commit. Where somebody else has ended the transaction, who had not seen its last records, it was
    not attempted, and never will be. Of an end that an older broker wrote down nobody knows: that is not told as abortable."""
    if transaction.state is S.COMPLETE_ABORT or transaction.committed_on_condition is False:
        return E.OPERATION_NOT_ATTEMPTED
    return E.NONE if transaction.committed_on_condition else E.INVALID_TXN_STATE


def fence(
    table: TransactionTable, transaction: TransactionRecord, requester: ProducerIdAndEpoch | None, now_ms: int
) -> Ended | None:
    """Abort an open transaction without being asked by EndTxn; None while a producer id is needed and there is none.

    `requester` is whose retry may still be recognised: the same producer (its own init, a timeout), None for a newer
    one. Below level 2 nobody's is, as in Kafka. A kept transaction goes on from its Next pair (KIP-939).
    """
    level = table.transaction_version()
    present = acting(transaction)
    if level == 0 and present.producer_epoch >= EXHAUSTED_PRODUCER_EPOCH:
        # Value version 0 cannot hold a next id; InitProducerId rotates instead.
        afterwards: ProducerIdAndEpoch | None = ProducerIdAndEpoch(present.producer_id, LAST_PRODUCER_EPOCH)
    else:
        afterwards = table.bumped(present)
    if afterwards is None:
        return None
    return end(
        table,
        remembering(transaction, requester if level >= NEW_PROTOCOL else None),
        commit=False,
        afterwards=afterwards,
        client_version=NEW_PROTOCOL if level >= NEW_PROTOCOL else 0,
        now_ms=now_ms,
    )


def end(
    table: TransactionTable,
    transaction: TransactionRecord,
    *,
    commit: bool,
    afterwards: ProducerIdAndEpoch,
    client_version: int,
    now_ms: int,
    marker_epoch: int | None = None,
    on_condition: bool | None = None,
) -> Ended:
    """The Prepare record and its markers; the Complete record too where no partition has to hear of it."""
    record = prepared(
        transaction,
        commit=commit,
        marker_epoch=marker_epoch_of(transaction) if marker_epoch is None else marker_epoch,
        afterwards=afterwards,
        client_version=client_version,
        now_ms=now_ms,
        value_version=table.value_version,
        on_condition=on_condition,
    )
    if record.partitions:
        return (record,), (markers_of(table, record),)
    return (record, completed(record, now_ms=now_ms, value_version=table.value_version)), ()


def markers_of(table: TransactionTable, record: TransactionRecord) -> MarkersToWrite:
    """What to write for a Prepare record, with this coordinator's epoch."""
    return MarkersToWrite(
        transactional_id=record.transactional_id,
        producer_id=record.producer_id,
        producer_epoch=record.producer_epoch,
        coordinator_epoch=table.coordinator_epoch,
        commit=record.state is S.PREPARE_COMMIT,
        partitions=record.partitions,
        transaction_version=NEW_PROTOCOL if record.client_transaction_version >= NEW_PROTOCOL else 0,
        prepared=record,
    )


def _reply(identity: ProducerIdAndEpoch, version: int) -> EndTxnResponse:
    if version < 5:
        return EndTxnResponse()
    return EndTxnResponse(producer_id=identity.producer_id, producer_epoch=identity.producer_epoch)


def _refused(error_code: ErrorCode, version: int) -> Decision:
    if error_code is E.PRODUCER_FENCED and version < 2:
        error_code = E.INVALID_PRODUCER_EPOCH
    return Decision(reply=EndTxnResponse(error_code=error_code, producer_id=NO_PRODUCER_ID, producer_epoch=-1))
