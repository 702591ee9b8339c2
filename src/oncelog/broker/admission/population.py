"""How many there are of something that is spread over many tables: counted exactly only where a bound may be near.

Additions are added up; only when that sum passes the bound somebody counts, and not so often that counting is felt.
"""

from __future__ import annotations

from collections.abc import Callable

COUNTED_PER_S = 100_000  # how many may be counted in a second, so that counting takes a small part of it
RECOUNT_S_MAX = 1.0


class Population:
    """`count()` is exact and may take a while."""

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._at_most: int | None = None
        self._count_again_s = 0.0

    def has_room(self, more: int, count_max: int, now_s: float) -> bool:
        """Whether `more` may be added; then they count. `now_s` is the loop's time."""
        if self._at_most is None or (self._at_most + more > count_max and now_s >= self._count_again_s):
            self._at_most = self._count()
            self._count_again_s = now_s + min(self._at_most / COUNTED_PER_S, RECOUNT_S_MAX)
        if self._at_most + more > count_max:
            return False
        self._at_most += more
        return True
