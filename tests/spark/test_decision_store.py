"""How the decision topic is read: from where the last read ended, without waiting behind a fetch of its own."""

from __future__ import annotations

import contextlib
import uuid

import pytest

from oncelog import TopicPartition, errors, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import ConfigurationError, RequestTimedOut
from oncelog.spark import decision_store
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.testing import FaultyProxy, TestBroker


def test_a_decision_is_read_back_without_a_seek(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every batch appends a decision and reads up to it; a seek there waited half a second behind a fetch that waits for more."""
    sought: list[int] = []
    seek = sync.Consumer.seek

    def noted(consumer: sync.Consumer, where: TopicPartition, offset: int) -> None:
        sought.append(offset)
        seek(consumer, where, offset)

    monkeypatch.setattr(sync.Consumer, "seek", noted)
    with TestBroker() as broker:
        store = TopicDecisionStore({"bootstrap.servers": broker.bootstrap_servers}, "decisions")
        for batch in range(4):
            decision = sink.BatchDecision("q", str(batch), "run", (sink.Attempt("id", "1:0", 1),))
            assert store.decide(decision).decision == decision
        assert sought == [0]
        assert store._consumer.paused() == store._consumer.assignment()
        store.close()


def test_a_topic_that_grew_keeps_a_querys_decisions_where_they_were() -> None:
    """Partitions are chosen by a hash: looked for in another one, a decided batch was written again."""
    queries = [f"q{number}" for number in range(8)]
    with TestBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        first = TopicDecisionStore(client, "decisions")
        decided = [sink.BatchDecision(query, "0", "run", (sink.Attempt("id", "1:0", 1),)) for query in queries]
        for decision in decided:
            assert first.decide(decision).decision == decision
        first.close()
        with sync.Admin.from_config(client) as admin:
            admin.create_partitions({"decisions": 32})
        second = TopicDecisionStore(client, "decisions")
        assert [second.known(query, "0").decision for query in queries] == decided
        assert [second.decided(query) for query in queries] == [[(decision, False)] for decision in decided]
        late = sink.BatchDecision("q1", "0", "late", ())
        assert second.decide(late).decision == decided[1]
        second.close()


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_that_forgets_decisions_is_refused(policy: str) -> None:
    """Retention would drop the newest decision of a query, and its batch be written twice."""
    with TestBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        with sync.Admin.from_config(client) as admin:
            admin.create_topics({"decisions": {"partitions": 1, "configs": {"cleanup.policy": policy}}})
        with pytest.raises(ConfigurationError, match=r"decisionTopic 'decisions'.*cleanup.policy=compact"):
            TopicDecisionStore(client, "decisions")


def of_many(count: int, batch_id: str = "0") -> sink.BatchDecision:
    """As a stream of so many tasks decides."""
    winners = (
        (f"oncelog-spark.{uuid.UUID(int=7)}.12345678.{uuid.uuid4().hex}.0", f"{100_000 + i}:4", f"{100_000 + i}:5")
        for i in range(count)
    )
    return sink.BatchDecision(
        "q", batch_id, "run", tuple(sink.Attempt(i, state, 1000, acting_state=acting) for i, state, acting in winners)
    )


@pytest.mark.parametrize("is_of_an_earlier_version", [False, True])
def test_a_batch_of_many_tasks_can_be_decided(is_of_an_earlier_version: bool) -> None:
    """Behind 1 MiB, fewer than 5000 tasks, all of them wrote and no decision could be kept, at each attempt."""
    with TestBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        if is_of_an_earlier_version:
            with sync.Admin.from_config(client) as admin:
                admin.create_topics({"decisions": {"partitions": 4, "configs": {"cleanup.policy": "compact"}}})
        with contextlib.closing(TopicDecisionStore(client, "decisions")) as store:
            decision = of_many(10_000)
            assert store.decide(decision).decision == decision
        with contextlib.closing(TopicDecisionStore(client, "decisions")) as store:
            assert store.known("q", "0").decision == decision


def test_a_decision_that_is_too_large_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with TestBroker() as broker:
        client = {"bootstrap.servers": broker.bootstrap_servers}
        with sync.Admin.from_config(client) as admin:
            configs = {"cleanup.policy": "compact", "max.message.bytes": "1000"}
            admin.create_topics({"small": {"partitions": 4, "configs": configs}})
        with contextlib.closing(TopicDecisionStore(client, "small")) as store:
            with pytest.raises(
                ConfigurationError, match=r"100 transactions.*oncelog configs set --topic small max.message"
            ):
                store.decide(of_many(100))
            monkeypatch.setattr(decision_store, "DECISION_BYTES_MAX", 10_000)
            with pytest.raises(
                ConfigurationError, match=r"100 transactions.*10000 are the most: let fewer tasks write"
            ):
                store.decide(of_many(100))
            one = of_many(1)
            assert store.decide(one).decision == one


def test_a_decision_that_would_come_too_late_is_given_up() -> None:
    """It could name transactions that have timed out by then. Who runs the batch again finds out what stands."""
    decision = sink.BatchDecision("q", "0", "run-1", (sink.Attempt("id", "1:0", 1),))
    with TestBroker() as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
        store = TopicDecisionStore({"bootstrap.servers": proxy.bootstrap_servers}, "decisions")
        proxy.refuse("Produce", errors.NotLeaderOrFollower.code, count=1000)
        with pytest.raises(RequestTimedOut, match="not acknowledged within 200 ms"):
            store.decide(decision, last_look=lambda: 200)
        proxy.clear()
        assert store.veto("q", "0", "run-1").decision is None
        again = sink.BatchDecision("q", "0", "run-2", decision.winners)
        assert store.decide(again, last_look=lambda: 60_000).decision == again
        assert store.known("q", "0").vetoed_runs == {"run-1"}
        store.close()
