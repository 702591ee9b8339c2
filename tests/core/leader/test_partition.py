"""Offsets of a partition: high watermark, last stable offset, transaction index, snapshots, DescribeProducers."""

from __future__ import annotations

import pytest
from evidence.world.partition_leader import (
    OLD_PROTOCOL,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Leader,
    data_batch,
    marker_batch,
)

from oncelog.core.leader.partition import (
    ActiveProducer,
    Append,
    Duplicate,
    OpenTransaction,
    Partition,
    PartitionConfig,
    Readable,
    Refuse,
)
from oncelog.errors import ErrorCode
from oncelog.types import AbortedTransaction, ProducerIdAndEpoch
from oncelog.wire.record_batch import RecordBatch, build_batch


def test_nothing_is_readable_before_it_is_synced():
    leader = Leader()
    leader.plain(3, sync=False)
    partition = leader.partition
    assert (partition.high_watermark, partition.last_stable_offset, partition.log_end_offset) == (0, 0, 3)
    assert partition.synced(2)
    assert partition.readable_to(READ_UNCOMMITTED) == partition.readable_to(READ_COMMITTED) == 2
    assert not partition.synced(1)  # never back
    assert partition.high_watermark == 2


def test_last_stable_offset_waits_until_the_marker_is_synced():
    leader = Leader()
    leader.plain()
    leader.produce(1, 0, 0)
    leader.marker(1, 1, sync=False)
    assert leader.partition.last_stable_offset == 1
    leader.sync()
    assert leader.partition.last_stable_offset == leader.partition.high_watermark == 3


def test_last_stable_offset_is_the_oldest_open_transactions_first_offset():
    leader = Leader()
    for producer_id in (1, 2, 3):
        leader.produce(producer_id, 0, 0)
    leader.marker(2, 1)
    assert leader.partition.last_stable_offset == 0
    leader.marker(1, 1)
    assert leader.partition.last_stable_offset == 2
    assert leader.partition.readable_to(READ_UNCOMMITTED) == 5


def test_index_entry_ignores_the_high_watermark():
    leader = Leader()
    leader.produce(1, 0, 0, sync=False)
    leader.produce(2, 0, 0, sync=False)
    leader.marker(1, 1, commit=False, sync=False)
    leader.marker(2, 1, commit=False, sync=False)
    assert leader.aborted == [AbortedTransaction(1, 0, 2, 1), AbortedTransaction(2, 1, 3, 4)]
    assert leader.partition.last_stable_offset == 0


def test_deleting_records_of_an_open_transaction_moves_the_last_stable_offset_along():
    """kafka-notes F1: Kafka then names an offset below the log start."""
    leader = Leader()
    leader.plain()
    leader.produce(1, 0, 0, 3)
    leader.partition.delete_records_to(2)
    assert leader.partition.log_start_offset == leader.partition.last_stable_offset == 2
    leader.partition.delete_records_to(4)
    leader.produce(1, 0, 3)
    assert leader.partition.last_stable_offset == 4 < leader.partition.high_watermark == 5
    leader.marker(1, 1, commit=False)
    assert leader.aborted == [AbortedTransaction(1, 1, 5, 6)]
    assert leader.partition.last_stable_offset == 6


def test_producers_outlive_their_records():
    """KIP-360, KAFKA-7190: a duplicate of a deleted batch still answers its old offset."""
    leader = Leader()
    leader.produce(1, 0, 0, transactional=False)
    leader.partition.delete_records_to(1)
    assert leader.produce(1, 0, 0, transactional=False) == Duplicate(0, 0, 1_000)
    assert isinstance(leader.produce(1, 0, 1, transactional=False), Append)


@pytest.mark.parametrize("isolation_level", [READ_COMMITTED, READ_UNCOMMITTED])
def test_fetch_offsets(isolation_level):
    leader = Leader()
    leader.plain(2)
    leader.produce(1, 0, 0)
    leader.plain(1, sync=False)
    partition = leader.partition
    partition.delete_records_to(1)
    end_offset = 2 if isolation_level is READ_COMMITTED else 3
    for offset in (1, 2, 3, 4):  # between the bound and the log end there is just nothing yet
        assert partition.check_fetch(offset, isolation_level) == Readable(end_offset, 3, 2, 1)
    for offset in (-1, 0, 5):
        refused = partition.check_fetch(offset, isolation_level)
        assert isinstance(refused, Refuse)
        assert refused.error_code is ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    ("current_leader_epoch", "expected"),
    [(-1, None), (4, None), (3, ErrorCode.FENCED_LEADER_EPOCH), (5, ErrorCode.UNKNOWN_LEADER_EPOCH)],
)
def test_leader_epoch_of_a_fetch(current_leader_epoch, expected):
    partition = Partition(leader_epoch=4)
    verdict = partition.check_fetch(0, READ_COMMITTED, current_leader_epoch=current_leader_epoch)
    assert (verdict.error_code if isinstance(verdict, Refuse) else None) is expected


def test_who_says_no_leader_epoch_is_not_fenced():
    assert isinstance(Partition(leader_epoch=4).check_fetch(0, READ_COMMITTED), Readable)


def test_describe_producers_names_everyone_remembered():
    leader = Leader()
    leader.plain()
    leader.produce(1, 0, 0, 2, timestamp=5)
    leader.produce(2, 3, 0, transactional=False, timestamp=6)
    leader.marker(3, 1, coordinator_epoch=8, now_ms=7)
    assert leader.partition.describe_producers() == [
        ActiveProducer(1, 0, 1, 5, -1, 1),
        ActiveProducer(2, 3, 0, 6, -1, -1),
        ActiveProducer(3, 1, -1, 7, 8, -1),
    ]


def test_late_transactions_are_those_open_beyond_every_timeout():
    leader = Leader(PartitionConfig(transaction_timeout_ms_max=1_000))
    leader.produce(1, 0, 0, now_ms=50, timestamp=3)
    leader.produce(2, 0, 0, now_ms=51)
    assert leader.partition.late_transactions(50 + 301_000) == []
    assert leader.partition.late_transactions(51 + 301_000) == [OpenTransaction(1, 0, 0, 50, "t")]
    leader.produce(1, 0, 1, now_ms=400_000)  # still writing: its duration counts, not its last batch
    assert len(leader.partition.late_transactions(400_000)) == 2


def test_open_transactions_are_listed_oldest_first():
    leader = Leader()
    leader.produce(9, 0, 0)
    leader.produce(1, 0, 0, transactional_id="u")
    assert [(each.producer_id, each.transactional_id) for each in leader.partition.open_transactions()] == [
        (9, "t"),
        (1, "u"),
    ]


def recovered(leader: Leader, *, from_batch: int = 0, through: Partition | None = None) -> tuple[Partition, list]:
    """A second life: a snapshot taken before that batch, then the batches behind it."""
    first = Partition()
    for batch in leader.batches[:from_batch]:
        first.replay(batch)
    partition = Partition() if through is None else through
    partition.load_snapshot(first.snapshot_entries())
    entries = [entry for batch in leader.batches[from_batch:] if (entry := partition.replay(batch)) is not None]
    partition.recovered(log_start_offset=0, log_end_offset=leader.partition.log_end_offset)
    return partition, entries


def busy_leader() -> Leader:
    leader = Leader()
    leader.plain(2)
    leader.produce(1, 0, 0, 2)
    leader.produce(2, 5, 0)
    leader.produce(1, 0, 2)
    leader.marker(1, 1, commit=False, coordinator_epoch=2)
    leader.produce(3, 0, 0, version=OLD_PROTOCOL)
    leader.marker(3, 0, commit=True, transaction_version=0)
    leader.produce(1, 1, 0)
    leader.marker(2, 6, commit=False)
    return leader


@pytest.mark.parametrize("from_batch", range(9))
def test_recovery_from_any_snapshot_gives_the_live_state(from_batch):
    leader = busy_leader()
    partition, entries = recovered(leader, from_batch=from_batch)
    assert partition.describe_producers() == leader.partition.describe_producers()
    assert sorted(partition.snapshot_entries(), key=str) == sorted(leader.partition.snapshot_entries(), key=str)
    assert partition.last_stable_offset == leader.partition.last_stable_offset == 9
    assert partition.high_watermark == partition.log_end_offset == leader.partition.log_end_offset
    assert entries == [entry for entry in leader.aborted if entry.last_offset >= leader.batches[from_batch].base_offset]


def test_recovery_can_start_over():
    leader = busy_leader()
    partition, _ = recovered(leader, from_batch=8)
    again, entries = recovered(leader, through=partition)
    assert again.describe_producers() == leader.partition.describe_producers()
    assert entries == leader.aborted


def test_recovery_over_gaps_and_batches_that_the_cleaner_emptied():
    partition = Partition()
    header_only = bytearray(build_batch([(5, b"k", b"v", ())], producer_id=1, producer_epoch=2, base_sequence=9))
    header_only[22] |= 0x10  # transactional
    header_only[57:61] = bytes(4)  # no records are left
    del header_only[61:]
    header_only[8:12] = (49).to_bytes(4, "big")
    header_only[0:8] = (40).to_bytes(8, "big")
    assert partition.replay(RecordBatch(header_only)) is None
    assert partition.open_transactions() == []
    assert partition.describe_producers() == [ActiveProducer(1, 2, 9, 5, -1, -1)]
    marker = bytearray(header_only)
    marker[22] |= 0x20  # control
    marker[0:8] = (50).to_bytes(8, "big")
    marker[51:53] = (3).to_bytes(2, "big")
    assert partition.replay(RecordBatch(marker)) is None
    assert partition.describe_producers()[0].producer_epoch == 3
    partition.recovered(log_start_offset=40, log_end_offset=60)
    assert partition.last_stable_offset == 60


def test_a_log_with_contradictions_is_replayed_without_lowering_anything():
    """Foreign logs (two markers, a lower epoch, an older coordinator): recovery reads what is there."""
    partition = Partition()
    log = [
        marker_batch(1, 5, commit=False, coordinator_epoch=7, base_offset=0),
        marker_batch(1, 5, commit=True, coordinator_epoch=3, base_offset=1),
        data_batch(1, 4, 0, base_offset=2),
        marker_batch(1, 4, commit=False, coordinator_epoch=-1, base_offset=3),
    ]
    entries = [partition.replay(batch) for batch in log]
    assert entries == [None, None, None, AbortedTransaction(1, 2, 3, 4)]
    assert partition.describe_producers() == [ActiveProducer(1, 5, -1, 1_000, 7, -1)]


def test_late_is_beyond_kafkas_largest_timeout_where_nothing_else_is_said():
    leader = Leader()
    leader.produce(1, 0, 0, now_ms=50)
    assert leader.partition.late_transactions(50 + 900_000 + 300_000) == []
    assert len(leader.partition.late_transactions(51 + 900_000 + 300_000)) == 1


@pytest.mark.parametrize("where", ["live", "recovered"])
def test_a_conditional_commit_finds_exactly_the_open_transactions_last_batch(where):
    leader = Leader()
    leader.produce(1, 4, 0, count=3)
    leader.produce(1, 4, 3, count=2)
    leader.produce(2, 0, 0, transactional=False)
    partition = leader.partition
    if where == "recovered":
        partition = Partition()
        partition.load_snapshot(leader.partition.snapshot_entries())
    producer = ProducerIdAndEpoch(1, 4)
    assert [n for n in range(-2, 8) if partition.has_needed(producer, n)] == [4]
    for other in (ProducerIdAndEpoch(1, 3), ProducerIdAndEpoch(1, 5), ProducerIdAndEpoch(3, 4)):
        assert not partition.has_needed(other, 4)
    assert not partition.has_needed(ProducerIdAndEpoch(2, 0), 0), "no transaction is open"
    leader.marker(1, 5, commit=True)
    assert not leader.partition.has_needed(producer, 4), "it is ended"
    assert not leader.partition.has_needed(ProducerIdAndEpoch(1, 5), -1)
