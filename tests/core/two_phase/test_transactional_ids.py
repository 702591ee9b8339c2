"""Transactional ids that are used again: the rules, and the model that finds each rule that is left out."""

from __future__ import annotations

import pytest

from oncelog.core.two_phase.transactional_ids import RUNS_REMEMBERED, LeasedName, TransactionalIds, leased_name
from tests.core.two_phase.sink_model import ModelRun, Naming

WORKER = "0123456789abcdef" * 2


def test_an_id_is_used_again_for_a_later_batch_of_the_same_run_only() -> None:
    ids = TransactionalIds(WORKER)
    first = ids.lease("p", "q", "run1", 4)
    assert ids.lease("p", "q", "run1", 4) != first, "the driver may have heard of it"
    assert ids.lease("p", "q", "run1", 3) != first, "a checkpoint that was set back"
    assert ids.lease("p", "q", "run1", 5) == first
    others = {ids.lease("p", "q", "run2", 6), ids.lease("p", "r", "run1", 6), ids.lease("x", "q", "run1", 6)}
    assert len(others) == 3
    assert first not in others
    assert TransactionalIds("f" * 32).lease("p", "q", "run1", 6) != first, "another process"


def test_a_stream_needs_as_many_ids_as_it_has_tasks_at_a_time() -> None:
    ids = TransactionalIds(WORKER)
    assert len({ids.lease("p", "q", "run1", batch) for batch in range(100_000) for _ in range(3)}) == 3


def test_runs_that_are_over_are_forgotten_and_their_ids_never_given_again() -> None:
    ids = TransactionalIds(WORKER)
    given = [ids.lease("p", "q", f"run{i}", 0) for i in range(10 * RUNS_REMEMBERED)]
    again = [ids.lease("p", "q", f"run{i}", 1) for i in range(10 * RUNS_REMEMBERED)]
    assert len({*given, *again}) == 20 * RUNS_REMEMBERED


def test_an_id_says_whose_it_is() -> None:
    name = TransactionalIds(WORKER).lease("oncelog-spark", "1f3c-9", "01234567", 44)
    assert leased_name("oncelog-spark", name) == LeasedName("1f3c-9", "01234567", WORKER, 0)
    for foreign in (
        name.upper(),
        f"{name}x",
        f"x{name}",
        name.replace(WORKER, "worker"),
        "oncelog-spark.q.0.0.run.1",
        "orders",
    ):
        assert leased_name("oncelog-spark", foreign) is None


@pytest.mark.parametrize("first", range(0, 600, 300))
def test_no_interleaving_duplicates_or_loses(first: int) -> None:
    runs = [ModelRun(seed, naming=Naming.LEASED) for seed in range(first, first + 300)]
    assert [run.seed for run in runs if run.verdict(batch_count=4) != (0, 0)] == []
    again = sum(run.attempt_count > len(run.log.identity) for run in runs)
    assert again > 50, "ids are used again"


@pytest.mark.parametrize("naming", [Naming.AT_ONCE, Naming.SHARED, Naming.SWEPT_LATE])
def test_the_model_finds_a_rule_that_is_left_out(naming: Naming) -> None:
    wrong = [seed for seed in range(400) if ModelRun(seed, naming=naming).verdict(batch_count=4) != (0, 0)]
    assert len(wrong) >= 3, naming.value
