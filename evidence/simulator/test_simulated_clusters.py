"""A few seeds of every profile, in every run of the tests; `make sim` runs thousands."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evidence.simulator.faults import PROFILES, calm
from evidence.simulator.simulation import Verdict, run_seed

SEEDS = 3
REPEATED = (
    (0, "default"),
    (1, "coordinator"),
    (2, "two-phase"),
    (0, "old-clients"),
    (1, "compaction"),
    (2, "groups"),
    (51, "shares"),
)
PRINT_HASHES = f"""
from evidence.simulator.simulation import run_seed
for seed, profile in {REPEATED}:
    print(run_seed(seed, profile).trace_hash)
"""
hashes_here: dict[tuple[int, str], str] = {}


def run_here(seed: int, profile: str) -> Verdict:
    verdict = run_seed(seed, profile)
    hashes_here[seed, profile] = verdict.trace_hash
    return verdict


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("profile", PROFILES)
def test_nothing_goes_wrong_that_may_not(profile: str, seed: int) -> None:
    verdict = run_here(seed, profile)
    assert not verdict.findings, f"{verdict.repeat}\n" + "\n".join([*verdict.trace, *map(str, verdict.findings)])


def test_without_faults_every_operation_succeeds() -> None:
    verdict = run_seed(1, options=calm())
    assert not verdict.findings
    assert set(verdict.outcomes) <= {"ok", "fail"}, "nothing is unknown"
    assert verdict.outcomes["ok"] > verdict.outcomes.get("fail", 0)
    assert not [line for line in verdict.trace if "#" in line], "no client met an error"


def test_one_seed_is_one_run_whatever_the_hash_seed() -> None:
    """Here, after whatever has run before, and first in a process with another hash seed."""
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-c", PRINT_HASHES]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert printed.split() == [hashes_here.get(run) or run_here(*run).trace_hash for run in REPEATED]
