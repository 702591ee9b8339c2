"""Which end-of-transaction markers a partition takes (KIP-98, KIP-890, KIP-664; Kafka's `ProducerAppendInfo`)."""

from __future__ import annotations

from oncelog.core.leader.producer_state import NO_COORDINATOR_EPOCH, ProducerState
from oncelog.core.leader.verdict import APPEND, Append, Refuse
from oncelog.errors import ErrorCode

EPOCH_BUMPED_FROM_VERSION = 2  # transaction.version 2: the marker carries the epoch after the transaction's
PRODUCER_EPOCH_MAX = 32767  # only fences and markers carry it


def check_marker(
    state: ProducerState | None,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int,
    *,
    commit: bool,
    transaction_version: int,
    start_offset: int | None,
) -> Append | Refuse:
    """May the marker be appended? `start_offset` is given by an operator's abort only."""
    if producer_id < 0:
        return Refuse(ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"a marker for producer id {producer_id}")
    if producer_epoch < 0:
        return Refuse(ErrorCode.INVALID_PRODUCER_EPOCH, f"a marker with producer epoch {producer_epoch}")
    if transaction_version < 0:
        return Refuse(ErrorCode.INVALID_REQUEST, f"a marker of transaction version {transaction_version}")
    is_operators = start_offset is not None and coordinator_epoch == NO_COORDINATOR_EPOCH
    if state is not None and coordinator_epoch < state.coordinator_epoch and not is_operators:
        return Refuse(
            ErrorCode.TRANSACTION_COORDINATOR_FENCED,
            f"coordinator epoch {coordinator_epoch} is fenced by {state.coordinator_epoch}",
        )
    if start_offset is not None:
        return _check_operator_abort(state, producer_id, producer_epoch, start_offset, commit=commit)
    if state is None:  # nothing known: the marker creates the entry, and with it the fence
        return APPEND
    if transaction_version >= EPOCH_BUMPED_FROM_VERSION:
        return _check_bumped(state, producer_epoch, commit=commit)
    return APPEND if producer_epoch >= state.producer_epoch else _fenced(state, producer_epoch)


def _check_operator_abort(
    state: ProducerState | None, producer_id: int, producer_epoch: int, start_offset: int, *, commit: bool
) -> Append | Refuse:
    if commit:
        return Refuse(ErrorCode.INVALID_REQUEST, "an operator may abort a transaction, not commit it")
    if state is None or not state.has_open_transaction or state.current_txn_first_offset != start_offset:
        return Refuse(
            ErrorCode.INVALID_TXN_STATE, f"producer {producer_id} has no open transaction starting at {start_offset}"
        )
    if producer_epoch != state.producer_epoch:  # exactly: only the coordinator may bump an epoch
        return _fenced(state, producer_epoch)
    return APPEND


def _check_bumped(state: ProducerState, producer_epoch: int, *, commit: bool) -> Append | Refuse:
    if producer_epoch > state.producer_epoch:
        return APPEND
    is_retry = not state.has_open_transaction or producer_epoch == PRODUCER_EPOCH_MAX
    if producer_epoch < state.producer_epoch or not is_retry:  # KAFKA-19446: a late marker, another transaction is open
        return _fenced(state, producer_epoch)
    # KAFKA-19999: the answer to this very marker was lost; it is taken once more.
    if not state.has_open_transaction and state.last_marker_committed not in (None, commit):
        # Unlike Apache Kafka, which writes the contradiction down.
        return Refuse(
            ErrorCode.INVALID_TXN_STATE,
            f"the transaction of producer {state.producer_id} before epoch {producer_epoch} was already "
            f"{'committed' if state.last_marker_committed else 'aborted'} here",
        )
    return APPEND


def _fenced(state: ProducerState, producer_epoch: int) -> Refuse:
    return Refuse(
        ErrorCode.INVALID_PRODUCER_EPOCH,
        f"a marker with producer epoch {producer_epoch} for producer {state.producer_id}, "
        f"which is at epoch {state.producer_epoch}",
    )
