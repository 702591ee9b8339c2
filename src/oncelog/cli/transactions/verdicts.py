"""The words for an open transaction: why it is open, what to do, and the command that ends it. Decided in core/diagnosis."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.cli.command import Settings
from oncelog.cli.durations import duration_text
from oncelog.core.diagnosis.facts import OpenTransaction
from oncelog.core.diagnosis.transactions import ENDING, HANGING, TWO_PHASE, transaction_verdict

MARKERS_LATE_MS = 30_000


@dataclass(frozen=True)
class Verdict:
    """Why it is open, and the command that ends it (empty: nothing is to be done)."""

    kind: str
    why: str
    advice: str
    repair: str = ""


def verdict_of(settings: Settings, found: OpenTransaction) -> Verdict:
    """Why the transaction is open, and what to do."""
    kind, owner, where = transaction_verdict(found), found.owner, found.where
    if kind == HANGING or owner is None:
        reason = found.hanging_reason or "no transactional id has this producer id"
        place = ("--topic", where.topic, "--partition", where.partition, "--start-offset", found.start_offset)
        return Verdict(
            kind,
            f"hanging: {reason}; no coordinator will ever end it",
            "end it on this partition (look with --dry-run first)",
            settings.repair("transactions", "abort", *place),
        )
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
