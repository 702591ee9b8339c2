"""The coordinator as a whole: random histories with crashes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.core.transactions.coordinator_simulation import simulate


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("first_seed", range(0, 100, 20))
def test_random_histories(level: int, first_seed: int) -> None:
    """See coordinator_simulation for what holds. Repeat one with simulate(seed, level=level)."""
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 20):
        seen += simulate(seed, level=level)
    assert min(seen[what] for what in ("crash", "timeout", "fenced", "ended", "COMPLETE_COMMIT", "COMPLETE_ABORT")) > 3
