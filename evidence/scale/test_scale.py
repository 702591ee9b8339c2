"""The figures of `make scale`, with small numbers: that the program works and nothing is out of all proportion."""

from __future__ import annotations

import asyncio

from evidence.scale.figures import (
    Figure,
    measure_connections,
    measure_open_transactions,
    measure_partitions,
    measure_transactional_ids,
)


def measured(work) -> dict[str, float]:
    figures: list[Figure] = asyncio.run(asyncio.wait_for(work, 800))
    return {figure.what: figure.value for figure in figures}


def test_partitions(tmp_path):
    figures = measured(measure_partitions(tmp_path, 60))
    assert figures["files open then"] < 200


def test_connections(tmp_path):
    assert measured(measure_connections(tmp_path, 60))["60 connections made, each asked something"] < 300


def test_transactional_ids(tmp_path):
    assert measured(measure_transactional_ids(tmp_path, 200))["loaded and ready after SIGKILL"] < 200


def test_open_transactions(tmp_path):
    assert measured(measure_open_transactions(tmp_path, 40, 10))["all markers written and stable"] < 300


def test_a_figure_knows_its_bound():
    assert str(Figure("a", 3, "s", 2)) == "a: 3 s (at most 2)  TOO MUCH"
    assert Figure("a", 2, "s", 2).is_good
