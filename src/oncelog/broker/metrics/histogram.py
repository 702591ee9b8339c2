"""A histogram with fixed bounds: one bisection and two additions for each value."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

REQUEST_MS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 30_000)
SYNC_MS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 1_000)
LAG_MS = (1, 2.5, 5, 10, 25, 50, 100, 250, 1_000, 5_000)
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1_024)


class Histogram:
    """How many values fell below each of `bounds` (inclusive), and their sum."""

    __slots__ = ("_bounds", "_counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """(upper bound as Prometheus writes it, how many values up to it), the last one "+Inf"."""
        so_far = 0
        for bound, count in zip(self._bounds, self._counts, strict=False):
            so_far += count
            yield f"{bound:g}", so_far
        yield "+Inf", so_far + self._counts[-1]
