"""The table of the bench: ratios, columns of CPU time, marks."""

from __future__ import annotations

import json

from bench.table import Cpu, Row, markdown, save, show

FAST = Row("fetch", "MB/s", 200, 100, better="more", aim=">= 1x", cpu=Cpu("MB", 310.4, 380), note="n=3")
SLOW = Row("commit", "ms", 2.5, 1.25, measures="the disk")
ALONE = Row("in process", "us", 40)


def test_more_than_one_is_better_whichever_way_the_figure_goes():
    assert (FAST.ratio, SLOW.ratio, ALONE.ratio) == (2.0, 0.5, None)
    assert Row("nothing", "s", None, 1.0).ratio is None


def test_the_table_has_both_brokers_costs_and_what_a_row_measures():
    lines = show([FAST, SLOW, ALONE], {"machine": "2 cores"}).splitlines()
    assert lines[0] == "machine: 2 cores"
    assert lines[1].split("  ")[0] == "figure"
    assert [cell.strip() for cell in lines[2].split("  ") if cell.strip()] == [
        "fetch", "200 MB/s", "100 MB/s Apache Kafka 4.3", "2.00x", ">= 1x", "310 / 380 us/MB", "n=3",
    ]  # fmt: skip
    assert lines[3].endswith("  measures the disk")
    assert "client's CPU" not in lines[1]


def test_a_cost_that_was_not_measured_is_a_dash():
    row = Row("t", "/s", 1, cpu=Cpu("txn", 120.0, None, 3.5, None))
    assert "120 / - us/txn" in show([row], {})
    assert "3.50 / - us/txn" in show([row], {})


def test_a_page_has_the_same_cells():
    assert markdown([FAST]).splitlines() == [
        "| figure | oncelog | other | ratio | aim | broker's CPU |  |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        "| fetch | 200 MB/s | 100 MB/s Apache Kafka 4.3 | 2.00x | >= 1x | 310 / 380 us/MB | n=3 |",
    ]


def test_the_json_has_every_field(tmp_path):
    save([FAST], {"machine": "m"}, tmp_path / "x.json")
    [row] = json.loads((tmp_path / "x.json").read_text())["rows"]
    assert (row["ratio"], row["cpu"]["broker_us"], row["measures"], row["unit"]) == (2.0, 310.4, "", "MB/s")
