"""An operator who ends open transactions: he is heard, and what he commits in part is judged as such, and nothing else is."""

from __future__ import annotations

from collections import Counter

import pytest

from evidence.simulator.checkers.exactly_once import check_exactly_once
from evidence.simulator.checkers.group_offsets import check_group_offsets
from evidence.simulator.faults import FaultOptions
from evidence.simulator.history import History, Outcome, Transaction
from evidence.simulator.simulation import run_seed
from evidence.world.loop import SimLoop, run_simulated
from oncelog.checker.anomalies import check
from oncelog.checker.history import read_history
from oncelog.types import TopicPartition

A = TopicPartition("a", 0)


def ended(outcome: Outcome, *, operator_commits: bool) -> tuple[History, Transaction]:
    async def main(loop: SimLoop) -> tuple[History, Transaction]:
        history = History(loop)
        transaction = history.begin(history.new_process())
        for value in (1, 2):
            transaction.send(A, value)[0] = value - 1
        transaction.operator_commits = operator_commits
        transaction.group, transaction.offsets = "g", {A: 5}
        history.end(transaction, outcome)
        reader = history.begin(history.new_process())
        reader.poll({str(A): [[0, 1]]})
        history.end(reader, Outcome.OK)
        return history, transaction

    return run_simulated(1, main)


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INFO])
def test_a_part_that_an_operator_committed_is_no_anomaly_of_its_producer(outcome: Outcome) -> None:
    history, transaction = ended(outcome, operator_commits=True)
    assert not list(check_exactly_once([transaction], {str(A): [(0, 1)]}))
    assert not list(check_group_offsets([transaction], {"g": {A: 5}}))
    assert not [each for each in check(read_history(history.lines)).anomalies if each.fails]


@pytest.mark.parametrize("operator_commits", [False, True])
def test_what_its_producer_was_told_is_committed_must_be_whole(operator_commits: bool) -> None:
    history, transaction = ended(Outcome.OK, operator_commits=operator_commits)
    assert list(check_exactly_once([transaction], {str(A): [(0, 1)]}))
    assert list(check_group_offsets([transaction], {"g": {}}))
    assert [each.name for each in check(read_history(history.lines)).anomalies if each.fails] == ["unseen"]


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.INFO])
def test_without_an_operator_a_part_is_found(outcome: Outcome) -> None:
    history, transaction = ended(outcome, operator_commits=False)
    assert list(check_exactly_once([transaction], {str(A): [(0, 1)]}))
    assert outcome is Outcome.INFO or list(check_group_offsets([transaction], {"g": {A: 5}}))
    assert outcome is Outcome.INFO or [each for each in check(read_history(history.lines)).anomalies if each.fails]


def test_each_of_his_deeds_is_done_and_answered() -> None:
    told: Counter[str] = Counter()
    deeds: Counter[str] = Counter()
    for seed in range(3):
        verdict = run_seed(seed, options=FaultOptions(operator_every=0.05))
        assert not verdict.findings, verdict.repeat
        deeds.update({kind: count for kind, count in verdict.fault_counts.items() if "operator" in kind})
        told.update(line.rpartition(" ")[2] for line in verdict.trace if "the operator is told" in line)
    assert set(deeds) == {"operator's commit", "operator's abort", "operator's terminate"}
    assert told["NONE"] > 10
    assert told["INVALID_TXN_STATE"] + told["PRODUCER_FENCED"] > 0, "some come too late"
