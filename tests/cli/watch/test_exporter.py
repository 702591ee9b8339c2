"""What Prometheus gets: bounded, and nothing old while nobody answers."""

from __future__ import annotations

import json
import pathlib
import re

import pytest

from oncelog.cli.watch import exporter as module
from oncelog.cli.watch.exporter import FAMILIES, Exporter
from tests.cli.watch.test_screen import seen_with

EXAMPLES = pathlib.Path(__file__).parents[3] / "examples" / "prometheus"


def test_a_row_for_each_partition_that_stands_still_and_no_more_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter = Exporter()
    exporter.looked(seen_with(3))
    status, text = exporter.answer("/metrics")
    assert status == "200 OK"
    assert 'oncelog_watch_blocked_seconds{topic="orders",partition="0",transactional_id="ledger-7"} 42\n' in text
    assert 'oncelog_watch_blocked_offsets{topic="orders",partition="2",transactional_id="ledger-7"} 6\n' in text
    assert set(re.findall(r"# TYPE (\w+) ", text)) == {family.name for family in FAMILIES}
    monkeypatch.setattr(module, "LABELLED_MAX", 2)
    assert exporter.answer("/metrics")[1].count("oncelog_watch_blocked_seconds{") == 2
    exporter.looked(seen_with(3, age_ms=5_000))
    text = exporter.answer("/metrics")[1]
    assert "oncelog_watch_blocked_seconds{" not in text, "a moment makes no series"
    assert "oncelog_watch_longest_blocked_seconds 5\n" in text


def test_what_was_seen_before_is_not_shown_while_nobody_answers() -> None:
    exporter = Exporter()
    assert exporter.answer("/readyz")[0] == "503 Service Unavailable"
    exporter.looked(seen_with(1))
    assert exporter.answer("/readyz")[0] == "200 OK"
    exporter.failed()
    text = exporter.answer("/metrics")[1]
    assert "oncelog_watch_up 0\n" in text
    assert "oncelog_watch_failed_looks_total 1\n" in text
    assert "blocked" not in text
    assert exporter.answer("/elsewhere")[0] == "404 Not Found"


def test_the_dashboard_and_the_rules_ask_for_what_there_is() -> None:
    exporter = Exporter()
    exporter.looked(seen_with(1))
    samples = exporter.answer("/metrics")[1]
    dashboard = json.loads((EXAMPLES / "oncelog-watch.dashboard.json").read_text())
    asked = [(each["expr"], each["legendFormat"]) for panel in dashboard["panels"] for each in panel["targets"]]
    rules = (EXAMPLES / "oncelog.rules.yml").read_text()
    asked += [(expr, "") for expr in re.findall(r"expr: (.*oncelog_watch.*)", rules)]
    assert len(asked) == 9 + 4
    for expr, legend in asked:
        for name in re.findall(r"oncelog_watch_\w+", expr):
            found = re.search(rf"^{name}(?:{{(.*)}})? ", samples, re.MULTILINE)
            assert found is not None, name
            labels = {
                *re.findall(r"{{(\w+)}}", legend),
                *re.findall(rf'{name}{{(\w+)="', expr),
                *re.findall(r"by \((\w+)\)", expr),
            }
            assert labels <= set(re.findall(r'(\w+)="', found[1] or "")), (name, labels)
        for name, value in re.findall(r'{(\w+)="([^"]*)"}', expr):
            assert name == "job" or f'{name}="{value}"' in samples, expr
