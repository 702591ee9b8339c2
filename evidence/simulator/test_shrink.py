"""A failing run is made smaller, and the smaller one fails alike; its one line says all that was changed."""

from __future__ import annotations

import pytest

from evidence.simulator.changes import changed, changes_between
from evidence.simulator.cluster import Finding
from evidence.simulator.defects import DEFECTS
from evidence.simulator.faults import PROFILES, FaultOptions, draw
from evidence.simulator.shrink import shrink
from evidence.simulator.simulation import Verdict, run_seed

SEEDS = 60
RUNS_MAX = 8  # `make sim` tries more
ENOUGH_SECONDS = 3600.0  # the number of runs is the bound here, not the time


def test_a_planted_defect_is_shown_by_a_run_that_fails_alike() -> None:
    name = "drops_the_transaction_index"
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
        # How much smaller depends on the run (see the test below); it never grows, and something was tried.
        assert small.event_count <= verdict.event_count, shrunk.verdict.repeat
        assert shrunk.run_count > 0
        assert {finding.checker for finding in small.findings} & {finding.checker for finding in verdict.findings}
        assert small.repeat.startswith(f"make sim SEED={seed} PROFILE={profile} WITH='")
        again = run_seed(seed, profile, options=changed(draw(seed, profile), small.changes))
    assert again.trace_hash == small.trace_hash, "the line repeats the smaller run"
    assert not run_seed(seed, profile, options=shrunk.options).findings, "without the defect nothing is wrong with it"


def a_world(seed: int, profile: str = "default", *, options: FaultOptions | None = None) -> Verdict:
    """Instead of a simulated run: it fails where two of its cuts, three clients and a kind of strangers meet."""
    chosen = options or draw(seed, profile)
    events = [f"cut.{n}" for n in range(20)] if chosen.network.cut else []
    events += [f"end-broker.{n}" for n in range(9)] if chosen.broker_kill_every else []
    events = [each for each in events if each not in chosen.skipped]
    is_wrong = {"cut.3", "cut.11"} <= set(events) and chosen.clients >= 3 and "huge" in chosen.strangers
    return Verdict(
        seed=seed,
        profile=profile,
        findings=[Finding("lost", "a record")] if is_wrong else [Finding("other", "of another checker")],
        trace=[],
        trace_hash="",
        history=[],
        outcomes={"committed": chosen.clients * chosen.operations},
        strange_request_count=10 * len(chosen.strangers),
        events=events,
    )


def options_of_a_world() -> FaultOptions:
    options = draw(3, "default")
    options.clients, options.operations, options.broker_kill_every = 7, 16, 1.0
    options.network.cut, options.strangers, options.skipped = 0.5, ("groups", "huge", "torn"), ()
    return options


def test_all_that_is_not_needed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evidence.simulator.shrink.run_seed", a_world)
    begun = options_of_a_world()
    shrunk = shrink(a_world(3, options=begun), begun, runs_max=10_000, seconds_max=ENOUGH_SECONDS)
    small = shrunk.options
    assert shrunk.verdict.events == ["cut.3", "cut.11"]
    assert (small.clients, small.operations, small.strangers) == (3, 1, ("huge",))
    assert small.broker_kill_every == 0
    assert [each.checker for each in shrunk.verdict.findings] == ["lost"], "never for a finding of another checker"
    assert changed(draw(3), shrunk.verdict.changes) == small


@pytest.mark.parametrize("runs_max", [0, 1, 5, 20])
def test_no_more_runs_than_told_and_what_was_found_until_then_stands(
    monkeypatch: pytest.MonkeyPatch, runs_max: int
) -> None:
    monkeypatch.setattr("evidence.simulator.shrink.run_seed", a_world)
    begun = options_of_a_world()
    verdict = a_world(3, options=begun)
    shrunk = shrink(verdict, begun, runs_max=runs_max, seconds_max=ENOUGH_SECONDS)
    assert shrunk.run_count == runs_max
    assert shrunk.verdict.event_count <= verdict.event_count
    assert shrunk.verdict.event_count == a_world(3, options=shrunk.options).event_count
    assert [each.checker for each in shrunk.verdict.findings] == ["lost"]


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
