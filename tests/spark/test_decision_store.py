"""How the decision topic is read: from where the last read ended, without waiting behind a fetch of its own."""

from __future__ import annotations

import pytest

from oncelog import TopicPartition, errors, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import ConfigurationError, RequestTimedOut
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
