"""Where a query decides, as its transactional ids say it, and that ids of an older oncelog say nothing."""

from __future__ import annotations

import uuid

import pytest

from oncelog.core.two_phase import decision_homes as homes
from oncelog.core.two_phase.exactly_once_sink import attempt_name, transactional_id_for
from oncelog.core.two_phase.transactional_ids import TransactionalIds, leased_name

TOPIC, DATABASE = homes.topic_home("__oncelog_decisions"), homes.database_home("0f0a3a2e")


def test_homes_are_told_apart() -> None:
    assert len({TOPIC, DATABASE, homes.topic_home("decisions"), homes.topic_home("0f0a3a2e")}) == 4
    assert (TOPIC[0], DATABASE[0], len(TOPIC), len(DATABASE)) == ("1", "2", 8, 8)


@pytest.mark.parametrize("home", [TOPIC, DATABASE, homes.NOT_SAID])
def test_an_id_of_a_stream_says_it(home: str) -> None:
    for _ in range(100):
        name = leased_name("p", TransactionalIds(uuid.uuid4().hex).lease("p", "q", "run1", 4, home))
        assert name is not None
        assert (name.query_id, name.run_start, name.decision_home) == ("q", "run1", home)


def test_ids_of_two_homes_in_one_process_are_two() -> None:
    ids = TransactionalIds(uuid.uuid4().hex)
    assert ids.lease("p", "q", "run1", 1, TOPIC) != ids.lease("p", "q", "run1", 2, DATABASE)
    assert ids.lease("p", "q", "run1", 2, TOPIC) == ids.lease("p", "q", "run1", 3, TOPIC)


@pytest.mark.parametrize("home", [TOPIC, DATABASE, homes.NOT_SAID])
@pytest.mark.parametrize("task_attempt_id", [0, 7, 2**63 - 1])
def test_an_id_of_a_batch_write_says_it(home: str, task_attempt_id: int) -> None:
    name = attempt_name("p", transactional_id_for("p", "app@a@t", "7", 3, "01234567", task_attempt_id, home))
    assert name is not None
    assert (name.task_attempt_id, name.decision_home) == (task_attempt_id, home)


def test_digits_that_are_no_home_are_an_attempt() -> None:
    for text in ("1" * 40, "9" * 25, "5" + "0" * 20):
        assert homes.attempt_and_home(text) == (int(text), homes.NOT_SAID)


def test_a_home_in_words() -> None:
    wanted = {TOPIC: "topic __oncelog_decisions", homes.topic_home("t"): "another topic", DATABASE: "a database"}
    for home, text in (wanted | {homes.NOT_SAID: "not said"}).items():
        assert homes.in_words(home, ["out", "__oncelog_decisions"]) == text


def test_why_elsewhere() -> None:
    topics = ["out", "the decisions"]
    assert homes.why_elsewhere("query q", TOPIC, TOPIC, topics) is None
    assert homes.why_elsewhere("query q", homes.NOT_SAID, TOPIC, topics) is None
    told = homes.why_elsewhere("query q", homes.topic_home("the decisions"), TOPIC, topics)
    assert told is not None
    assert "query q keeps its decisions in the topic 'the decisions'" in told
    assert "--decision-topic 'the decisions'" in told
    for looked_at, where in ((TOPIC, "in a database"), (homes.database_home("x"), "in another database")):
        told = homes.why_elsewhere("query q", DATABASE, looked_at, topics)
        assert told is not None
        assert where in told
        assert "--decision-url (of a dual_write its database_url)" in told
    told = homes.why_elsewhere("query q", TOPIC, DATABASE, topics)
    assert told is not None
    assert "in another topic, which is not to be seen here" in told
