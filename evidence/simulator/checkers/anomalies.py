"""The history, judged by `oncelog.checker` as `oncelog check-history` does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from oncelog.checker.anomalies import check
from oncelog.checker.history import read_history


def check_history(lines: Sequence[str]) -> Iterator[str]:
    """Anomalies that make the history invalid."""
    for anomaly in check(read_history(lines)).anomalies:
        if anomaly.fails:
            yield f"{anomaly.name}: {anomaly.text}"
