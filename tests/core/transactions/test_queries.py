"""DescribeTransactions, ListTransactions, and which transactions a downgrade would harm."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.transactions.transaction import NAMES
from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.types import TopicPartition
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from tests.core.transactions.performed_coordinator import Shell


def test_describe_groups_partitions_by_topic() -> None:
    shell = Shell()
    partitions = frozenset({TopicPartition("b", 1), TopicPartition("a", 2), TopicPartition("a", 0)})
    shell.put(S.ONGOING, partitions=partitions, start_ms=7)
    state = shell.coordinator.describe_transaction("pay")
    assert (state.transaction_state, state.producer_id, state.producer_epoch) == ("Ongoing", 10, 5)
    assert (state.transaction_timeout_ms, state.transaction_start_time_ms) == (60000, 7)
    assert [(t.topic, t.partitions) for t in state.topics] == [("a", [0, 2]), ("b", [1])]


@pytest.mark.parametrize(("name", "error_code"), [("", 42), ("nobody", 105)])
def test_describe_errors_carry_zeroes(name: str, error_code: int) -> None:
    state = Shell().coordinator.describe_transaction(name)
    assert (state.error_code, state.transactional_id, state.transaction_state) == (error_code, name, "")
    assert (state.producer_id, state.producer_epoch, state.transaction_timeout_ms) == (0, 0, 0)
    assert state.transaction_start_time_ms == 0


def listed(shell: Shell, now_ms: int = 1000, **filters: object) -> list[str]:
    request = ListTransactionsRequest(**filters)  # type: ignore[arg-type]
    reply = shell.coordinator.list_transactions(request, now_ms)
    assert reply.error_code == 0
    return [state.transactional_id for state in reply.transaction_states]


@pytest.fixture
def shell() -> Shell:
    shell = Shell()
    for number, state in enumerate(NAMES):
        if state <= S.COMPLETE_ABORT:
            shell.put(state, producer_id=number, start_ms=-1 if state is S.EMPTY else 500)
            shell.coordinator.apply(replace(shell.pay, transactional_id=f"{NAMES[state]}-{number}"))
    shell.coordinator.table.transactions.pop("pay")
    return shell


@pytest.mark.parametrize("state", [state for state in S if state <= S.COMPLETE_ABORT])
def test_by_state(shell: Shell, state: S) -> None:
    assert listed(shell, state_filters=[NAMES[state]]) == [f"{NAMES[state]}-{state.value}"]


def test_unknown_states_match_nothing_and_are_named(shell: Shell) -> None:
    request = ListTransactionsRequest(state_filters=["ongoing", "Nonsense"])
    reply = shell.coordinator.list_transactions(request, 0)
    assert (reply.unknown_state_filters, reply.transaction_states) == (["ongoing", "Nonsense"], [])
    assert listed(shell, state_filters=["Dead", "PrepareEpochFence"]) == []


def test_by_duration(shell: Shell) -> None:
    assert len(listed(shell, duration_filter=-1)) == 6
    assert len(listed(shell, duration_filter=0)) == 6
    assert len(listed(shell, duration_filter=499)) == 6
    assert listed(shell, duration_filter=500) == ["Empty-0"], "more than, not as long as; no start passes every filter"
    assert listed(shell, duration_filter=86_400_000) == ["Empty-0"]


def test_by_producer_id_and_name(shell: Shell) -> None:
    assert listed(shell, producer_id_filters=[1, 99]) == ["Ongoing-1"]
    assert listed(shell, transactional_id_pattern="") != []
    assert listed(shell, transactional_id_pattern="Ongoing") == [], "the whole name has to match"
    assert listed(shell, transactional_id_pattern=".*Commit.*") == ["CompleteCommit-4", "PrepareCommit-2"]
    assert listed(shell, transactional_id_pattern=".*Commit.*", state_filters=["PrepareCommit"]) == ["PrepareCommit-2"]


def test_a_bad_pattern() -> None:
    request = ListTransactionsRequest(transactional_id_pattern="(")
    assert Shell().coordinator.list_transactions(request, 0).error_code == 128


def test_what_a_downgrade_would_harm() -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    assert shell.coordinator.two_phase_transactions() == []
    shell.put(S.ONGOING, timeout_ms=2147483647)
    assert shell.coordinator.two_phase_transactions() == ["pay"]
    shell.put(S.ONGOING, next_producer_id=10, next_producer_epoch=6)
    assert shell.coordinator.two_phase_transactions() == ["pay"]
    shell.put(S.EMPTY, timeout_ms=2147483647)
    assert shell.coordinator.two_phase_transactions() == []
