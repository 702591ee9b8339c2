"""Every transcript of groups says what the code does. `python -m tests.scenarios.test_group_scenarios` rewrites them."""

from __future__ import annotations

import pathlib

import pytest

from tests.scenarios import scenario
from tests.scenarios.consumer_group_world import ConsumerGroupWorld
from tests.scenarios.group_world import GroupWorld

HERE = pathlib.Path(__file__).parent
WORLDS: dict[str, type[GroupWorld]] = {"groups": GroupWorld, "consumer_groups": ConsumerGroupWorld}
FILES = sorted(path for directory in WORLDS for path in (HERE / directory).glob("*.txt"))


def run(path: pathlib.Path) -> str:
    return scenario.run(path.read_text(), WORLDS[path.parent.name]().handle)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_transcript(path: pathlib.Path) -> None:
    expected = path.read_text()
    assert expected.startswith("# ")
    assert run(path) == expected


def test_a_wrong_answer_is_seen() -> None:
    right = scenario.run("join g -", GroupWorld().handle)
    assert "MEMBER_ID_REQUIRED c-1" in right
    assert scenario.run(right.replace("c-1", "c-2"), GroupWorld().handle) == right


if __name__ == "__main__":
    for file in FILES:
        file.write_text(run(file))
