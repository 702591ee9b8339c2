"""Offsets of reads: limits, new partitions, data loss, splitting."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import ConfigurationError
from oncelog.spark.options import EARLIEST, LATEST
from oncelog.spark.planning import (
    Bounds,
    DataLoss,
    OffsetRange,
    limited_end,
    not_reversed,
    ranges,
    resolve,
    split,
    with_new_partitions,
)

BOUNDS = Bounds({"t": {0: 5, 1: 0}}, {"t": {0: 25, 1: 100}})


def test_earliest_latest_and_numbers() -> None:
    assert resolve(EARLIEST, BOUNDS, "startingOffsets") == {"t": {0: 5, 1: 0}}
    assert resolve(LATEST, BOUNDS, "startingOffsets") == {"t": {0: 25, 1: 100}}
    assert resolve({"t": {0: -2, 1: 7}}, BOUNDS, "startingOffsets") == {"t": {0: 5, 1: 7}}


def test_offsets_must_name_every_partition() -> None:
    with pytest.raises(ConfigurationError, match="missing t-1"):
        resolve({"t": {0: 1}}, BOUNDS, "startingOffsets")


def test_a_new_partition_starts_at_its_log_start() -> None:
    assert with_new_partitions({"t": {1: 50}}, BOUNDS) == {"t": {0: 5, 1: 50}}


def test_a_limit_is_shared_out_by_backlog() -> None:
    start = {"t": {0: 5, 1: 0}}
    assert limited_end(start, BOUNDS.latest, None) == BOUNDS.latest
    assert limited_end(start, BOUNDS.latest, 12) == {"t": {0: 7, 1: 10}}
    assert limited_end(start, BOUNDS.latest, 1) == {"t": {0: 6, 1: 1}}, (
        "a partition with a backlog moves by one at least"
    )


def test_a_last_stable_offset_behind_the_position_moves_nothing() -> None:
    assert limited_end({"t": {0: 30}}, {"t": {0: 25}}, None) == {"t": {0: 30}}


def test_ranges_leave_out_what_is_empty() -> None:
    assert ranges({"t": {0: 5, 1: 9}}, {"t": {0: 8, 1: 9}}, {"t": {0: 0, 1: 0}}, fail_on_data_loss=True) == [
        OffsetRange("t", 0, 5, 8)
    ]


def test_deleted_records_are_data_loss() -> None:
    with pytest.raises(DataLoss, match="the log starts at 7"):
        ranges({"t": {0: 5}}, {"t": {0: 9}}, {"t": {0: 7}}, fail_on_data_loss=True)
    assert ranges({"t": {0: 5}}, {"t": {0: 9}}, {"t": {0: 7}}, fail_on_data_loss=False) == [OffsetRange("t", 0, 7, 9)]


def test_an_end_before_its_start_is_a_mistake_of_the_options_and_not_data_loss() -> None:
    with pytest.raises(ConfigurationError, match="t-0: the read begins at offset 8 and ends before, at 3"):
        not_reversed({"t": {0: 8}}, {"t": {0: 3}}, {"t": {0: 9}})


def test_a_start_behind_what_an_open_transaction_holds_back_reads_nothing() -> None:
    """It was called data loss: the end was the last stable offset, which lies before the start."""
    assert not_reversed({"t": {0: 8, 1: 2}}, {"t": {0: 5, 1: 4}}, {"t": {0: 5, 1: 9}}) == {"t": {0: 8, 1: 4}}


def test_a_topic_made_anew_is_data_loss() -> None:
    with pytest.raises(DataLoss, match="made anew"):
        ranges({"t": {0: 50}}, {"t": {0: 3}}, {"t": {0: 0}}, fail_on_data_loss=True)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 1000)), min_size=1, max_size=5), st.integers(1, 40))
def test_splitting_keeps_every_offset_once(sizes: list[tuple[int, int]], count_min: int) -> None:
    whole = [OffsetRange("t", p, start, start + size) for p, (start, size) in enumerate(sizes)]
    pieces = split(whole, count_min)
    assert [(r.partition, o) for r in pieces for o in range(r.start, r.end)] == [
        (r.partition, o) for r in whole for o in range(r.start, r.end)
    ]


@given(
    st.dictionaries(st.integers(0, 4), st.tuples(st.integers(0, 100), st.integers(0, 500)), min_size=1),
    st.integers(1, 300),
)
def test_a_limited_end_moves_forward_within_the_log(backlogs: dict[int, tuple[int, int]], limit: int) -> None:
    start = {"t": {p: s for p, (s, _) in backlogs.items()}}
    latest = {"t": {p: s + size for p, (s, size) in backlogs.items()}}
    end = limited_end(start, latest, limit)
    assert all(start["t"][p] <= end["t"][p] <= latest["t"][p] for p in backlogs)
    moved = sum(end["t"][p] - start["t"][p] for p in backlogs)
    assert moved <= limit + len(backlogs)
    assert (moved > 0) == any(size for _, size in backlogs.values())
