"""What is said, and when, while a start recovers many partitions: who waits for it must see that it goes on, and how far it is.

A recovery that is soon over says nothing. Times are milliseconds of any clock that only goes forward.
"""

from __future__ import annotations

import asyncio
import logging

_log = logging.getLogger("oncelog.partitions")

QUIET_MS = 2_000  # a recovery that is over before says nothing
PAUSE_MS = 3_000  # between two lines
SAMPLE_SHARE = 20  # once one in so many is done, it is known how long all will take, about
SAMPLE_MARGIN = 2  # and it is said only where that is so many times more than what says nothing


class RecoveryProgress:
    """Of one recovery; each method gives the line to say now, empty where there is none."""

    def __init__(self, partition_count: int, *, begun_ms: float, opening_ms: float) -> None:
        """`begun_ms`: when the start began to recover; `opening_ms`: when the first partition is opened, with the journal put
        back."""
        self._total = partition_count
        self._begun_ms, self._opening_ms = begun_ms, opening_ms
        self._done_count = 0
        self._said_ms: float | None = None

    def opened(self, now_ms: float) -> str:
        """One more is recovered, or found damaged."""
        self._done_count += 1
        if self._said_ms is None:
            if not self._takes_long(now_ms):
                return ""
            self._said_ms = now_ms
            return f"recovering {self._total:,} partitions after an unclean stop"
        if now_ms - self._said_ms < PAUSE_MS or self._done_count == self._total:
            return ""
        self._said_ms = now_ms
        return f"recovered {self._done_count:,} of {self._total:,} partitions, {self._seconds(now_ms)}"

    def ended(self, now_ms: float) -> str:
        """All of them are, and synced."""
        if self._total == 0 or (self._said_ms is None and now_ms - self._begun_ms < QUIET_MS):
            return ""
        return f"recovered {self._total:,} partitions in {self._seconds(now_ms)}"

    def _takes_long(self, now_ms: float) -> bool:
        if now_ms - self._begun_ms >= QUIET_MS:
            return True
        if self._done_count * SAMPLE_SHARE < self._total:
            return False
        expected_ms = (now_ms - self._opening_ms) * self._total / self._done_count
        return expected_ms >= QUIET_MS * SAMPLE_MARGIN

    def _seconds(self, now_ms: float) -> str:
        return f"{(now_ms - self._begun_ms) / 1000:.1f} s"


class RecoveryReport:
    """Says it in the log as it goes on, by the running loop's clock. It begins when it is made."""

    def __init__(self) -> None:
        self._begun_ms = _monotonic_ms()
        self._progress = RecoveryProgress(0, begun_ms=self._begun_ms, opening_ms=self._begun_ms)

    def opening(self, partition_count: int) -> None:
        """The journal is put back, so many partitions are opened now."""
        self._progress = RecoveryProgress(partition_count, begun_ms=self._begun_ms, opening_ms=_monotonic_ms())

    def opened(self) -> None:
        """One more."""
        _say(self._progress.opened(_monotonic_ms()))

    def ended(self) -> None:
        """All of them are, and synced."""
        _say(self._progress.ended(_monotonic_ms()))


def _monotonic_ms() -> float:
    return asyncio.get_running_loop().time() * 1000


def _say(line: str) -> None:
    if line:
        _log.info("%s", line)
