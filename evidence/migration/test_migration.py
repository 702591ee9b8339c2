"""A short migration with a kill, and proof that its judge can say no."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace
from typing import Any

from evidence.migration.checking import Log, wrong_reading, wrong_records
from evidence.migration.run import Migration, Size
from evidence.processing.__main__ import oncelog_serving

LOG: Log = {0: [(at, (b"k", b"%d" % at, (), at)) for at in (0, 1, 2, 5)]}
COPY: Log = {0: [(at, record) for at, (_, record) in enumerate(LOG[0])] + [(9, (b"k", b"new", (), 9))]}


def reader(*offsets: int) -> Any:
    return SimpleNamespace(offsets={0: list(offsets)})


def test_the_judge_of_records() -> None:
    assert wrong_records(LOG, COPY, {0: 4}) == []
    assert wrong_records(LOG, COPY, {0: 5}) != []
    for wrong in (COPY[0][1:], COPY[0][:3], [COPY[0][1], COPY[0][0], *COPY[0][2:]], [COPY[0][0], *COPY[0]]):
        assert wrong_records(LOG, {0: wrong}, {0: 4}) != []


def test_the_judge_of_groups() -> None:
    assert wrong_reading("g", reader(0, 1), reader(2, 3, 9), LOG, COPY) == []
    for then in ((3, 9), (1, 2, 3, 9), (2, 3), (3, 2, 9)):
        assert wrong_reading("g", reader(0, 1), reader(*then), LOG, COPY) != []


def test_a_topic_is_moved_while_it_is_written(tmp_path: pathlib.Path) -> None:
    for side in ("source", "destination"):
        (tmp_path / side).mkdir()
    size = Size(records=2000, partitions=2, writers=2, groups=1, kills=1, pace_per_s=3000)
    with oncelog_serving(tmp_path / "source") as source, oncelog_serving(tmp_path / "destination") as destination:
        figures = Migration(tmp_path, source, destination, size, 1).everything()
    figures.problems = [each for each in figures.problems if "without writes" not in each]  # a loaded machine
    assert figures.problems == [], figures.text()
    assert figures.kills == 1
    assert figures.records >= 2000
