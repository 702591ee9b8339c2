"""The words for an open transaction: why it is open, what to do, and the command that ends it. Decided in core/diagnosis."""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.cli.command import Settings
from oncelog.cli.durations import duration_text
from oncelog.core.diagnosis.facts import OpenTransaction
from oncelog.core.diagnosis.transactions import ENDING, HANGING, TWO_PHASE, may_be_committed, transaction_verdict
from oncelog.lazy_dataclass import dataclass

MARKERS_LATE_MS = 30_000
UNKNOWN_OWNER = "unknown owner"
MAY_BE_COMMITTED = "Its id's last transaction was committed: this may be part of it, whose marker was lost"
COMPARE_FIRST = (
    "compare with its other partitions: where its records are visible, an abort here tears it apart. Only a look:"
)


@dataclass(frozen=True)
class Verdict:
    """Why it is open, and the command that ends it (empty: nothing is to be done)."""

    kind: str
    why: str
    advice: str
    repair: str = ""


def verdict_of(settings: Settings, found: OpenTransaction, hidden: Sequence[str]) -> Verdict:
    """Why the transaction is open, and what to do. `hidden`: why it may have an owner that we are not shown; it has no default,
    since whoever forgets it calls a living transaction hanging."""
    kind, owner, where = transaction_verdict(found), found.owner, found.where
    if owner is None and hidden:
        return Verdict(
            UNKNOWN_OWNER,
            f"no owner is seen, which does not mean that there is none: {'; '.join(hidden)}",
            "end nothing; ask again as somebody who sees all transactional ids, once all coordinators answer",
            settings.repair("transactions", "list", "--producer-id", found.producer_id),
        )
    if kind == HANGING or owner is None:
        reason = found.hanging_reason or "no transactional id has this producer id"
        place = ("--topic", where.topic, "--partition", where.partition, "--start-offset", found.start_offset)
        why, repair = (
            f"hanging: {reason}; no coordinator will ever end it",
            settings.repair("transactions", "abort", *place),
        )
        if may_be_committed(found):
            return Verdict(kind, f"{why}. {MAY_BE_COMMITTED}", COMPARE_FIRST, f"{repair} --dry-run")
        return Verdict(kind, why, "end it on this partition (look with --dry-run first)", repair)
    if kind == ENDING:
        outcome = "committed" if owner.state == "PrepareCommit" else "aborted"
        late = (owner.duration_ms or 0) > MARKERS_LATE_MS
        advice = "look at the logs of coordinator and leader: the marker should be here by now" if late else "wait"
        return Verdict(kind, f"{outcome} already; its marker is on the way to this partition", advice)
    if kind == TWO_PHASE:
        state = f"{owner.producer_id}:{owner.producer_epoch}"
        identity = ("--transactional-id", owner.transactional_id, "--state", state)
        return Verdict(
            kind,
            "in two-phase commit: it has no timeout and waits for whoever decides about it",
            "let its application recover; else look up what its database decided, and add --commit or --abort",
            settings.repair("transactions", "complete", *identity),
        )
    remaining = owner.remaining_ms or 0
    when = f"in {duration_text(remaining)}" if remaining > 0 else "at its next look"
    return Verdict(
        kind,
        f"in progress; the coordinator aborts it {when} (timeout {duration_text(owner.timeout_ms)})",
        "wait, or abort it everywhere and fence its producer",
        settings.repair("transactions", "force-terminate", "--transactional-id", owner.transactional_id),
    )
