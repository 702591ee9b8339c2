"""The states of a transactional producer and which may follow which (Kafka's TransactionManager, KIP-98, KIP-939)."""

from __future__ import annotations

from enum import Enum


class TransactionState(Enum):
    """Where a producer stands; PREPARED_TRANSACTION is KIP-939's: flushed, waiting for an outside decision."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    PREPARED_TRANSACTION = "prepared"
    COMMITTING_TRANSACTION = "committing"
    ABORTING_TRANSACTION = "aborting"
    ABORTABLE_ERROR = "in a transaction that can only be aborted"
    FATAL_ERROR = "over, because of a fatal error"


_S = TransactionState

MAY_FOLLOW: dict[TransactionState, frozenset[TransactionState]] = {
    _S.UNINITIALIZED: frozenset({_S.READY, _S.ABORTABLE_ERROR}),
    _S.INITIALIZING: frozenset({_S.UNINITIALIZED, _S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION}),
    _S.READY: frozenset({_S.INITIALIZING, _S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION}),
    _S.IN_TRANSACTION: frozenset({_S.READY}),
    _S.PREPARED_TRANSACTION: frozenset({_S.IN_TRANSACTION, _S.INITIALIZING}),
    _S.COMMITTING_TRANSACTION: frozenset({_S.IN_TRANSACTION, _S.PREPARED_TRANSACTION}),
    _S.ABORTING_TRANSACTION: frozenset({_S.IN_TRANSACTION, _S.PREPARED_TRANSACTION, _S.ABORTABLE_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.IN_TRANSACTION, _S.COMMITTING_TRANSACTION, _S.ABORTABLE_ERROR, _S.INITIALIZING}),
    _S.FATAL_ERROR: frozenset(_S),
}
"""target state -> the states it may follow."""
_NONE_IS_OPEN = "no transaction is open: begin one first (a commit or abort that was interrupted has ended meanwhile)"
_ONE_IS_OPEN = (
    "a transaction is open already: commit or abort it first (a begin_transaction that was interrupted was done)"
)
_WHY_NOT = {
    (_S.READY, _S.COMMITTING_TRANSACTION): _NONE_IS_OPEN,
    (_S.READY, _S.ABORTING_TRANSACTION): _NONE_IS_OPEN,
    (_S.IN_TRANSACTION, _S.IN_TRANSACTION): _ONE_IS_OPEN,
}


def may_follow(target: TransactionState, current: TransactionState) -> bool:
    """Whether a producer in `current` may go to `target`; nothing follows a fatal error but itself."""
    if current is TransactionState.FATAL_ERROR:
        return target is TransactionState.FATAL_ERROR
    return current in MAY_FOLLOW[target]


def why_not(target: TransactionState, current: TransactionState) -> str:
    """What to tell who wanted a producer in `current` to go to `target`, which may not follow."""
    usual = f"a producer that is {current.value} cannot become {target.value}"
    return _WHY_NOT.get((current, target), usual)
