"""`oncelog recover` told of another decision store than the query's: what may be decided there is not ended."""

from __future__ import annotations

import pathlib
import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import leased_name
from oncelog.spark.backend import choose_backend
from oncelog.spark.committer import Committer
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.recovery import recover
from oncelog.spark.writer import leased_id, write_attempt
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


def first_batch(options: SinkOptions, query_id: str, home: str) -> sink.Attempt:
    name = leased_id(options, query_id, "run-1", "0", home)
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"0"], pa.binary())})
    return write_attempt(options, choose_backend(options), name, iter([rows]))


@pytest.mark.parametrize("kind", ["topic", "database"])
def test_a_first_batch_says_where_it_is_decided(broker: TestBroker, tmp_path: pathlib.Path, kind: str) -> None:
    """Nothing of the query was ever committed: it looked undecided, and was ended where `abandon` was asked for."""
    given = {"bootstrap.servers": broker.bootstrap_servers, "topic": "out"}
    where = {"decisionTopic": "mine"} if kind == "topic" else {"decisionUrl": f"sqlite:///{tmp_path / 'mine.db'}"}
    mine, query_id = sink_options({**given, **where}), f"first-{kind}"
    store = DatabaseDecisionStore(mine.decision_url) if mine.decision_url else TopicDecisionStore(mine.client, "mine")
    winner = first_batch(mine, query_id, store.home)
    store.decide(sink.BatchDecision(query_id, "0", "run-1", (winner,)))  # and its driver dies
    TopicDecisionStore(mine.client, "theirs").close()
    told = "keeps its decisions in the topic 'mine'" if kind == "topic" else "keeps its decisions in a"
    way = "--decision-topic mine" if kind == "topic" else "--decision-url"
    for other in (
        {"decisionTopic": "theirs"},
        {"decisionUrl": f"sqlite:///{tmp_path / 'theirs.db'}"},
        {"decisionTopic": "none"},
    ):
        for named in (False, True):
            report = recover(sink_options({**given, **other}), query_id, abandon=True, place_is_named=named)
            assert (report.undecided, report.abandoned, len(report.elsewhere)) == ([winner.transactional_id], [], 1)
            assert told in report.elsewhere[0]
            assert way in report.elsewhere[0]
    report = recover(mine, query_id, abandon=True)
    assert (report.completed, report.undecided, report.elsewhere) == ([winner.transactional_id], [], [])
    store.close()


def test_an_undecided_first_batch_is_abandoned_where_it_would_have_been_decided(broker: TestBroker) -> None:
    mine = options_of(broker, "undecided")
    store = TopicDecisionStore(mine.client, "undecided")
    left = first_batch(mine, "undecided", store.home)
    assert recover(mine, "undecided").undecided == [left.transactional_id]
    report = recover(mine, "undecided", abandon=True)
    assert (report.abandoned, report.elsewhere, report.unsure) == ([left.transactional_id], [], [])
    name = leased_name("oncelog-spark", left.transactional_id)
    assert name is not None
    assert name.decision_home == store.home
    store.close()
