"""What a run must reach, what it cannot reach, and that the pages say the same."""

from __future__ import annotations

from pathlib import Path

from evidence.simulator.checkers.coverage import (
    CODES,
    IMPOSSIBLE,
    POSSIBLE,
    SEEDS_THAT_REACH_ALL,
    TRANSITIONS,
    Coverage,
)
from evidence.simulator.faults import STRANGER_KINDS, calm
from evidence.simulator.simulation import run_seed
from evidence.simulator.strangers.crowd import STORIES, TABLES, UNLOADABLE

PAGE = Path(__file__).parents[2] / "docs" / "simulator.md"
EVERYTHING = Coverage(dict.fromkeys(TRANSITIONS, 1), dict.fromkeys(POSSIBLE, 1))


def test_every_code_is_either_reached_or_explained() -> None:
    assert len(CODES) == len(POSSIBLE) + len(IMPOSSIBLE) == 61
    page = PAGE.read_text()
    for code, reason in IMPOSSIBLE.items():
        assert f"| {code.name} | {reason} |" in page, f"docs/simulator.md does not say why {code.name} is not given"


def test_a_run_that_is_long_enough_must_reach_everything() -> None:
    assert EVERYTHING.is_enough(SEEDS_THAT_REACH_ALL, all_profiles=True)
    for part in (
        Coverage(dict.fromkeys(TRANSITIONS[1:], 1), EVERYTHING.codes),
        Coverage(EVERYTHING.transitions, dict.fromkeys(POSSIBLE[1:], 1)),
    ):
        assert not part.is_enough(SEEDS_THAT_REACH_ALL, all_profiles=True)
        assert part.is_enough(SEEDS_THAT_REACH_ALL - 1, all_profiles=True)
        assert part.is_enough(SEEDS_THAT_REACH_ALL, all_profiles=False)


def test_a_code_that_cannot_be_given_fails_any_run() -> None:
    code = next(iter(IMPOSSIBLE))
    coverage = Coverage(EVERYTHING.transitions, {**EVERYTHING.codes, code: 1})
    assert coverage.contradictions == [code.name]
    assert not coverage.is_enough(1, all_profiles=False)


def test_strangers_change_nothing_and_meet_what_only_they_ask_for() -> None:
    options = calm()
    options.strangers, options.stranger_think_mean = STRANGER_KINDS, 0.03
    verdict = run_seed(1, options=options)
    assert not verdict.findings, "\n".join([*verdict.trace, *map(str, verdict.findings)])
    given = Coverage(verdict.transitions, verdict.error_counts)
    assert not given.contradictions
    assert len(given.missing_codes) < len(POSSIBLE) / 4, given.missing_codes
    assert verdict.strange_request_count > 500
    assert verdict.outcomes["ok"] > verdict.outcomes.get("fail", 0), "the others were not disturbed"


def test_the_tables_of_wrong_requests_name_each_once() -> None:
    names = [wrong.name for table in TABLES.values() for wrong in table()]
    assert len(names) == len(set(names)) > 90
    assert set(STRANGER_KINDS) == {*TABLES, *STORIES, UNLOADABLE}
