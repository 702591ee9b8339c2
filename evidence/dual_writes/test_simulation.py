"""A few simulated seeds in every run; `make sim-dual-writes SEEDS=2000` runs more. Each planted defect is found."""

from __future__ import annotations

import pytest

from evidence.dual_writes.simulation import run_seed
from evidence.world.wrong_dual_writes import BelievesAFailedCommit, CompletesFirst, ReadsWithoutTakingOver
from oncelog.core.two_phase.dual_write import DualWrite
from oncelog.recipes import dual_writer

SEEDS = 300


@pytest.mark.parametrize("seed", range(12))
def test_rows_and_records_agree(seed: int) -> None:
    verdict = run_seed(seed)
    assert not verdict.findings, "\n".join([*verdict.trace, *verdict.findings])


def test_the_same_seed_gives_the_same_trace() -> None:
    assert run_seed(3).trace_hash == run_seed(3).trace_hash


@pytest.mark.parametrize("wrong", [CompletesFirst, BelievesAFailedCommit, ReadsWithoutTakingOver])
def test_a_planted_defect_is_found(wrong: type[DualWrite], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dual_writer, "DualWrite", wrong)
    for seed in range(SEEDS):
        if any(finding.startswith("divergence") for finding in run_seed(seed).findings):
            return
    pytest.fail(f"{wrong.__name__} was not seen in {SEEDS} seeds")
