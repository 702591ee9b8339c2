"""The coordinator's memory: what is pending, what `apply` takes over, what may not happen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.table import TransactionConfig, TransactionTable
from oncelog.core.transactions.transaction import TransactionRecord
from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionLogRecord, TransactionTombstone

EMPTY = TransactionRecord("pay", 10, 5, 60000)
ONGOING = replace(EMPTY, state=S.ONGOING, partitions=frozenset({TopicPartition("t", 0)}), start_ms=1)
PREPARED = replace(ONGOING, state=S.PREPARE_COMMIT)


@pytest.fixture
def table() -> TransactionTable:
    return TransactionTable(0, TransactionConfig(), ProducerIds(), lambda: 3)


def test_an_id_is_busy_from_the_append_to_the_commit(table: TransactionTable) -> None:
    table.appended([EMPTY])
    assert table.is_busy("pay")
    assert table.get("pay") is None
    table.apply(EMPTY)
    assert not table.is_busy("pay")
    assert table.get("pay") is EMPTY


def test_a_decided_transaction_is_busy_until_it_is_complete(table: TransactionTable) -> None:
    table.apply(PREPARED)
    assert table.is_busy("pay")
    assert table.unwritten == {"pay": {TopicPartition("t", 0)}}
    table.apply(replace(PREPARED, state=S.COMPLETE_COMMIT))
    assert not table.is_busy("pay")
    assert table.unwritten == {}


def test_of_several_waiting_records_the_last_counts(table: TransactionTable) -> None:
    table.apply(EMPTY)
    more = replace(ONGOING, last_update_ms=2)
    table.appended([ONGOING, more])
    table.apply(ONGOING)
    assert table.is_busy("pay")
    table.apply(more)
    assert not table.is_busy("pay")


def test_a_failed_append_leaves_the_committed_state(table: TransactionTable) -> None:
    table.apply(EMPTY)
    table.appended([ONGOING])
    table.failed([ONGOING])
    assert not table.is_busy("pay")
    assert table.get("pay") is EMPTY


@pytest.mark.parametrize("end", [PREPARED, TransactionTombstone("pay")])
def test_a_refused_attempt_is_forgotten_with_its_transaction(
    table: TransactionTable, end: TransactionLogRecord
) -> None:
    identity = ProducerIdAndEpoch(10, 5)
    table.apply(ONGOING)
    for attempt in (3, 2):
        table.refused_attempt("pay", identity, attempt)
    assert [table.was_overtaken("pay", identity, attempt) for attempt in (2, 3, 4)] == [True, True, False]
    assert not table.was_overtaken("pay", ProducerIdAndEpoch(10, 6), 3)
    table.apply(end)
    assert not table.was_overtaken("pay", identity, 3)


def test_a_tombstone_removes(table: TransactionTable) -> None:
    table.apply(EMPTY)
    tombstone = TransactionTombstone("pay")
    table.appended([tombstone])
    assert table.is_busy("pay")
    table.apply(tombstone)
    assert (table.get("pay"), table.is_busy("pay")) == (None, False)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, ONGOING),
        (None, TransactionTombstone("pay")),
        (EMPTY, PREPARED),
        (PREPARED, EMPTY),
        (PREPARED, ONGOING),
        (PREPARED, replace(PREPARED, state=S.COMPLETE_ABORT)),
        (ONGOING, EMPTY),
        (ONGOING, replace(ONGOING, producer_epoch=4)),
    ],
)
def test_what_may_not_happen_is_seen_when_it_is_appended(
    table: TransactionTable, before: TransactionRecord | None, after: TransactionRecord | TransactionTombstone
) -> None:
    if before:
        table.apply(before)
    with pytest.raises(AssertionError):
        table.appended([after])


def test_a_compacted_log_lacks_steps(table: TransactionTable) -> None:
    table.apply(replace(PREPARED, state=S.COMPLETE_COMMIT))
    table.apply(PREPARED)
    assert table.get("pay") is PREPARED


@pytest.mark.parametrize(
    ("producer_epoch", "expected"), [(0, (10, 1)), (32765, (10, 32766)), (32766, None), (32767, None)]
)
def test_bumping(table: TransactionTable, producer_epoch: int, expected: tuple[int, int] | None) -> None:
    identity = ProducerIdAndEpoch(10, producer_epoch)
    assert table.bumped(identity) == expected
    table.producer_ids.give_block(70, 1)
    assert table.bumped(identity) == (expected or (70, 0))


@pytest.mark.parametrize(("level", "value_version"), [(0, 0), (1, 1), (2, 1), (3, 1)])
def test_tagged_fields_belong_to_level_1(level: int, value_version: int) -> None:
    table = TransactionTable(0, TransactionConfig(), ProducerIds(), lambda: level)
    assert table.value_version == value_version
