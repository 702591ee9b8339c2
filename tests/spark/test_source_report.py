"""What a stream tells of itself: how far behind, and never an error that ends it."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog import errors
from oncelog.spark import source_report
from oncelog.spark.options import source_options
from oncelog.spark.planning import Bounds
from oncelog.spark.source_report import FRESH_S, SourceReport

BOUNDS = Bounds({"t": {0: 0, 1: 0}}, {"t": {0: 10, 1: 4}})


class FakeLog:
    """Its end, or an error."""

    def __init__(self, end: dict[int, int] | errors.KafkaError) -> None:
        self.end, self.asked = end, 0

    def high_watermarks(self, bounds: Bounds) -> dict[str, dict[int, int]]:
        assert bounds is BOUNDS
        self.asked += 1
        if isinstance(self.end, errors.KafkaError):
            raise self.end
        return {"t": self.end}


def report_of(log: Any, *, now_s: list[float], level: str = "read_committed") -> Any:
    options = source_options({"bootstrap.servers": "x:1", "subscribe": "t", "isolationLevel": level}, is_stream=True)
    report = SourceReport(options, lambda: now_s[0])
    return lambda position: report.of(log, BOUNDS, {"t": position})


@pytest.fixture(autouse=True)
def blockers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_report, "admin_of", lambda _: None)
    monkeypatch.setattr(
        source_report.Watch,
        "blocked",
        lambda _, __, waiting, ___: [{"partition": str(min(waiting))}] if waiting else [],
    )


def test_how_far_behind_what_may_be_read_and_the_end() -> None:
    found = report_of(FakeLog({0: 12, 1: 4}), now_s=[0.0])({0: 7, 1: 4})
    assert found == {"lso": {"t": {"0": 10, "1": 4}}, "behindLastStableOffset": 3, "behindLatest": 5}


def test_who_holds_it_where_it_can_go_no_further() -> None:
    found = report_of(FakeLog({0: 12, 1: 4}), now_s=[0.0])({0: 10, 1: 4})
    assert (found["behindLastStableOffset"], found["behindLatest"]) == (0, 2)
    assert (found["blockedPartitions"], found["blocked"]) == (1, [{"partition": "t-0"}])


def test_a_report_that_fails_stops_nothing_and_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    ask = report_of(FakeLog(errors.NotLeaderOrFollower("t-0")), now_s=[0.0])
    found = ask({0: 7, 1: 4})
    assert (found["behindLastStableOffset"], "t-0" in found["error"]) == (3, True)
    ask({0: 8, 1: 4})
    assert len(caplog.messages) == 1


def test_who_may_not_look_sees_how_far_behind_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise errors.TransactionalIdAuthorization("holder")

    monkeypatch.setattr(source_report.Watch, "blocked", refused)
    found = report_of(FakeLog({0: 12, 1: 4}), now_s=[0.0])({0: 10, 1: 4})
    assert (found["behindLatest"], "holder" in found["error"]) == (2, True)


def test_read_uncommitted_asks_for_no_second_end() -> None:
    log = FakeLog({})
    assert report_of(log, now_s=[0.0], level="read_uncommitted")({0: 7, 1: 4})["behindLatest"] == 3
    assert log.asked == 0


def test_a_query_that_waits_does_not_ask_a_hundred_times_a_second() -> None:
    log, now_s = FakeLog({0: 12, 1: 4}), [0.0]
    ask = report_of(log, now_s=now_s)
    for _ in range(100):
        ask({0: 10, 1: 4})
    assert log.asked == 1
    now_s[0] += FRESH_S
    ask({0: 10, 1: 4})
    ask({0: 9, 1: 4})
    assert log.asked == 3
