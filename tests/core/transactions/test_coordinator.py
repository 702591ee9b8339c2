"""The coordinator as a whole: random histories with crashes, and what is only passed on."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.types import ProducerIdAndEpoch
from tests.core.transactions.coordinator_simulation import simulate
from tests.core.transactions.performed_coordinator import P, Q, Shell


@pytest.mark.parametrize("level", [1, 2, 3])
@pytest.mark.parametrize("first_seed", range(0, 100, 20))
def test_random_histories(level: int, first_seed: int) -> None:
    """See coordinator_simulation for what holds. Repeat one with simulate(seed, level=level)."""
    seen: Counter[str] = Counter()
    for seed in range(first_seed, first_seed + 20):
        seen += simulate(seed, level=level)
    assert min(seen[what] for what in ("crash", "timeout", "fenced", "ended", "COMPLETE_COMMIT", "COMPLETE_ABORT")) > 3


def test_what_a_leader_on_the_same_node_asks_directly_is_what_verify_only_answers() -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    ours, asked = ProducerIdAndEpoch(10, 5), shell.coordinator.is_verified
    assert asked("pay", ours, frozenset({P}))
    assert not asked("pay", ours, frozenset({P, Q}))
    assert not asked("pay", ProducerIdAndEpoch(10, 4), frozenset({P}))
    assert not asked("other", ours, frozenset({P}))
