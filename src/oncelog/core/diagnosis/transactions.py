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
