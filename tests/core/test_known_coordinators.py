"""A client remembers the coordinators that it asked for last, and no more than that."""

from __future__ import annotations

import pytest

from oncelog.core import known_coordinators
from oncelog.core.known_coordinators import KnownCoordinators
from oncelog.types import CoordinatorKey, Node

NODE = Node(1, "broker", 9092)


def test_those_asked_for_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_coordinators, "COORDINATORS_MAX", 3)
    known = KnownCoordinators()
    keys = [CoordinatorKey(0, f"g{number}") for number in range(4)]
    for key in keys[:3]:
        assert known.found(key, NODE) == NODE
    assert known.of(keys[0]) == NODE
    known.found(keys[3], NODE)
    assert [known.of(key) for key in keys] == [NODE, None, NODE, NODE]
    assert len(known.nodes()) == 3


def test_one_that_moved_is_known_where_it_is_now() -> None:
    known, key, there = KnownCoordinators(), CoordinatorKey(1, "t"), Node(2, "other", 9092)
    known.found(key, NODE)
    known.found(key, there)
    assert (known.of(key), len(known.nodes())) == (there, 1)
    known.forget(key)
    known.forget(key)
    assert known.of(key) is None
    assert known.of(None) is None
