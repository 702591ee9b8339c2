"""Every transcript of the partition says what the code does."""

from __future__ import annotations

import pathlib

import pytest

from tests.scenarios import scenario
from tests.scenarios.partition_world import PartitionWorld, files


@pytest.mark.parametrize("path", files(), ids=lambda path: path.stem)
def test_transcript(path: pathlib.Path) -> None:
    expected = path.read_text()
    assert expected.startswith("# ")
    assert scenario.run(expected, PartitionWorld().handle) == expected, (
        f"python -m tests.scenarios.partition_world --rewrite {path} writes the present answers"
    )


def test_the_transcripts_are_there() -> None:
    assert len(files()) >= 10
