"""Looking only at suspect stretches finds the very cycles that looking at everything finds."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from oncelog.checker import dependencies
from oncelog.checker.dependencies import dependency_cycles
from oncelog.checker.history import Operation, Poll, Send
from oncelog.checker.versions import Versions


def history(seed: int, count: int) -> list[Operation]:
    """Operations that overlap at random; some read what ends after them, some are unknown, a few have no end."""
    random_numbers = random.Random(seed)
    log: dict[str, list[int]] = {"x": [], "y": []}
    operations = []
    for index in range(count):
        began = index * 10 + random_numbers.randrange(-15, 15)
        kind = random_numbers.choices(["ok", "info", "fail"], [8, 2, 1])[0]
        ended = 2**63 - 1 if kind == "info" and index % 2 else began + random_numbers.randrange(1, 40)
        operation = Operation(index, random_numbers.randrange(4), kind, "txn", began, ended)
        for key in random_numbers.choice(["x", "y", "xy"]):
            log[key].insert(max(0, len(log[key]) - random_numbers.randrange(3)), index)
            operation.steps.append(Send(key, None, index))
        operations.append(operation)
    positions = {key: {value: offset for offset, value in enumerate(values)} for key, values in log.items()}
    for operation in operations:
        key = random_numbers.choice("xy")
        near = [
            v
            for v in log[key]
            if -40 < v - operation.index < random_numbers.choice([-5, -5, -5, 3 if seed % 2 else -5])
        ]
        read = [(positions[key][value], value) for value in near[-3:]]
        operation.steps.insert(0, Poll({key: read}))
    return sorted(operations, key=lambda o: o.completed_ns)


@pytest.mark.parametrize("seed", range(60))
def test_the_suspect_stretches_hold_every_cycle(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    versions = Versions(history(seed, 40))
    found = Counter(anomaly.name for anomaly in dependency_cycles(versions))
    monkeypatch.setattr(dependencies, "_merged", lambda spans: [(0, 10**6)])
    monkeypatch.setattr(dependencies, "_write_cycles", lambda *_: ())
    everything = Counter(anomaly.name for anomaly in dependency_cycles(versions))
    assert found - Counter(G0=found["G0"]) == everything


def test_the_random_histories_have_cycles_of_each_kind_and_none() -> None:
    found = [frozenset(a.name for a in dependency_cycles(Versions(history(seed, 40)))) for seed in range(60)]
    assert {"G1c-process", "G1c-realtime", "G0"} <= frozenset.union(*found)
    assert any(not names - {"G0"} for names in found)  # and some have none but those of writes


class Counted(list):  # type: ignore[type-arg]
    """How often somebody went through all of it."""

    passes = 0

    def __iter__(self):  # type: ignore[no-untyped-def]
        self.passes += 1
        return super().__iter__()


def test_a_thousand_suspect_stretches_do_not_mean_a_thousand_passes_over_all_polls() -> None:
    """Each reader here is done before the writer has heard: as many small stretches, none of which is a cycle."""
    operations = []
    for number in range(1000):
        at = number * 100
        operations.append(Operation(2 * number, 0, "ok", "txn", at, at + 20, [Poll({"x": [(number, number)]})]))
        operations.append(Operation(2 * number + 1, 1, "ok", "txn", at + 5, at + 40, [Send("x", number, number)]))
    versions = Versions(operations)
    versions.polls, versions.operations = Counted(versions.polls), Counted(versions.operations)
    assert len(dependencies._merged([*dependencies._backward_reads(versions, _ranks(operations))])) == 1000
    versions.polls.passes = versions.operations.passes = 0
    assert list(dependency_cycles(versions)) == []
    assert versions.polls.passes < 5
    assert versions.operations.passes < 10


def _ranks(operations: list[Operation]) -> dict[int, int]:
    in_time = sorted(operations, key=lambda operation: operation.completed_ns)
    return {id(operation): position for position, operation in enumerate(in_time)}


def test_times_that_cannot_be_make_everything_suspect() -> None:
    first = Operation(0, 0, "ok", "txn", 100, 5, [Poll({"y": [(0, 2)]}), Send("x", 0, 1)])
    second = Operation(1, 1, "ok", "txn", 10, 20, [Poll({"x": [(0, 1)]}), Send("y", 0, 2)])
    assert [a.name for a in dependency_cycles(Versions([first, second]))] == ["G1c"]
