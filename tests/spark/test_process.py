"""Python's collector is spared what a worker of Spark's has loaded, a few times, and nowhere else."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from oncelog.spark import process
from oncelog.spark.plainly import plainly


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that has frozen nothing, and afterwards holds nothing frozen."""
    monkeypatch.setattr(process, "_freeze_count", 0)
    gc.unfreeze()
    yield
    gc.unfreeze()


def in_a_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=SimpleNamespace(name="pyspark.daemon")))


@plainly
def task() -> str:
    return "done"


@plainly
def rows() -> Iterator[int]:
    yield 1


def test_outside_of_sparks_processes_nothing_is_frozen() -> None:
    assert (task(), list(rows())) == ("done", [1])
    assert gc.get_freeze_count() == 0


@pytest.mark.parametrize("call", [task, lambda: list(rows())], ids=["a call", "a generator"])
def test_what_a_worker_has_loaded_is_out_of_the_collectors_sight(monkeypatch: pytest.MonkeyPatch, call: object) -> None:
    in_a_worker(monkeypatch)
    assert callable(call)
    call()
    assert gc.get_freeze_count() > 1000
    assert len(gc.get_objects()) < 1000


def test_it_is_frozen_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each freeze keeps the garbage of its moment for good."""
    in_a_worker(monkeypatch)
    made: list[list[object]] = []
    for _ in range(process.FREEZES_MAX + 1):
        made.append([task])  # seen by the collector until the task is over
        task()
    seen = gc.get_objects()
    assert [any(each is one for each in seen) for one in made] == [False] * process.FREEZES_MAX + [True]


def test_garbage_that_comes_later_is_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_worker(monkeypatch)
    for _ in range(process.FREEZES_MAX):
        task()
    gc.collect()
    cycle: list[object] = []
    cycle.append(cycle)
    del cycle
    assert gc.collect() >= 1
