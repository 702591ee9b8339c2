"""A failing run is made smaller, and the smaller one fails alike; its one line says all that was changed."""

from __future__ import annotations

import pytest

from evidence.simulator.changes import changed, changes_between
from evidence.simulator.defects import DEFECTS
from evidence.simulator.faults import PROFILES, draw
from evidence.simulator.shrink import shrink
from evidence.simulator.simulation import run_seed

SEEDS = 60
RUNS_MAX = 40
ENOUGH_SECONDS = 3600.0  # the number of runs is the bound here, not the time


@pytest.mark.parametrize("name", ["drops_the_transaction_index", "forgets_producers_at_recovery"])
def test_a_planted_defect_is_shown_by_fewer_events(name: str) -> None:
    defect, profile, checker = DEFECTS[name]
    with defect():
        for seed in range(SEEDS):
            verdict = run_seed(seed, profile)
            if any(finding.checker == checker for finding in verdict.findings):
                break
        else:
            pytest.fail(f"{name} was not seen in {SEEDS} seeds")
        shrunk = shrink(verdict, runs_max=RUNS_MAX, seconds_max=ENOUGH_SECONDS)
        small = shrunk.verdict
        assert small.event_count < verdict.event_count / 2, shrunk.verdict.repeat
        assert {finding.checker for finding in small.findings} & {finding.checker for finding in verdict.findings}
        assert small.repeat.startswith(f"make sim SEED={seed} PROFILE={profile} WITH='")
        again = run_seed(seed, profile, options=changed(draw(seed, profile), small.changes))
    assert again.trace_hash == small.trace_hash, "the line repeats the smaller run"
    assert not run_seed(seed, profile, options=shrunk.options).findings, "without the defect nothing is wrong with it"


@pytest.mark.parametrize("profile", PROFILES)
def test_changes_are_written_and_read(profile: str) -> None:
    drawn = draw(3, profile)
    text = (
        "clients=1;network.cut=0.5;strangers=groups,huge;skipped=end-broker.2,cut.7;has_cleaner=True;clock_drift=0.25"
    )
    if drawn.groups:
        text += ";groups=0"
    options = changed(drawn, text)
    assert (options.clients, options.network.cut, options.strangers) == (1, 0.5, ("groups", "huge"))
    assert options.skipped == ("end-broker.2", "cut.7")
    assert options.has_cleaner is True
    assert changed(drawn, changes_between(drawn, options)) == options
    assert changes_between(drawn, drawn) == ""


def test_what_is_no_option_is_refused() -> None:
    for text in ("faults=1", "network.speed=1"):
        with pytest.raises(ValueError, match="is no option"):
            changed(draw(0), text)


def test_a_single_fault_that_is_left_out_leaves_the_others_as_they_were() -> None:
    """Each has draws of its own, so a run does not become another one."""
    whole = run_seed(2, "coordinator")
    kills = [event for event in whole.events if event.startswith("end-broker.")]
    assert len(kills) > 1
    options = draw(2, "coordinator")
    options.skipped = (kills[-1],)
    left = run_seed(2, "coordinator", options=options)
    assert kills[-1] not in left.events
    assert set(kills[:-1]) <= set(left.events)
