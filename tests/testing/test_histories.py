"""Drawn plans, played and judged; and what the judge says of a history that is wrong."""

from __future__ import annotations

import json
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings

from oncelog import errors
from oncelog.testing import FaultyProxy, TestBroker
from oncelog.testing.histories import Step, assert_history, plans, play

_numbers = count(1)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans(steps_max=20, actions=("send", "send", "commit", "abort", "poll", "lose")))
def test_answers_that_are_lost_break_no_promise(
    oncelog_broker: TestBroker, oncelog_faults: FaultyProxy, plan: tuple[Step, ...]
) -> None:
    lost = {"lose": lambda: oncelog_faults.drop("EndTxn", after=True)}
    assert_history(play(oncelog_faults, f"histories-{next(_numbers)}", plan, also=lost))
    oncelog_faults.clear()


def test_a_plan_is_done_as_it_says(oncelog_broker: TestBroker) -> None:
    plan = [
        Step("send", 0, 0),
        Step("send", 1, 1),
        Step("commit", 0),
        Step("abort", 1),
        Step("commit", 1),
        Step("send", 2, 0),
    ]
    lines = [json.loads(line) for line in play(oncelog_broker, f"histories-{next(_numbers)}", [*plan, Step("poll", 0)])]
    ends = [(each["type"], each["process"]) for each in lines if each["f"] == "txn" and each["type"] != "invoke"]
    assert ends == [("ok", 0), ("fail", 1), ("ok", 1000), ("fail", 2), ("ok", 1003)]
    (read,) = lines[-1]["value"][0][1].values()
    assert [value for _, value in read] == [1], "what was committed, and nothing else"
    committed = next(each for each in lines if each["type"] == "ok")
    ((kind, key, sent),) = committed["value"]
    assert (kind, key[-2:], sent) == ("send", "-0", [0, 1])


def test_a_broken_promise_is_named() -> None:
    def line(index: int, kind: str, process: int, value: object) -> str:
        return json.dumps({"index": index, "type": kind, "process": process, "time": index, "f": "txn", "value": value})

    sent = [["send", "t-0", [0, 7]]]
    aborted = [line(0, "invoke", 0, []), line(1, "fail", 0, sent)]
    read = [line(2, "invoke", 1, []), line(3, "ok", 1, [["poll", {"t-0": [[0, 7]]}]])]
    assert_history(aborted)
    with pytest.raises(AssertionError, match="G1a"):
        assert_history(aborted + read)


def test_what_no_step_is_is_refused(oncelog_broker: TestBroker) -> None:
    with pytest.raises(errors.InvalidArgument, match="no such action"):
        play(oncelog_broker, "t", [Step("kill")])
