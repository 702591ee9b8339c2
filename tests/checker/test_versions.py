"""What a history says about a key's log."""

from __future__ import annotations

from oncelog.checker.history import Operation, Poll, Send
from oncelog.checker.versions import Versions


def operation(index: int, kind: str, *steps: Send | Poll) -> Operation:
    return Operation(index, index, kind, "txn", index * 10, index * 10 + 5, list(steps))


def test_polls_of_all_operations_tell_versions_but_only_acknowledged_ones_count_as_read() -> None:
    sent = operation(0, "ok", Send("x", 0, 1), Send("x", 4, 2))
    versions = Versions(
        [sent, operation(1, "fail", Poll({"x": [(0, 1), (2, 9)]})), operation(2, "ok", Poll({"x": []}))]
    )
    assert versions.values_at == {"x": {0: 1, 2: 9, 4: 2}}
    assert versions.ok_read == {}
    assert [versions.distance("x", 0, to) for to in (0, 2, 4, 7)] == [0, 1, 2, 1]
    assert versions.several_sends == {"x": {1: sent, 2: sent}}


def test_values_at_several_offsets_and_several_values_at_an_offset_are_kept_apart() -> None:
    reads = [
        operation(0, "ok", Poll({"x": [(0, 1), (3, 1), (5, 2)]})),
        operation(1, "ok", Poll({"x": [(5, 3), (6, 2)]})),
    ]
    versions = Versions(reads)
    assert versions.conflicts == {"x": {5: {2, 3}}}
    assert versions.further_offsets == {("x", 1): [0, 3], ("x", 2): [5, 6]}
    assert versions.offsets_of("x", 3) == [5]
    assert versions.offsets_of("x", 4) == []
    assert versions.ok_reader("x", 3) is reads[1]


def test_one_poll_may_contradict_itself() -> None:
    versions = Versions([operation(0, "ok", Poll({"x": [(5, 2), (5, 3)]}))])
    assert versions.conflicts == {"x": {5: {2, 3}}}


def test_one_value_read_proves_an_unknown_transaction() -> None:
    unknown = operation(0, "info", Send("x", 0, 1), Send("y", None, 2))
    assert Versions([unknown]).committed == set()
    assert Versions([unknown, operation(1, "ok", Poll({"y": [(8, 2)]}))]).committed >= {id(unknown)}
