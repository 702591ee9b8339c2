"""What a batch cost is counted, and travels as JSON that nothing else depends on."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from oncelog.core.two_phase.exactly_once_sink import Attempt
from oncelog.spark import batch_numbers
from oncelog.spark.batch_numbers import BatchNumbers


def test_tasks_without_rows_open_no_transaction() -> None:
    numbers = BatchNumbers()
    numbers.take([Attempt("a", "1:0", 3, byte_count=30), Attempt("", "", 0), Attempt("b", "2:0", 4, byte_count=40)])
    found = json.loads(numbers.to_value())
    assert (found["rows"], found["bytes"], found["tasks"], found["transactionsOpened"]) == (7, 70, 3, 2)


def test_a_step_that_comes_twice_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([1.0, 1.25, 2.0, 2.5])
    # (not of the module `time` itself: other threads of this process, and their event loops, ask it)
    monkeypatch.setattr(batch_numbers, "time", SimpleNamespace(monotonic=lambda: next(times)))
    numbers = BatchNumbers()
    for _ in range(2):
        with numbers.step("decide"):
            pass
    assert numbers.to_json()["ms"] == {"decide": 750}


def test_the_newest_batches_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_numbers, "recent", type(batch_numbers.recent)())
    for batch in range(batch_numbers.KEPT + 5):
        batch_numbers.keep("q", str(batch), BatchNumbers())
    assert len(batch_numbers.recent) == batch_numbers.KEPT
    assert ("q", "4") not in batch_numbers.recent
