"""`oncelog recover` told of another decision store than the query's: what may be decided there is not ended."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.spark.backend import choose_backend
from oncelog.spark.committer import Committer
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.recovery import recover
from oncelog.spark.writer import write_attempt
from oncelog.testing import TestBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


def options_of(broker: TestBroker, decision_topic: str) -> SinkOptions:
    return sink_options(
        {"bootstrap.servers": broker.bootstrap_servers, "topic": "out", "decisionTopic": decision_topic}
    )


def attempt(options: SinkOptions, query_id: str, batch_id: str, value: bytes) -> sink.Attempt:
    name = sink.transactional_id_for("oncelog-spark", query_id, batch_id, 0, "run-1", 1)
    rows = pa.RecordBatch.from_pydict({"value": pa.array([value], pa.binary())})
    return write_attempt(options, choose_backend(options), name, iter([rows]))


def test_what_may_be_decided_in_another_topic_is_not_abandoned(broker: TestBroker) -> None:
    mine, default = options_of(broker, "decisions"), options_of(broker, "__oncelog_decisions")
    query_id = str(uuid.uuid4())
    store = TopicDecisionStore(mine.client, "decisions")
    with Committer(mine, store) as committer:
        first = attempt(mine, query_id, "0", b"0")
        committer.commit(query_id, "0", "run-1", [first], choose_backend(mine))
        second = attempt(mine, query_id, "1", b"1")
        store.decide(sink.BatchDecision(query_id, "1", "run-1", (second,)))  # and its driver dies
        report = recover(default, query_id, abandon=True)
        assert (report.undecided, report.abandoned) == ([second.transactional_id], [])
        assert "there is no topic '__oncelog_decisions'" in report.elsewhere[0]

        TopicDecisionStore(default.client, "__oncelog_decisions").close()  # another query made it
        for abandon in (False, True):
            report = recover(default, query_id, abandon=abandon)
            assert (report.undecided, report.abandoned) == ([second.transactional_id], [])
            assert "no decision of it is kept here" in report.elsewhere[0]
        assert committer.open_transactions(query_id) == [second.transactional_id]

        report = recover(mine, query_id, abandon=True)
        assert (report.completed, report.undecided, report.elsewhere) == ([second.transactional_id], [], [])
        assert committer.open_transactions(query_id) == []
    store.close()
