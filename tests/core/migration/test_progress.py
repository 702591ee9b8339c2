"""What is stored of a copy, and where a position lands."""

from __future__ import annotations

import itertools
import random

import pytest

from oncelog.core.migration.progress import (
    METADATA_BYTES_MAX,
    MOVED_MAX,
    POINTS_MAX,
    Point,
    Progress,
    group_mark,
    pause_ms,
    progress_of,
    thinned,
)

FRESH = Progress("a" * 32, "b" * 32, 5, 5)


def test_it_is_read_as_it_was_written() -> None:
    progress = FRESH.advanced(40, 30).with_point(33)
    assert progress_of(progress.source_offset, progress.metadata()) == progress


def test_the_largest_state_has_room() -> None:
    points = tuple(Point(10**17 + i, 10**17 + i, 10**17 + i) for i in range(POINTS_MAX))
    marks = tuple(group_mark(str(i)) for i in range(MOVED_MAX))
    largest = Progress("a" * 32, "b" * 32, 10**17, 10**18, 10**18, points, True, marks)
    assert len(largest.metadata()) <= METADATA_BYTES_MAX
    assert progress_of(10**18, largest.metadata()) == largest


def test_no_room_is_said() -> None:
    with pytest.raises(ValueError, match="can be stored"):
        Progress("a", "b", 0, 0, moved=("12345678",) * 600).metadata()


@pytest.mark.parametrize("text", ["", "x", "{}", "[1]", "[2,1,1,0,0,[],0,0]", "null"])
def test_other_peoples_metadata_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not the state"):
        progress_of(1, text)


def test_a_position_starts_from_the_last_point_before_it() -> None:
    progress = FRESH.advanced(20, 10).with_point(12).advanced(50, 25).with_point(40)
    assert progress.around(5)[0] == Point(5, 0, 0)
    assert progress.around(19)[0] == Point(5, 0, 0)
    assert progress.around(20)[0] == Point(20, 10, 12)
    assert progress.around(49)[0] == Point(20, 10, 12)
    assert progress.around(90)[0] == Point(50, 35, 40)
    assert progress.around(5)[1] == Point(20, 10, 12)
    assert progress.around(20)[1] == Point(20, 10, 12)
    assert progress.around(21)[1] == Point(50, 35, 40)
    assert progress.around(90)[1] == Point(50, 35, 40), "nothing is known behind it"


def test_a_second_look_at_the_same_place_replaces_the_first() -> None:
    assert FRESH.with_point(0).with_point(1).points == (Point(5, 0, 1),)


def test_points_are_few_and_dense_at_the_end() -> None:
    chance, count = random.Random(3), 0
    points: tuple[Point, ...] = ()
    for _ in range(3000):
        count += chance.randrange(1, 900)
        points = thinned((*points, Point(count, count, count)))
        assert len(points) <= POINTS_MAX
        assert points[-1].record_count == count
    gaps = [(b.record_count - a.record_count, count - a.record_count) for a, b in itertools.pairwise(points)]
    assert points[0].record_count < count / 2, "old positions are found from somewhere, too"
    assert all(gap <= max(distance * 0.8, 2000) for gap, distance in gaps)


def test_the_limit_of_bytes() -> None:
    assert pause_ms(1000, 200.0, 1000) == 800.0
    assert pause_ms(1000, 2000.0, 1000) == 0.0
    assert pause_ms(1000, 0.0, None) == 0.0
