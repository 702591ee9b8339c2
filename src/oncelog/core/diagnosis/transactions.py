"""Why a transaction is still open: who will end it, if anybody. `transactions explain` and `why` both go by it."""

from __future__ import annotations

from oncelog.core.diagnosis.facts import OpenTransaction

HANGING, ENDING, TWO_PHASE, IN_PROGRESS = "hanging", "ending", "two-phase", "in progress"
NEVER_MS = 2**31 - 1  # the stored timeout of two-phase commit (KIP-939)


def transaction_verdict(found: OpenTransaction) -> str:
    """HANGING: nobody ends it (KIP-664). ENDING: decided, its markers are on their way. TWO_PHASE: whoever decides outside
    of Kafka does, without a timeout. IN_PROGRESS: its producer, or its coordinator when the timeout is over."""
    owner = found.owner
    if found.hanging_reason is not None or owner is None:
        return HANGING
    if owner.state != "Ongoing":
        return ENDING
    return TWO_PHASE if owner.timeout_ms == NEVER_MS else IN_PROGRESS


def may_be_committed(found: OpenTransaction) -> bool:
    """Whether what hangs may be part of a transaction that was committed: its id's last one ended so, at the epoch that this one
    has (or the next, KIP-890). A marker that was lost does not come again (docs/kafka-notes.md R4), and an abort here would
    tear apart what was acknowledged."""
    owner = found.owner
    if transaction_verdict(found) != HANGING or owner is None or owner.producer_id != found.producer_id:
        return False
    is_last = owner.producer_epoch - found.producer_epoch in (0, 1)
    return is_last and owner.state in ("PrepareCommit", "CompleteCommit")
