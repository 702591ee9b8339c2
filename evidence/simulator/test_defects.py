"""The alarm works: each planted defect is seen by its checker, within 200 seeds."""

from __future__ import annotations

import pytest

from evidence.simulator.defects import DEFECTS
from evidence.simulator.simulation import run_seed

SEEDS = 200
# Seeds that found the rarest ones lately are tried first: they save time, and prove nothing when they find nothing any more
# (`make suite-cost` shows who searches for long).
TRIED_FIRST = {
    "acknowledges_before_the_sync": 1,
    "acknowledges_shares_before_they_are_stored": 16,
    "answers_before_the_journal_is_synced": 3,
    "asks_again_only_what_it_held": 3,
    "believes_the_disk": 107,
    "cleans_markers_before_their_data": 2,
    "commits_without_records_that_it_needs": 56,
    "cuts_nothing_where_the_journal_ends": 38,
    "forgets_group_positions_at_a_join": 1,
    "hands_out_what_has_lapsed": 67,
    "keeps_what_it_refuses": 8,
    "lets_former_members_commit": 12,
    "never_times_out": 1,
    "replays_an_older_generation": 10,
    "replays_below_the_recovery_point": 8,
    "sends_markers_before_prepare_is_synced": 4,
    "syncs_nothing": 8,
    "takes_an_operators_commit_for_the_producers": 25,
}


@pytest.mark.parametrize("name", DEFECTS)
def test_the_defect_is_found(name: str) -> None:
    defect, profile, checker = DEFECTS[name]
    for seed in sorted(range(SEEDS), key=lambda seed: (seed != TRIED_FIRST.get(name), seed)):
        with defect():
            verdict = run_seed(seed, profile)
        if any(finding.checker == checker for finding in verdict.findings):
            return
    pytest.fail(f"{name} was not seen by {checker} in {SEEDS} seeds of {profile}")
