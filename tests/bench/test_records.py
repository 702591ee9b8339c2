"""Rows of records one at a time: what is compared with what, and what is not built yet."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
from bench.costs import Measured, Spent
from bench.records import Pair, pairs, row

from bench import records


def test_each_verb_is_compared_with_its_like(monkeypatch):
    monkeypatch.setattr(records, "find_spec", lambda _: object())
    assert [pair.other_name for pair in pairs("send")] == ["confluent-kafka produce()", "aiokafka send()"]
    assert [pair.other_name for pair in pairs("poll")] == ["confluent-kafka consume()", "aiokafka getmany()"]
    assert [pair.other_name for pair in pairs("sync-send")] == ["confluent-kafka produce()"]
    assert [pair.other_name for pair in pairs("sync-iteration")] == ["confluent-kafka consume()"]
    monkeypatch.setattr(records, "find_spec", lambda _: None)
    assert [pair.other_name for pair in pairs("poll")] == ["confluent-kafka consume()"]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_verb_that_is_not_there_is_not_measured(monkeypatch, is_there):
    monkeypatch.setattr(records, "has_send_nowait", lambda: is_there)
    assert (pairs("send_nowait")[0].work is records.send_nowait) == is_there


def test_a_row_has_both_clients_costs():
    pair = Pair("send", records.send_nowait, "another send()", records.aiokafka_send, ">= 2x")
    mine, others = {"oncelog": [Measured(200.0, 5.0, 3.0)]}, {"oncelog": [Measured(100.0, 6.0, 9.0)]}
    found = row("oncelog", pair, mine, others, has_aim=True)
    assert (found.ratio, found.aim, found.other_name) == (2.0, ">= 2x", "another send()")
    assert (found.cpu.client_us, found.cpu.other_client_us, found.cpu.broker_us) == (3.0, 9.0, 5.0)
    assert found.note == "median of 5"


def test_clients_take_turns_in_each_round(monkeypatch):
    ran = []
    works = {
        name: lambda server, topic, count, name=name: ran.append((name, server.name)) for name in ("ours", "another")
    }
    monkeypatch.setattr(records, "spending", lambda _: nullcontext(Spent(1.0, 0.5, 0.25)))
    monkeypatch.setattr(records.os, "sync", lambda: None)
    servers = [SimpleNamespace(name="a"), SimpleNamespace(name="b")]
    found = records.measured_in_turn(servers, works, "t", 10, "send")
    assert ran[:4] == [("ours", "a"), ("another", "a"), ("ours", "b"), ("another", "b")]
    assert ran[4:8] == [("another", "b"), ("ours", "b"), ("another", "a"), ("ours", "a")]
    assert {name: {server: len(each) for server, each in of.items()} for name, of in found.items()} == {
        "ours": {"a": 5, "b": 5},
        "another": {"a": 5, "b": 5},
    }
    assert found["another"]["b"][0].figure == 10


def test_a_row_of_what_is_not_built_says_so():
    pair = Pair("send_nowait", None, "another send()", records.aiokafka_send, ">= 2x")
    found = row("oncelog", pair, {}, {"oncelog": [Measured(100.0, 6.0, 9.0)]}, has_aim=False)
    assert (found.oncelog, found.other, found.ratio, found.note) == (None, 100.0, None, "not built")
