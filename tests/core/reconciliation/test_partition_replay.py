"""A partition replayed from runs and markers, and what lies beside it compared."""

from __future__ import annotations

from oncelog.core.reconciliation.findings import ABORTED_INDEX, DECISION_WITHOUT_MARKER, PRODUCER_STATE
from oncelog.core.reconciliation.partition_replay import EMPTIED, PLAIN, TRANSACTIONAL, Marker, PartitionReplay, Run
from oncelog.types import AbortedTransaction, ProducerSnapshotEntry

MAX = 2**63 - 1


def run(producer_id: int, first: int, *, producer_epoch: int = 0, kind: int = TRANSACTIONAL, sequence: int = 0) -> Run:
    return Run(producer_id, producer_epoch, kind, first, first, sequence, 0, first, 1)


def marker(producer_id: int, offset: int, *, producer_epoch: int = 1, commit: bool | None = True) -> Marker:
    return Marker(producer_id, producer_epoch, offset, offset, commit, 5)


def entry(producer_id: int, producer_epoch: int, sequence: int, offset: int, **more: int) -> ProducerSnapshotEntry:
    fields = {"offset_delta": 0, "timestamp": offset, "coordinator_epoch": -1, "current_txn_first_offset": -1} | more
    return ProducerSnapshotEntry(producer_id, producer_epoch, sequence, offset, **fields)


def problems(replay: PartitionReplay) -> list[tuple[str, int]]:
    return [(each.kind, each.producer_id) for each in replay.findings]


def test_a_marker_ends_what_is_open() -> None:
    replay = PartitionReplay(0)
    replay.take_run(run(7, 0))
    replay.take_run(run(7, 1, sequence=1))
    assert [(each.first_offset, each.last_offset) for each in replay.open_transactions()] == [(0, 1)]
    ended = replay.take_marker(marker(7, 2))
    assert ended is not None
    assert (ended.first_offset, ended.last_offset, ended.data_epoch, ended.marker_epoch) == (0, 1, 0, 1)
    assert replay.open_transactions() == []


def test_what_the_cleaner_emptied_opens_and_ends_nothing() -> None:
    replay = PartitionReplay(0)
    replay.take_run(run(7, 0, kind=EMPTIED))
    assert replay.open_transactions() == []
    assert replay.take_marker(marker(7, 1, commit=None)) is None


def test_a_newer_epoch_without_a_marker_between_is_a_lost_marker() -> None:
    replay = PartitionReplay(0)
    replay.take_run(run(7, 3))
    replay.take_run(run(7, 5, producer_epoch=1))
    assert problems(replay) == [(DECISION_WITHOUT_MARKER, 7)]
    assert replay.findings[0].first_offset == 3
    assert [each.first_offset for each in replay.open_transactions()] == [5]


def test_behind_damage_a_lost_marker_is_no_finding() -> None:
    replay = PartitionReplay(0)
    replay.take_run(run(7, 3))
    replay.damage(5)
    assert replay.open_transactions()[0].is_uncertain
    replay.take_run(run(7, 5, producer_epoch=1))
    assert problems(replay) == []


def test_an_index_that_fits_and_ones_that_do_not() -> None:
    for entries, fits in [
        ([AbortedTransaction(7, 0, 2, 1)], True),  # of 8 the transaction from offset 1 is open
        ([AbortedTransaction(7, 0, 2, 3)], False),
        ([AbortedTransaction(7, 1, 2, 1)], False),
        ([AbortedTransaction(8, 0, 2, 1)], False),
        ([], False),
        ([AbortedTransaction(7, 0, 2, 1), AbortedTransaction(8, 3, 4, 5)], False),
    ]:
        replay = PartitionReplay(0)
        replay.take_run(run(7, 0))
        replay.take_run(run(8, 1))
        replay.take_marker(marker(7, 2, commit=False))
        replay.compare_transaction_index(entries, "x.txnindex", MAX)
        assert (problems(replay) == []) == fits, entries
        assert {kind for kind, _ in problems(replay)} <= {ABORTED_INDEX}


def test_an_index_entry_from_before_the_start_is_believed() -> None:
    replay = PartitionReplay(100)
    replay.take_marker(marker(7, 100, commit=False))
    replay.compare_transaction_index([AbortedTransaction(7, 50, 100, 101)], "x.txnindex", MAX)
    assert problems(replay) == []


def test_an_entry_that_a_recovery_makes_may_be_missing() -> None:
    replay = PartitionReplay(0)
    replay.take_run(run(7, 0))
    replay.take_marker(marker(7, 1, commit=False))
    replay.compare_transaction_index([], "x.txnindex", 1)
    assert problems(replay) == []


def test_snapshots_that_differ() -> None:
    good = entry(7, 0, 4, 3, current_txn_first_offset=3)
    for given, fits in [
        ([good], True),
        ([entry(7, 1, 4, 3, current_txn_first_offset=3)], False),
        ([entry(7, 0, 5, 3, current_txn_first_offset=3)], False),
        ([entry(7, 0, 4, 2, current_txn_first_offset=3)], False),
        ([entry(7, 0, 4, 3)], False),
        ([], False),  # its transaction is open: it is never forgotten
        ([good, entry(9, 0, 0, 1)], False),
    ]:
        replay = PartitionReplay(0)
        replay.take_run(run(7, 3, sequence=4))
        replay.compare_snapshot(4, given, "x.snapshot")
        assert (problems(replay) == []) == fits, given
        assert {kind for kind, _ in problems(replay)} <= {PRODUCER_STATE}


def test_a_forgotten_producer_is_missed_only_where_an_older_one_is_left() -> None:
    for kept, fits in [([], True), ([entry(1, 0, 0, 0)], False), ([entry(3, 0, 0, 2)], True)]:
        replay = PartitionReplay(0)
        for number in (1, 2, 3):
            replay.take_run(run(number, number - 1, kind=PLAIN))
        replay.compare_snapshot(3, kept, "x.snapshot")
        assert (problems(replay) == []) == fits, kept


def test_what_compaction_took_is_no_difference() -> None:
    replay = PartitionReplay(0)
    replay.gap()
    replay.take_run(run(7, 5, kind=PLAIN, sequence=9))
    replay.compare_snapshot(8, [entry(7, 0, 11, 7, current_txn_first_offset=6)], "x.snapshot")
    assert problems(replay) == []


def test_state_from_before_the_start_is_adopted() -> None:
    replay = PartitionReplay(100)
    replay.compare_snapshot(100, [entry(7, 2, 3, 90, current_txn_first_offset=80)], "x.snapshot")
    assert [each.first_offset for each in replay.open_transactions()] == [80]
    ended = replay.take_marker(marker(7, 100, producer_epoch=3))
    assert ended is not None
    assert (ended.first_offset, ended.data_epoch) == (80, 2)
