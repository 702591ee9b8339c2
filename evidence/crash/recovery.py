"""How soon a broker is back: the figures of many restarts, and what a run of kills has to say in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from evidence.crash.verify import Verdict

RECOVERY_LIMIT_S = 2.0  # for the 99th percentile


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of them do not exceed (nearest rank); 0.0 of none."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * share), 1) - 1] if ordered else 0.0


def recovery_text(seconds: Sequence[float]) -> str:
    return (
        f"recovery p50 {percentile(seconds, 0.5):.2f} p99 {percentile(seconds, 0.99):.2f} "
        f"max {max(seconds, default=0.0):.2f} s"
    )


def line(kills: Mapping[str, int], verdict: Verdict, seconds: Sequence[float]) -> str:
    """The surroundings' figures, anomalies and recovery; then what was written and found."""
    done = ", ".join(f"{count} {name}" for name, count in kills.items())
    return (
        f"{done}, {anomaly_count(verdict)} anomalies, {recovery_text(seconds)}; "
        f"{verdict.acknowledged} acknowledged records, {verdict.committed_transactions} committed, "
        f"{verdict.aborted_transactions} aborted, {verdict.unknown} unknown; {verdict.lost} lost, "
        f"{verdict.duplicated} duplicated, {verdict.aborted_visible} aborted visible, {verdict.torn} torn, {verdict.open} open"
    )


def anomaly_count(verdict: Verdict) -> int:
    """Everything that must not be; several findings of one name are remembered in words for the first few only."""
    counted = verdict.lost + verdict.duplicated + verdict.aborted_visible + verdict.torn + verdict.open
    names = ("lost", "duplicated", "aborted_visible", "torn", "open")
    return counted + sum(not problem.startswith(names) for problem in verdict.problems)


def figures(kills: Mapping[str, int], verdict: Verdict, seconds: Sequence[float]) -> dict[str, Any]:
    """The same for the report."""
    return {
        "episodes": dict(kills),
        "anomalies": anomaly_count(verdict),
        "problems": verdict.problems[:40],
        "recovery s": [round(each, 3) for each in seconds],
        "recovery p50 s": round(percentile(seconds, 0.5), 3),
        "recovery p99 s": round(percentile(seconds, 0.99), 3),
        "recovery max s": round(max(seconds, default=0.0), 3),
        "acknowledged records": verdict.acknowledged,
        "committed": verdict.committed_transactions,
        "aborted": verdict.aborted_transactions,
        "unknown": verdict.unknown,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "aborted visible": verdict.aborted_visible,
        "torn": verdict.torn,
        "open": verdict.open,
    }
