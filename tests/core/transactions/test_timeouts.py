"""Timeouts and expiry (KIP-98, KIP-890; Kafka's `TransactionStateManager`)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.timeouts import TOMBSTONES_PER_BATCH
from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionTombstone
from tests.core.transactions.performed_coordinator import Shell, code

WEEK_MS = 604_800_000


def test_an_open_transaction_ends_after_its_timeout() -> None:
    shell = Shell()
    shell.put(S.ONGOING, start_ms=1000)
    assert list(shell.coordinator.timed_out(61_000)) == []
    (decision,) = shell.coordinator.timed_out(61_001)
    (record,) = decision.records
    assert (record.state, record.producer_epoch, record.last_producer_epoch) == (S.PREPARE_ABORT, 6, 5)
    assert decision.markers[0].transaction_version == 2
    assert decision.reply is None


@pytest.mark.parametrize("level", [0, 1])
def test_below_level_2_nobody_recovers(level: int) -> None:
    shell = Shell(level=level)
    shell.put(S.ONGOING)
    (decision,) = shell.coordinator.timed_out(61_001)
    assert decision.markers[0].transaction_version == 0
    shell.perform(decision)
    shell.write_markers()
    assert code(shell.init(10, 5)) == "PRODUCER_FENCED"


@pytest.mark.parametrize("state", [S.EMPTY, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_ABORT, S.COMPLETE_COMMIT])
def test_only_an_open_transaction_times_out(state: S) -> None:
    shell = Shell()
    shell.put(state, start_ms=0)
    assert list(shell.coordinator.timed_out(10**12)) == []


def test_two_phase_and_busy_transactions_do_not_time_out() -> None:
    shell = Shell()
    shell.put(S.ONGOING, timeout_ms=2147483647)
    assert list(shell.coordinator.timed_out(10**15)) == []
    shell.put(S.ONGOING)
    shell.coordinator.appended([shell.pay])
    assert list(shell.coordinator.timed_out(10**15)) == []


def test_without_a_producer_id_a_timeout_comes_next_time() -> None:
    shell = Shell()
    shell.put(S.ONGOING, producer_epoch=32766)
    shell.coordinator.table.producer_ids = ProducerIds()
    assert list(shell.coordinator.timed_out(10**6)) == []
    shell.coordinator.table.producer_ids = shell.producer_ids
    assert len(list(shell.coordinator.timed_out(10**6))) == 1


@pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_an_unused_id_expires(state: S) -> None:
    shell = Shell()
    shell.put(state, last_update_ms=5)
    assert list(shell.coordinator.expired(WEEK_MS + 4)) == []
    (decision,) = shell.coordinator.expired(WEEK_MS + 5)
    assert decision.records == (TransactionTombstone("pay"),)
    shell.coordinator.appended(decision.records)
    assert shell.coordinator.describe_transaction("pay").error_code == 105
    assert code(shell.add(10, 5)) == "CONCURRENT_TRANSACTIONS"
    shell.coordinator.failed(decision.records)
    assert shell.coordinator.describe_transaction("pay").error_code == 0
    shell.perform(decision)
    assert code(shell.add(10, 5)) == "INVALID_PRODUCER_ID_MAPPING"
    assert shell.restarted().coordinator.get("pay") is None


@pytest.mark.parametrize("state", [S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_a_used_id_does_not_expire(state: S) -> None:
    shell = Shell()
    shell.put(state, last_update_ms=0)
    assert list(shell.coordinator.expired(10**15)) == []


def test_tombstones_come_in_batches() -> None:
    shell = Shell()
    record = TransactionRecord("", 1, 0, 60000, last_update_ms=0)
    for number in range(TOMBSTONES_PER_BATCH + 1):
        shell.coordinator.apply(replace(record, transactional_id=f"id-{number}"))
    assert [len(decision.records) for decision in shell.coordinator.expired(WEEK_MS)] == [TOMBSTONES_PER_BATCH, 1]


def test_the_longest_open_transaction() -> None:
    shell = Shell()
    assert shell.coordinator.longest_open_ms(100) == 0
    shell.put(S.ONGOING, start_ms=40)
    shell.coordinator.apply(replace(shell.pay, transactional_id="younger", start_ms=90))
    shell.coordinator.apply(replace(shell.pay, transactional_id="done", start_ms=1, state=S.COMPLETE_ABORT))
    assert shell.coordinator.longest_open_ms(100) == 60
    assert shell.coordinator.longest_open_ms(10) == 0, "a clock that went back"
