"""One transaction: its states, what may follow what, and each step as a new value.

Nothing is decided here; the callers know who may ask for a step. Two identities matter. `own`: the producer id and
epoch of the transaction's records. `acting`: the one that may end it, which differs after a keep-init (KIP-939): then
the Next pair acts, the markers still carry the own id and epoch + 1, and the next transaction goes on from the Next
pair.
"""

from __future__ import annotations

from oncelog.lazy_dataclass import replace
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import TWO_PHASE_TIMEOUT_MS, TransactionRecord, TransactionState

__all__ = ["MAY_FOLLOW", "TransactionRecord", "TransactionState"]

S = TransactionState
FINISHED = frozenset({S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT})
PREPARED = frozenset({S.PREPARE_COMMIT, S.PREPARE_ABORT})
# KIP-890: a new-protocol abort may begin where nothing was added, so PREPARE_ABORT also follows the finished states.
MAY_FOLLOW: dict[TransactionState, frozenset[TransactionState]] = {
    S.EMPTY: FINISHED,
    S.ONGOING: FINISHED | {S.ONGOING},
    S.PREPARE_COMMIT: frozenset({S.ONGOING}),
    S.PREPARE_ABORT: FINISHED | {S.ONGOING},
    S.COMPLETE_COMMIT: frozenset({S.PREPARE_COMMIT}),
    S.COMPLETE_ABORT: frozenset({S.PREPARE_ABORT}),
}
NAMES = {
    S.EMPTY: "Empty",
    S.ONGOING: "Ongoing",
    S.PREPARE_COMMIT: "PrepareCommit",
    S.PREPARE_ABORT: "PrepareAbort",
    S.COMPLETE_COMMIT: "CompleteCommit",
    S.COMPLETE_ABORT: "CompleteAbort",
    S.DEAD: "Dead",
    S.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

LAST_PRODUCER_EPOCH = 32767  # never given to a client of a new transaction: markers and keep-inits may use it
EXHAUSTED_PRODUCER_EPOCH = 32766  # the last epoch that may write; its end needs a new producer id
NEW_PROTOCOL = 2  # client_transaction_version of a transaction opened by implicit add or ended by EndTxn v5
ENDED_BY_OLD_PROTOCOL = 1  # opened by implicit add, ended by EndTxn v0-4 at the same epoch: see end_transaction


def own(transaction: TransactionRecord) -> ProducerIdAndEpoch:
    """The identity that the transaction's records carry."""
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def is_kept(transaction: TransactionRecord) -> bool:
    """Whether a keep-init took over this open transaction (KIP-939)."""
    return transaction.state is S.ONGOING and transaction.next_producer_id != NO_PRODUCER_ID


def is_two_phase(transaction: TransactionRecord) -> bool:
    """Whether only its owner or an operator may end it: no timeout (KIP-939)."""
    return transaction.timeout_ms == TWO_PHASE_TIMEOUT_MS


def following(transaction: TransactionRecord) -> ProducerIdAndEpoch:
    """The identity after the present step: the Next pair where there is one, else its own."""
    if transaction.next_producer_id == NO_PRODUCER_ID:
        return own(transaction)
    return ProducerIdAndEpoch(transaction.next_producer_id, transaction.next_producer_epoch)


def acting(transaction: TransactionRecord) -> ProducerIdAndEpoch:
    """The identity that may use or end the transaction now."""
    return following(transaction) if transaction.state is S.ONGOING else own(transaction)


def is_retry(transaction: TransactionRecord, identity: ProducerIdAndEpoch) -> bool:
    """Whether `identity` is the one from which its own producer got the present one, and lost the answer.

    KIP-360 (last epoch), KIP-890 (across a new producer id: PrevProducerId, which counts only at the last two epochs).
    """
    present = acting(transaction)
    if identity.producer_epoch < 0 or identity.producer_epoch != transaction.last_producer_epoch:
        return False
    if identity.producer_id == present.producer_id:
        return present.producer_epoch == identity.producer_epoch + 1
    return is_rotated_away(transaction, identity)


def is_rotated_away(transaction: TransactionRecord, identity: ProducerIdAndEpoch) -> bool:
    """Whether `identity` stood at the end of the epochs of the producer id before the present one."""
    return (
        identity.producer_id == transaction.previous_producer_id
        and identity.producer_epoch >= EXHAUSTED_PRODUCER_EPOCH
        and acting(transaction).producer_epoch == 0
    )


def emptied(
    transaction: TransactionRecord, identity: ProducerIdAndEpoch, *, timeout_ms: int, now_ms: int, value_version: int
) -> TransactionRecord:
    """A producer was initialized. The caller sets what a retry needs (`remembering`)."""
    used = transaction.client_transaction_version == ENDED_BY_OLD_PROTOCOL and identity == own(transaction)
    return replace(
        transaction,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        timeout_ms=timeout_ms,
        state=S.EMPTY,
        partitions=frozenset(),
        last_update_ms=now_ms,
        start_ms=-1,
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        client_transaction_version=ENDED_BY_OLD_PROTOCOL if used else _without_old_end(transaction),
        committed_on_condition=None,
        value_version=value_version,
    )


def _without_old_end(transaction: TransactionRecord) -> int:
    version = transaction.client_transaction_version
    return 0 if version == ENDED_BY_OLD_PROTOCOL else version


def remembering(transaction: TransactionRecord, requester: ProducerIdAndEpoch | None) -> TransactionRecord:
    """The same with `requester`, who has the acting identity, as the one whose retry is to be recognised.

    None: a newer instance asked, and nobody's is; that the identity before is fenced can still be told by its id.
    """
    last = NO_PRODUCER_EPOCH if requester is None else requester.producer_epoch
    return replace(transaction, previous_producer_id=acting(transaction).producer_id, last_producer_epoch=last)


def added(
    transaction: TransactionRecord,
    partitions: frozenset[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
    value_version: int,
) -> TransactionRecord:
    """The transaction with these partitions too; it starts here unless it is open.

    Once opened by implicit add it stays a transaction of the new protocol, whatever adds to it afterwards.
    """
    is_open = transaction.state is S.ONGOING
    before = transaction.client_transaction_version
    start_ms = transaction.start_ms if is_open else now_ms
    return replace(
        transaction,
        state=S.ONGOING,
        partitions=transaction.partitions | partitions if is_open else partitions,
        start_ms=start_ms,
        # A clock that went back must not make a transaction older than its start.
        last_update_ms=max(now_ms, start_ms),
        previous_producer_id=transaction.previous_producer_id if is_open else NO_PRODUCER_ID,
        client_transaction_version=max(client_version, before if is_open or before == ENDED_BY_OLD_PROTOCOL else 0),
        committed_on_condition=None,
        value_version=value_version,
    )


def prepared(
    transaction: TransactionRecord,
    *,
    commit: bool,
    marker_epoch: int,
    afterwards: ProducerIdAndEpoch,
    client_version: int,
    now_ms: int,
    value_version: int,
    on_condition: bool | None = None,
) -> TransactionRecord:
    """The outcome is decided: markers go out with the own id and `marker_epoch`, then `afterwards` goes on. `on_condition`: of a
    commit by EndTxn v5, whether it named what it needs."""
    identity_unchanged = afterwards == (transaction.producer_id, marker_epoch)
    next_id, next_epoch = ProducerIdAndEpoch() if identity_unchanged else afterwards
    is_open = transaction.state is S.ONGOING
    start_ms = transaction.start_ms if is_open else now_ms
    return replace(
        transaction,
        producer_epoch=marker_epoch,
        state=S.PREPARE_COMMIT if commit else S.PREPARE_ABORT,
        partitions=transaction.partitions if is_open else frozenset(),
        start_ms=start_ms,
        last_update_ms=max(now_ms, start_ms),
        next_producer_id=next_id,
        next_producer_epoch=next_epoch,
        client_transaction_version=client_version,
        committed_on_condition=on_condition,
        value_version=value_version,
    )


def completed(transaction: TransactionRecord, *, now_ms: int, value_version: int) -> TransactionRecord:
    """Every marker is written: the identity that goes on takes over."""
    identity = following(transaction)
    return replace(
        transaction,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        state=S.COMPLETE_COMMIT if transaction.state is S.PREPARE_COMMIT else S.COMPLETE_ABORT,
        partitions=frozenset(),
        last_update_ms=max(now_ms, transaction.start_ms),
        next_producer_id=NO_PRODUCER_ID,
        next_producer_epoch=NO_PRODUCER_EPOCH,
        value_version=value_version,
    )


def marker_epoch_of(transaction: TransactionRecord) -> int:
    """KIP-890: the marker carries the next epoch, so a delayed Produce of this transaction is fenced by it."""
    return min(transaction.producer_epoch + 1, LAST_PRODUCER_EPOCH)
