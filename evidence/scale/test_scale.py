"""The figures of `make scale`, with small numbers: that the program works and nothing is out of all proportion."""

from __future__ import annotations

import asyncio

import pytest

from evidence.scale.figures import (
    Figure,
    measure_connections,
    measure_open_transactions,
    measure_partitions,
    measure_readers,
    measure_transactional_ids,
)
from evidence.scale.pairs import Measured, measure, names_of_one_lane
from oncelog.core.placement import coordinator_partition


def measured(work) -> dict[str, float]:
    figures: list[Figure] = asyncio.run(asyncio.wait_for(work, 800))
    return {figure.what: figure.value for figure in figures}


def test_partitions(tmp_path):
    figures = measured(measure_partitions(tmp_path, 60))
    assert figures["files open then"] < 200


def test_connections(tmp_path):
    assert measured(measure_connections(tmp_path, 60))["60 connections made, each asked something"] < 300


def test_readers_that_read_nothing(tmp_path):
    assert measured(measure_readers(tmp_path, 12, 20))["12 readers that read nothing, growth"] <= 256


def test_transactional_ids(tmp_path):
    assert measured(measure_transactional_ids(tmp_path, 200))["loaded and ready after SIGKILL"] < 200


def test_open_transactions(tmp_path):
    assert measured(measure_open_transactions(tmp_path, 40, 10))["all markers written and stable"] < 300


def test_a_figure_knows_its_bound():
    assert str(Figure("a", 3, "s", 2)) == "a: 3 s (at most 2)  TOO MUCH"
    assert Figure("a", 2, "s", 2).is_good


@pytest.mark.parametrize("lane_count", [1, 64])
def test_pairs_of_one_lane_are_answered(tmp_path, lane_count):
    measured = asyncio.run(asyncio.wait_for(measure(tmp_path, 8, lane_count), 800))
    assert measured.unanswered == 0
    assert (len(measured.paired_s), len(measured.single_s)) == (16, 8)


def test_pairs_share_their_lane():
    names = names_of_one_lane(50, 64)
    lanes = [coordinator_partition(name, 64) for name in names]
    assert lanes[::2] == lanes[1::2]
    assert len(set(names)) == 100


def test_a_missing_or_slow_answer_is_a_failure():
    assert Measured([0.03, 0.01], [0.01, 0.02]).is_good
    assert not Measured([0.03, 0.01], [0.01, 0.02], unanswered=1).is_good
    assert Measured([0.07], [0.02], unanswered=0).summary(1, 64).endswith("FAILED")
