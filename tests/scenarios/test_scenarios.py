"""Every transcript says what the code does."""

from __future__ import annotations

import pathlib

import pytest

from tests.scenarios import scenario
from tests.scenarios.coordinator_world import CoordinatorWorld


@pytest.mark.parametrize("path", scenario.files(), ids=lambda path: path.stem)
def test_transcript(path: pathlib.Path) -> None:
    expected = path.read_text()
    assert scenario.run(expected, CoordinatorWorld().handle) == expected, (
        f"python -m tests.scenarios.scenario --rewrite {path.name} writes the present answers"
    )


def test_a_wrong_answer_is_seen() -> None:
    right = scenario.run("init pay", CoordinatorWorld().handle)
    assert "reply NONE 10/0" in right
    assert scenario.run(right.replace("10/0", "11/0"), CoordinatorWorld().handle) == right


def test_every_transcript_says_what_it_claims() -> None:
    assert [path.name for path in scenario.files() if not path.read_text().startswith("# ")] == []
