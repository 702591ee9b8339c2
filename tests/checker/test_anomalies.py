"""Calibration: histories whose verdict is known, for every anomaly and for what only looks like one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from oncelog.checker.anomalies import Anomaly, check
from oncelog.checker.history import UnreadableHistory, read_history


def event(process: int, type_: str, *steps: Any, f: str = "txn", time_ns: int = 0, **more: Any) -> dict[str, Any]:
    return {"process": process, "type": type_, "f": f, "value": list(steps), "time": time_ns, **more}


def send(key: str, offset: int | None, value: int) -> list[Any]:
    return ["send", key, [offset, value]]


def poll(**keys: list[tuple[int, int]]) -> list[Any]:
    return ["poll", {key: [list(pair) for pair in pairs] for key, pairs in keys.items()}]


def assign(process: int, *keys: str, f: str = "assign") -> dict[str, Any]:
    return event(process, "ok", *keys, f=f)


def anomalies(*events: dict[str, Any]) -> list[Anomaly]:
    lines = [json.dumps({"index": i, **e}) for i, e in enumerate(events)]
    return list(check(read_history(lines)).anomalies)


def names(*events: dict[str, Any], failing_only: bool = True) -> set[str]:
    return {a.name for a in anomalies(*events) if a.fails or not failing_only}


A = event(0, "ok", send("x", 0, 1))
HISTORIES: dict[str, tuple[set[str], list[dict[str, Any]]]] = {
    "empty": (set(), []),
    "one write read": (set(), [A, event(1, "ok", poll(x=[(0, 1)]))]),
    "a conflict with an unknown write is no proof": (
        set(),
        [A, event(1, "info", send("x", 0, 2)), event(2, "ok", poll(x=[(0, 1)]))],
    ),
    "an unknown write proven by its sibling conflicts": (
        {"inconsistent-offsets", "lost-write"},
        [A, event(1, "info", send("x", 0, 2), send("y", 0, 3)), event(2, "ok", poll(x=[(0, 1)], y=[(0, 3)]))],
    ),
    "two readers see different values at one offset": (
        {"inconsistent-offsets"},
        [A, event(3, "info", send("x", None, 2)), event(1, "ok", poll(x=[(0, 1)])), event(2, "ok", poll(x=[(0, 2)]))],
    ),
    "acknowledged values before one that was read": (
        {"lost-write", "unseen"},
        [A, event(1, "ok", send("x", 1, 2)), event(2, "ok", send("x", 2, 3)), event(3, "ok", poll(x=[(2, 3)]))],
    ),
    "an overwritten offset": (
        {"inconsistent-offsets", "lost-write", "unseen"},
        [A, event(1, "ok", send("x", 0, 2)), event(2, "ok", poll(x=[(0, 2)]))],
    ),
    "an unknown transaction nobody saw": (
        set(),
        [A, event(1, "info", send("x", None, 2), send("y", None, 3)), event(2, "ok", poll(x=[(0, 1)]))],
    ),
    "half of an unknown transaction": (
        {"lost-write"},
        [
            event(1, "info", send("x", 0, 2), send("y", 0, 3)),
            event(0, "ok", send("y", 1, 4)),
            event(2, "ok", poll(x=[(0, 2)], y=[(1, 4)])),
        ],
    ),
    "an abort that rewinds": (
        set(),
        [
            A,
            event(0, "ok", send("x", 1, 2)),
            assign(1, "x"),
            event(1, "fail", poll(x=[(0, 1)])),
            event(1, "ok", poll(x=[(0, 1), (1, 2)])),
        ],
    ),
    "an abort that does not rewind": (
        {"poll-skip"},
        [
            A,
            event(0, "ok", send("x", 1, 2)),
            event(0, "ok", send("x", 2, 3)),
            assign(1, "x"),
            event(1, "ok", poll(x=[(0, 1)])),
            event(1, "fail", poll(x=[(1, 2)])),
            event(1, "ok", poll(x=[(2, 3)])),
            event(2, "ok", poll(x=[(0, 1), (1, 2), (2, 3)])),
        ],
    ),
    "a skip of a subscriber is recorded only": (
        set(),
        [
            A,
            event(0, "ok", send("x", 1, 2)),
            event(0, "ok", send("x", 2, 3)),
            assign(1, "x", f="subscribe"),
            event(1, "ok", poll(x=[(0, 1)])),
            event(1, "ok", poll(x=[(2, 3)])),
            event(2, "ok", poll(x=[(0, 1), (1, 2), (2, 3)])),
        ],
    ),
    "assigned away and back": (
        set(),
        [
            A,
            event(0, "ok", send("x", 1, 2)),
            assign(1, "x"),
            event(1, "ok", poll(x=[(0, 1), (1, 2)])),
            assign(1, "y"),
            assign(1, "x"),
            event(1, "ok", poll(x=[(0, 1)])),
        ],
    ),
    "reading backwards": (
        {"nonmonotonic-poll"},
        [A, assign(1, "x"), event(1, "ok", poll(x=[(0, 1)])), event(1, "ok", poll(x=[(0, 1)]))],
    ),
    "a skip inside a poll": (
        {"int-poll-skip", "lost-write", "unseen"},
        [
            A,
            event(0, "ok", send("x", 1, 2)),
            event(0, "ok", send("x", 2, 3)),
            event(1, "ok", poll(x=[(0, 1), (2, 3)])),
        ],
    ),
    "a skip inside a poll over a rebalance": (
        set(),
        [
            A,
            event(0, "ok", send("x", 1, 2)),
            event(0, "ok", send("x", 2, 3)),
            event(1, "ok", poll(x=[(0, 1), (2, 3)]), rebalance=[{"keys": ["x"]}]),
            event(2, "ok", poll(x=[(1, 2)])),
        ],
    ),
    "backwards inside a poll": (
        {"int-nonmonotonic-poll"},
        [A, event(0, "ok", send("x", 1, 2)), event(1, "ok", poll(x=[(1, 2), (0, 1)]))],
    ),
    "one value twice": (
        {"duplicate"},
        [A, event(1, "ok", poll(x=[(0, 1), (3, 1)]))],
    ),
    "a duplicate that only an aborted poll saw": (
        {"duplicate"},
        [A, event(1, "fail", poll(x=[(0, 1), (3, 1)])), event(2, "ok", poll(x=[(0, 1)]))],
    ),
    "a value nobody sent": ({"phantom"}, [event(1, "ok", poll(x=[(0, 9)]))]),
    "an aborted read": ({"G1a"}, [event(0, "fail", send("x", 0, 1)), event(1, "ok", poll(x=[(0, 1)]))]),
    "own write read before the commit": (
        {"precommitted-read"},
        [event(0, "ok", send("x", 0, 1), poll(x=[(0, 1)]))],
    ),
    "an intermediate read": (
        {"G1b", "int-poll-skip", "lost-write", "unseen"},
        [
            event(0, "ok", send("x", 0, 1), send("x", 1, 2)),
            event(2, "ok", send("x", 2, 3)),
            event(1, "ok", poll(x=[(0, 1), (2, 3)])),
        ],
    ),
    "two transactions that read one another": (
        {"G1c"},
        [event(0, "ok", send("x", 0, 1), poll(y=[(0, 2)])), event(1, "ok", send("y", 0, 2), poll(x=[(0, 1)]))],
    ),
    "a write loop is legal": (
        set(),
        [
            event(0, "ok", send("x", 0, 1), send("y", 1, 4)),
            event(1, "ok", send("x", 1, 3), send("y", 0, 2)),
            event(2, "ok", poll(x=[(0, 1), (1, 3)], y=[(0, 2), (1, 4)])),
        ],
    ),
    "offsets that go back inside an operation": (
        {"int-nonmonotonic-send"},
        [event(0, "ok", send("x", 1, 1), send("x", 0, 2)), event(1, "ok", poll(x=[(0, 2), (1, 1)]))],
    ),
    "offsets that go back between operations": (
        {"nonmonotonic-send"},
        [
            event(0, "ok", send("x", 1, 1)),
            event(0, "ok", send("x", 0, 2)),
            event(1, "ok", poll(x=[(0, 2), (1, 1)])),
        ],
    ),
    "read before it was written": (
        {"G1c-realtime"},
        [
            event(1, "ok", poll(x=[(0, 1)]), time_ns=10),
            {**event(0, "invoke", time_ns=50), "value": None},
            event(0, "ok", send("x", 0, 1), time_ns=60),
        ],
    ),
    "a process reads what it writes later": (
        {"G1c-process"},
        [
            event(0, "ok", poll(x=[(0, 1)])),
            event(0, "ok", send("y", 0, 2)),
            event(1, "ok", poll(y=[(0, 2)]), send("x", 0, 1)),
        ],
    ),
    "acknowledged and never read": ({"unseen"}, [A]),
    "a poll that gave nothing stays where the one before it was": (
        {"poll-skip"},
        [
            event(0, "ok", send("x", 0, 1), send("x", 1, 2), send("x", 2, 3)),
            assign(1, "x"),
            event(1, "ok", poll(x=[(0, 1)])),
            event(1, "ok", poll(x=[])),
            event(1, "ok", poll(x=[(2, 3)])),
            event(2, "ok", poll(x=[(0, 1), (1, 2), (2, 3)])),
        ],
    ),
}


@pytest.mark.parametrize("title", HISTORIES)
def test_calibration_history(title: str) -> None:
    expected, events = HISTORIES[title]
    assert names(*events) == expected


def test_every_failing_anomaly_has_a_history_that_shows_it() -> None:
    shown = set().union(*(expected for expected, _ in HISTORIES.values()))
    assert shown == {
        "inconsistent-offsets", "duplicate", "phantom", "G1a", "G1b", "precommitted-read", "lost-write", "unseen",
        "poll-skip", "nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "nonmonotonic-send",
        "int-nonmonotonic-send", "G1c", "G1c-process", "G1c-realtime",
    }  # fmt: skip


def test_the_operations_of_a_cycle_are_named_in_its_order() -> None:
    """Each depends on the one before it: here 2 read what 0 wrote, and 1 what 2 wrote."""
    loop = (
        event(0, "ok", send("x", 0, 1), poll(z=[(0, 3)])),
        event(1, "ok", send("z", 0, 3), poll(y=[(0, 2)])),
        event(2, "ok", send("y", 0, 2), poll(x=[(0, 1)])),
    )
    [found] = [each for each in anomalies(*loop) if each.name == "G1c"]
    first, *others = found.witness["cycle"]
    assert [first, *others] in ([0, 2, 1, 0], [2, 1, 0, 2], [1, 0, 2, 1])


def test_a_write_loop_is_recorded() -> None:
    assert "G0" in names(*HISTORIES["a write loop is legal"][1], failing_only=False)


@pytest.mark.parametrize("offset", [1, 2])
def test_one_record_of_another_between_two_of_an_operation_is_recorded(offset: int) -> None:
    """No failure: transactions of several producers share a partition."""
    two, one = event(0, "ok", send("x", 0, 1), send("x", 3 - offset, 2)), event(1, "ok", send("x", offset, 3))
    found = names(two, one, failing_only=False)
    assert ("int-send-skip" in found) == (offset == 1)
    assert "int-send-skip" not in names(two, one)


def test_a_large_clean_history_is_clean() -> None:
    """20,000 transactions with two sends each."""
    events, offsets = [], {"x": 0, "y": 0}
    for value in range(0, 40_000, 2):
        events.append(
            event(value % 8, "ok", send("x", offsets["x"], value), send("y", offsets["y"], value + 1), time_ns=value)
        )
        offsets = {key: offset + 2 for key, offset in offsets.items()}
    events.append(
        event(
            9,
            "ok",
            poll(x=[(2 * i, 2 * i) for i in range(20_000)], y=[(2 * i, 2 * i + 1) for i in range(20_000)]),
            time_ns=10**6,
        )
    )
    assert names(*events) == set()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"process": "a"}', "integer 'process'"),
        ('{"process": 1, "type": "maybe", "f": "txn"}', "'type' is one of"),
        ('{"process": 1, "type": "ok", "f": "txn", "value": [["jump"]]}', "send or a poll"),
        ('{"process": 1, "type": "ok", "f": "txn", "value": [["send", "x"]]}', "line 1"),
    ],
)
def test_an_unreadable_line_is_named(line: str, says: str) -> None:
    with pytest.raises(UnreadableHistory, match=says):
        read_history([line])


def test_an_invocation_without_an_end_is_unknown() -> None:
    (operation,) = read_history(
        ['{"process": 1, "type": "invoke", "f": "txn", "value": [["send", "x", [null, 1]]], "time": 5}']
    )
    assert (operation.type, operation.sends[0].value) == ("info", 1)
