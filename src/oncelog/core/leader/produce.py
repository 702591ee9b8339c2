"""What a client's batch must satisfy beside its sequence: identity, duplicates, an open and verified transaction.

Pure functions of the producer's state; `Partition.check_produce` asks them in the order of Kafka's `UnifiedLog`
and `ProducerAppendInfo`.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.core.leader.guards import Guard, Verifications
from oncelog.core.leader.producer_state import ProducerState
from oncelog.core.leader.verdict import AskCoordinator, Duplicate, Refuse
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.record_batch import RecordBatch


def check_request(batches: Sequence[RecordBatch], transactional_id: str | None) -> Refuse | None:
    """A whole Produce request: every batch is looked at, not only the first (CVE-2018-17196).

    A transactional batch needs a transactional id, and all of them must be one producer's.
    """
    transactional = [batch for batch in batches if batch.is_transactional]
    if transactional and transactional_id is None:
        return _missing_transactional_id()
    producers = {ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch) for batch in transactional}
    if len(producers) > 1:
        return Refuse(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"transactional batches of {len(producers)} producers in one request",
        )
    return None


def check_identity(batch: RecordBatch, transactional_id: str | None) -> Refuse | None:
    """Control bit, producer id, epoch and sequence as far as the batch alone tells."""
    if batch.is_control:
        return Refuse(ErrorCode.INVALID_RECORD, "clients may not write control batches")
    if batch.is_transactional and transactional_id is None:  # an empty one is the coordinator's to refuse
        return _missing_transactional_id()
    if batch.producer_id < 0:
        # Unlike Apache Kafka, which stores such a batch as transactional though no transaction holds it.
        if batch.is_transactional:
            return Refuse(ErrorCode.INVALID_RECORD, "a transactional batch without a producer id")
        return None
    if batch.producer_epoch < 0:
        # Unlike Apache Kafka, which takes epoch -1 and then every sequence of that producer.
        return Refuse(
            ErrorCode.INVALID_PRODUCER_EPOCH,
            f"producer {batch.producer_id} sent producer epoch {batch.producer_epoch}",
        )
    if batch.base_sequence < 0:
        return Refuse(
            ErrorCode.INVALID_RECORD, f"producer {batch.producer_id} sent a batch with sequence {batch.base_sequence}"
        )
    return None


def check_duplicate(
    state: ProducerState, batch: RecordBatch, *, supports_implicit_add: bool
) -> Duplicate | Refuse | None:
    """Is it one of the producer's last five batches again?"""
    stored = state.duplicate_of(batch)
    if stored is None:
        return None
    if batch.is_transactional and supports_implicit_add and state.is_of_ended_transaction(stored):
        # The new protocol bumps the epoch with every transaction (KIP-890), so equal sequences of an ended transaction
        # mean that an older EndTxn ended it and a new one starts at 0 again. Kafka answers "duplicate" and loses it.
        return Refuse(
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            f"producer {batch.producer_id} used sequence {batch.base_sequence} of epoch {batch.producer_epoch} in a "
            "transaction that has ended; a new transaction needs a new producer epoch",
        )
    return Duplicate(stored.base_offset, stored.last_offset, stored.timestamp)


def check_transaction(
    state: ProducerState | None,
    verifications: Verifications,
    producer: ProducerIdAndEpoch,
    transactional_id: str,
    *,
    guard: Guard | None,
    base_sequence: int,
    supports_implicit_add: bool,
    verification_enabled: bool,
    now_ms: int,
) -> AskCoordinator | Refuse | None:
    """Does the batch belong to an open transaction, or to one that the coordinator has verified? None: yes.

    Assumes that the epoch is not fenced.
    """
    is_same_epoch = state is not None and state.producer_epoch == producer.producer_epoch
    if state is not None and is_same_epoch and state.has_open_transaction:
        return _check_opener(state, transactional_id, guard)
    if state is not None and is_same_epoch and supports_implicit_add and state.aborted_by_operator:
        # KIP-664: letting the producer go on at this epoch would tear its transaction, half aborted, half committed.
        return Refuse(
            ErrorCode.INVALID_TXN_STATE,
            f"an operator aborted the transaction of producer {state.producer_id} at epoch {state.producer_epoch} here",
        )
    if supports_implicit_add or verification_enabled:
        if guard is None:
            guard = verifications.start(
                *producer,
                transactional_id,
                base_sequence=base_sequence,
                supports_implicit_add=supports_implicit_add,
                now_ms=now_ms,
            )
            return AskCoordinator(guard, transactional_id, *producer, add=supports_implicit_add)
        if verifications.entry(guard) is None:
            return _void_guard(producer)
    if state is not None and state.has_open_transaction:
        # The marker of an earlier epoch's transaction is still missing (lost by an unclean stop, or hanging). Kafka
        # would let both become one transaction. Retriable, in the words each protocol knows.
        return Refuse(
            ErrorCode.CONCURRENT_TRANSACTIONS if supports_implicit_add else ErrorCode.NOT_ENOUGH_REPLICAS,
            f"a transaction of producer {state.producer_id} at epoch {state.producer_epoch} is still open here, "
            f"from offset {state.current_txn_first_offset}",
        )
    return None


def check_epoch(state: ProducerState, producer_epoch: int) -> Refuse | None:
    """A producer with an older epoch is fenced (KIP-98)."""
    if producer_epoch >= state.producer_epoch:
        return None
    return Refuse(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"producer {state.producer_id} at epoch {producer_epoch} is fenced by epoch {state.producer_epoch}",
    )


def _check_opener(state: ProducerState, transactional_id: str, guard: Guard | None) -> Refuse | None:
    opener = state.opened_by
    if opener is None:  # opened before a restart, or unverified: not known whose it is
        return None
    if opener.transactional_id != transactional_id:
        # Unlike Apache Kafka, which asks for the transactional id only with a transaction's first batch.
        return Refuse(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the open transaction of producer {state.producer_id} belongs to another transactional id",
        )
    if guard is not None and guard is not opener:
        return _void_guard(ProducerIdAndEpoch(state.producer_id, state.producer_epoch))
    return None


def _void_guard(producer: ProducerIdAndEpoch) -> Refuse:
    return Refuse(
        ErrorCode.INVALID_TXN_STATE,
        f"the transaction of producer {producer.producer_id} at epoch {producer.producer_epoch} ended "
        "while it was verified",
    )


def _missing_transactional_id() -> Refuse:
    return Refuse(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "a transactional batch in a request without a transactional id"
    )
