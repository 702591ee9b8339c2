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
