"""Spark's reports joined with what stands in the decision topic."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.spark import batch_numbers, progress
from oncelog.spark.batch_numbers import BatchNumbers
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.spark.progress import ProgressListener, joined
from oncelog.testing import TestBroker


def event(batch: int, query: str = "q", latest: Any = None) -> Any:
    report = {"id": query, "batchId": batch, "sources": [{"latestOffset": latest}], "sink": {"numOutputRows": 3}}
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report)))


def test_a_report_keeps_what_spark_said() -> None:
    ours = {"lso": {"t": {"0": 1}}, "behindLastStableOffset": 0, "behindLatest": 2}
    report = {"id": "q", "sources": [{"latestOffset": ours}, {"latestOffset": json.dumps(ours)}, {"latestOffset": "5"}]}
    found = joined(report, {"rows": 1})
    assert {name: found[name] for name in report} == report
    told = {"behindLastStableOffset": 0, "behindLatest": 2}
    assert found["oncelog"] == {"sources": [told, told, None], "sink": {"rows": 1}}
    assert joined({"sources": [{"latestOffset": "no json"}, {}]}, None)["oncelog"]["sources"] == [None, None]


def test_the_numbers_of_a_batch_are_found_in_the_decision_topic() -> None:
    with TestBroker() as broker:
        options = {"bootstrap.servers": broker.bootstrap_servers}
        store = TopicDecisionStore(options, "__oncelog_decisions")
        listener = ProgressListener(options)
        for batch in range(3):
            decision = sink.BatchDecision("q", str(batch), "run", ())
            store.decide(decision)
            note = (
                BatchNumbers(row_count=batch, swept=batch).to_value() if batch else b"{}"
            )  # b"{}": of an earlier oncelog
            store.done(decision, note)
            listener.onQueryProgress(event(batch))
        listener.onQueryProgress(event(9))
        found = [each["oncelog"]["sink"] for each in listener.reports]
        assert [None if each is None else each["transactionsSwept"] for each in found] == [None, 1, 2, None]
        listener.close()
        store.close()


def test_a_dual_writes_numbers_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_numbers, "recent", type(batch_numbers.recent)())
    monkeypatch.setattr(progress, "recent", batch_numbers.recent)
    batch_numbers.keep("orders", "4", BatchNumbers(row_count=5))
    reports: list[Any] = []
    listener = ProgressListener(on_progress=reports.append, query_ids={"spark-id": "orders"})
    listener.onQueryProgress(event(4, "spark-id"))
    listener.onQueryProgress(event(5, "spark-id"))
    assert [each["oncelog"]["sink"] and each["oncelog"]["sink"]["rows"] for each in reports] == [5, None]


def test_an_error_of_the_users_function_loses_no_report() -> None:
    listener = ProgressListener(on_progress=lambda report: report["nothing"])
    with pytest.raises(KeyError):  # Spark logs it, and goes on
        listener.onQueryProgress(event(1))
    assert len(listener.reports) == 1


def test_a_topic_that_is_not_there_is_told_and_stops_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with TestBroker({"auto.create.topics.enable": "false"}) as broker:
        options = {"bootstrap.servers": broker.bootstrap_servers, "kafka.default.api.timeout.ms": "200"}
        listener = ProgressListener(options)
        listener.onQueryProgress(event(1))
        listener.close()
    assert listener.reports[0]["oncelog"]["sink"] is None
    assert "could not be read" in caplog.text


def test_one_can_wait_for_the_last_report() -> None:
    listener = ProgressListener()
    assert not listener.wait_for_the_end("run", timeout_s=0)
    ended: Any = SimpleNamespace(runId="run")
    listener.onQueryTerminated(ended)
    assert listener.wait_for_the_end("run", timeout_s=0)
