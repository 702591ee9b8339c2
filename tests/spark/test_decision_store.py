"""How the decision topic is read: from where the last read ended, without waiting behind a fetch of its own."""

from __future__ import annotations

import pytest

from oncelog import TopicPartition, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.testing import TestBroker


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
