"""So many lines about what clients do wrong may go to the log in a minute: who floods the broker must not fill its disk."""

from __future__ import annotations

from collections.abc import Callable

WINDOW_S = 60.0


class LogBudget:
    """Lines of one minute; what is left out is counted and told with the next line."""

    def __init__(self, lines_max: Callable[[], int]) -> None:
        self._lines_max = lines_max
        self._begun_s = 0.0
        self._taken = 0
        self._left_out = 0

    def take(self, now_s: float) -> int | None:
        """How many lines were left out before this one; None where this one is left out too."""
        if now_s - self._begun_s >= WINDOW_S:
            self._begun_s, self._taken = now_s, 0
        if self._taken >= self._lines_max():
            self._left_out += 1
            return None
        self._taken += 1
        left_out, self._left_out = self._left_out, 0
        return left_out
