"""Which request a fault strikes."""

from __future__ import annotations

import math

import pytest

from oncelog.testing.faults import API_KEYS, Faults, Kind, put_error
from oncelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorResponse

END, PRODUCE = API_KEYS["EndTxn"], API_KEYS["Produce"]


def kinds(faults: Faults, api_key: int, count: int) -> list[str]:
    struck = [faults.strikes(api_key) for _ in range(count)]
    return ["-" if fault is None else fault.kind.name for fault in struck]


def test_the_nth_request_and_as_many_as_told():
    faults = Faults()
    faults.refuse("EndTxn", 51, nth=2, count=2)
    assert kinds(faults, PRODUCE, 1) == ["-"]
    assert kinds(faults, END, 4) == ["-", "REFUSE", "REFUSE", "-"]
    assert (faults.pending_count, faults.seen) == (0, {"EndTxn": 4, "Produce": 1})


def test_each_request_has_one_fault():
    faults = Faults()
    faults.delay("EndTxn", 0.5)
    faults.drop("EndTxn")
    faults.drop("EndTxn", nth=2, after=True)
    assert kinds(faults, END, 4) == ["DELAY", "LOSE_REQUEST", "LOSE_ANSWER", "-"]


def test_counting_begins_with_the_call():
    faults = Faults()
    assert kinds(faults, END, 2) == ["-", "-"]
    faults.duplicate("EndTxn", nth=2)
    assert kinds(faults, END, 2) == ["-", Kind.DUPLICATE.name]
    faults.duplicate("EndTxn")
    faults.clear()
    assert kinds(faults, END, 1) == ["-"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda f: f.drop("EndTransaction"), "no API 'EndTransaction'"),
        (lambda f: f.refuse("Fetch", 1), "cannot be refused here"),
        (lambda f: f.refuse("EndTxn", 0), "error_code must be an error's, not 0 .*: 0 says that it was done"),
        (lambda f: f.drop("EndTxn", nth=0), "nth must be from 1"),
        (lambda f: f.drop("EndTxn", count="1"), "count must be a whole number"),
        (lambda f: f.drop(["EndTxn"]), "no API"),
        (lambda f: f.refuse("EndTxn", "NOT_COORDINATOR"), "error_code must be a whole number"),
        (lambda f: f.misreport("Fetch", None), "error_code must be a whole number"),
        (lambda f: f.delay("Fetch", "1"), "seconds must be a number from 0"),
        (lambda f: f.delay("Fetch", math.nan), "seconds must be a number from 0"),
        (lambda f: f.delay("Fetch", -1), "seconds must be a number from 0"),
    ],
)
def test_what_cannot_be_is_told(call, text):
    with pytest.raises(ValueError, match=text):
        call(Faults())


@pytest.mark.parametrize(("version", "expected"), [(3, (7, 0)), (4, (0, 7))])
def test_errors_are_put_where_the_version_has_them(version, expected):
    message = FindCoordinatorResponse(coordinators=[Coordinator(key="k")])
    put_error(message, 7, version)
    if version == 3:
        assert message.error_code == expected[0]
    else:
        assert (message.error_code, message.coordinators[0].error_code) == expected
