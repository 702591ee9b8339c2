"""Why a recovery leaves what it leaves."""

from __future__ import annotations

from oncelog.core.two_phase import recovery_reasons as reasons
from oncelog.core.two_phase.decision_homes import topic_home
from oncelog.core.two_phase.exactly_once_sink import AttemptName

HERE = topic_home("here")


def test_committed_transactions_without_a_decision_are_decided_elsewhere() -> None:
    name = AttemptName("q", "1", 0, "run", 1)
    assert reasons.decided_elsewhere("p", name, HERE, {"p.q.0.0.run.1": "CompleteAbort"}, []) is None
    told = reasons.decided_elsewhere("p", name, HERE, {"p.q.0.0.run.1": "CompleteCommit"}, [])
    assert told is not None
    assert "query q has committed transactions on this cluster, and no decision of it is kept here" in told


def test_an_id_that_says_where_is_believed() -> None:
    assert reasons.decided_elsewhere("p", AttemptName("q", "1", 0, "run", 1, HERE), HERE, {}, []) is None
    assert (
        reasons.decided_elsewhere("p", AttemptName("q", "1", 0, "run", 1, topic_home("t")), HERE, {}, ["t"]) is not None
    )
    assert reasons.decided_anywhere(AttemptName("q", "1", 0, "run", 1, HERE), "the topic 'here'") is None
    told = reasons.decided_anywhere(AttemptName("q", "1", 0, "run", 1), "the topic 'here'")
    assert told is not None
    assert "query q is of an older oncelog" in told
    assert "Nothing of it is in the topic 'here'" in told


def test_those_that_are_there_are_named_up_to_a_bound() -> None:
    assert "nothing of the sink's is there" in reasons.none_is_meant("p", "q", [])
    told = reasons.none_is_meant("p", "q", [f"query {i:02}" for i in range(25)])
    assert "of a query 'q' under the prefix 'p'; there are: query 00, " in told
    assert told.endswith("query 19 and 5 more")
    assert "of the prefix 'p'; there are: other" in reasons.none_is_meant("p", None, ["other", "other"])
