"""Bugs that Apache Kafka had: each has a scenario here that goes well, and does not once its cure is taken away."""

from __future__ import annotations

import sys

import pytest

from tests.scenarios import scenario
from tests.scenarios.upstream_cures import CURES, STORIES, holds, transcripts, world_of

NUMBERS = (8351, 9144, 12671, 13727, 17754, 18464, 18575, 18654, 18660, 19367, 19999, 20090, 20310)


@pytest.mark.parametrize("name", CURES)
def test_the_scenario_goes_well(name: str) -> None:
    assert holds(name), "python -m tests.scenarios.test_upstream_cures --rewrite writes the present answers"


@pytest.mark.parametrize("name", CURES)
def test_it_misses_its_cure(name: str) -> None:
    with CURES[name]():
        try:
            went_well = holds(name)
        except AssertionError:
            went_well = False
    assert not went_well


def test_every_bug_has_its_scenario() -> None:
    assert sorted(int(name.split("_")[1]) for name in CURES) == sorted(NUMBERS)
    assert set(CURES) == set(STORIES) | set(transcripts())


if __name__ == "__main__":
    assert sys.argv[1:] == ["--rewrite"], __doc__
    for path in transcripts().values():
        before = path.read_text()
        path.write_text(scenario.run(before, world_of(before)))
