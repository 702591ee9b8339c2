"""The alarm works: each planted defect is seen by its checker, within 200 seeds."""

from __future__ import annotations

import pytest

from evidence.simulator.defects import DEFECTS
from evidence.simulator.simulation import run_seed

SEEDS = 200


@pytest.mark.parametrize("name", DEFECTS)
def test_the_defect_is_found(name: str) -> None:
    defect, profile, checker = DEFECTS[name]
    for seed in range(SEEDS):
        with defect():
            verdict = run_seed(seed, profile)
        if any(finding.checker == checker for finding in verdict.findings):
            return
    pytest.fail(f"{name} was not seen by {checker} in {SEEDS} seeds of {profile}")
