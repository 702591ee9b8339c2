"""Prometheus' text format."""

from __future__ import annotations

from dataclasses import dataclass

from oncelog.core.exposition import exposition


@dataclass(frozen=True)
class Metric:
    name: str
    kind: str
    help: str


def test_labels_are_escaped_and_whole_numbers_are_whole() -> None:
    samples = [("", {"id": 'a"b\\c\nd'}, 1.0), ("_sum", {}, 0.25)]
    assert exposition([(Metric("m", "gauge", "Says."), samples)]) == (
        '# HELP m Says.\n# TYPE m gauge\nm{id="a\\"b\\\\c\\nd"} 1\nm_sum 0.25\n'
    )


def test_what_is_no_finite_number_is_said_as_prometheus_writes_it() -> None:
    """Clients push such values: a Java client's averages are NaN until there is something to measure."""
    values = [float("nan"), float("inf"), float("-inf"), 1e300, -0.0, 2**70]
    shown = exposition([(Metric("m", "gauge", "Says."), [("", {}, value) for value in values])]).splitlines()[2:]
    assert [line.removeprefix("m ") for line in shown] == ["NaN", "+Inf", "-Inf", str(int(1e300)), "0", str(2**70)]
