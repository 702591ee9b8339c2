"""Sequences, epochs and the duplicate window of one producer (KIP-98, KIP-360; Kafka's `ProducerStateEntry`)."""

from __future__ import annotations

import pytest
from evidence.world.partition_leader import NEW_PROTOCOL, OLD_PROTOCOL, Leader, data_batch

from oncelog.core.leader.partition import Append, Duplicate, PartitionConfig, Refuse
from oncelog.core.leader.producer_state import ProducerState, check_sequence
from oncelog.errors import ErrorCode
from oncelog.types import ProducerSnapshotEntry

LAST = 2**31 - 1
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH


def error(verdict) -> ErrorCode | None:
    return verdict.error_code if isinstance(verdict, Refuse) else None


def idempotent(leader: Leader, *arguments: int):
    return leader.produce(*arguments, transactional=False, transactional_id=None)


def test_each_of_the_last_five_batches_is_recognised_with_its_own_offsets():
    leader = Leader()
    for index in range(6):
        assert isinstance(idempotent(leader, 1, 0, index * 2, 2), Append)
    assert [idempotent(leader, 1, 0, index * 2, 2) for index in range(1, 6)] == [
        Duplicate(index * 2, index * 2 + 1, 1_000) for index in range(1, 6)
    ]
    assert error(idempotent(leader, 1, 0, 0, 2)) is OUT_OF_ORDER  # the sixth is forgotten
    assert leader.partition.log_end_offset == 12


def test_a_duplicate_tells_which_offset_its_reply_waits_for():
    leader = Leader()
    leader.produce(1, 0, 0, 3, transactional=False, transactional_id=None, sync=False)
    verdict = idempotent(leader, 1, 0, 0, 3)
    assert isinstance(verdict, Duplicate)
    assert verdict.end_offset == 3 > leader.partition.high_watermark == 0


@pytest.mark.parametrize(("first", "count"), [(0, 1), (0, 3), (1, 1)])
def test_same_first_or_last_sequence_alone_is_no_duplicate(first: int, count: int):
    leader = Leader()
    idempotent(leader, 1, 0, 0, 2)
    assert error(idempotent(leader, 1, 0, first, count)) is OUT_OF_ORDER


def test_sequences_wrap_inside_a_batch_and_between_batches():
    leader = Leader()
    idempotent(leader, 1, 0, LAST - 1, 3)  # LAST - 1, LAST, 0
    assert leader.partition.describe_producers()[0].last_sequence == 0
    assert isinstance(idempotent(leader, 1, 0, LAST - 1, 3), Duplicate)
    assert isinstance(idempotent(leader, 1, 0, 1, 1), Append)
    other = Leader()
    idempotent(other, 1, 0, LAST, 1)
    assert isinstance(idempotent(other, 1, 0, 0, 1), Append)


def test_skipping_the_largest_sequence_is_a_gap():
    leader = Leader()
    idempotent(leader, 1, 0, LAST - 1, 1)
    assert error(idempotent(leader, 1, 0, 0, 1)) is OUT_OF_ORDER


@pytest.mark.parametrize(
    ("before", "batch", "expected"),
    [
        # before: batches (epoch, sequence, count); batch: the one that is judged
        ([], (0, 0, 1), None),
        ([], (0, 77, 1), None),  # no state: idempotent producers may begin anywhere
        ([(0, 0, 2)], (0, 2, 1), None),
        ([(0, 0, 2)], (0, 3, 1), OUT_OF_ORDER),
        ([(0, 0, 2)], (0, 1, 1), OUT_OF_ORDER),
        ([(0, 0, 2)], (1, 0, 1), None),  # a new epoch starts at 0
        ([(0, 0, 2)], (1, 2, 1), OUT_OF_ORDER),
        ([(3, 0, 2)], (2, 0, 1), FENCED),
        ([(3, 0, 2)], (2, 2, 1), FENCED),  # the epoch is looked at before the sequence
        ([(0, 0, 1)], (32767, 0, 1), None),
    ],
)
def test_sequence_and_epoch_rules_of_idempotent_batches(before, batch, expected):
    leader = Leader()
    for producer_epoch, sequence, count in before:
        assert isinstance(idempotent(leader, 1, producer_epoch, sequence, count), Append)
    assert error(idempotent(leader, 1, *batch)) is expected


def test_after_a_marker_alone_the_same_and_a_newer_epoch_start_at_zero():
    for producer_epoch in (1, 2):
        leader = Leader()
        leader.marker(1, 1)
        assert error(idempotent(leader, 1, producer_epoch, 5, 1)) is OUT_OF_ORDER
        assert isinstance(idempotent(leader, 1, producer_epoch, 0, 1), Append)
    leader = Leader()
    leader.marker(1, 1)
    assert error(idempotent(leader, 1, 0, 0, 1)) is FENCED


def test_a_marker_of_the_old_protocol_keeps_the_sequence_a_bumped_one_starts_it_over():
    old = Leader()
    old.produce(1, 0, 0, 2, version=OLD_PROTOCOL)
    old.marker(1, 0, transaction_version=0)
    assert old.partition.describe_producers()[0].last_sequence == 1
    assert isinstance(old.produce(1, 0, 2, 1, version=OLD_PROTOCOL), Append)
    new = Leader()
    new.produce(1, 0, 0, 2)
    new.marker(1, 1)
    assert new.partition.describe_producers()[0].last_sequence == -1
    assert isinstance(new.produce(1, 1, 0, 1), Append)


def test_without_state_the_new_protocol_begins_at_zero_and_the_old_anywhere():
    """KIP-890: a transaction's first batch is still on its way, the client shall send this one again."""
    assert error(Leader().produce(1, 0, 5, 1, version=NEW_PROTOCOL)) is OUT_OF_ORDER
    assert isinstance(Leader().produce(1, 0, 5, 1, version=OLD_PROTOCOL), Append)


def test_new_epoch_forgets_the_old_epochs_batches():
    leader = Leader()
    idempotent(leader, 1, 0, 0, 1)
    idempotent(leader, 1, 1, 0, 1)
    assert error(idempotent(leader, 1, 0, 0, 1)) is FENCED
    assert idempotent(leader, 1, 1, 0, 1) == Duplicate(1, 1, 1_000)


def test_state_is_forgotten_after_silence_but_never_with_an_open_transaction():
    leader = Leader(PartitionConfig(producer_id_expiration_ms=100))
    leader.produce(1, 0, 0, 1, now_ms=1_000)
    leader.produce(2, 0, 0, 1, transactional=False, now_ms=1_000)
    leader.produce(3, 0, 0, 1, transactional=False, now_ms=1_050)
    assert leader.partition.expire(1_100) == 1
    assert [row.producer_id for row in leader.partition.describe_producers()] == [1, 3]
    leader.marker(1, 1, now_ms=1_200)  # KAFKA-9144: the marker counts as a sign of life
    leader.partition.expire(1_299)
    assert [row.producer_id for row in leader.partition.describe_producers()] == [1]
    assert leader.partition.expire(1_300) == 1


def test_old_record_timestamps_do_not_expire_a_producer_that_writes_now():
    leader = Leader(PartitionConfig(producer_id_expiration_ms=100))
    leader.produce(1, 0, 0, 1, transactional=False, timestamp=5, now_ms=10_000)
    assert leader.partition.expire(10_050) == 0
    assert leader.partition.describe_producers()[0].last_timestamp == 5


def test_snapshot_entry_keeps_the_last_batch_and_the_open_transaction():
    leader = Leader()
    leader.produce(7, 3, 0, 2)
    leader.produce(7, 3, 2, 4)
    [entry] = leader.partition.snapshot_entries()
    assert entry == ProducerSnapshotEntry(7, 3, 5, 5, 3, 1_000, -1, 0)
    state = ProducerState.from_snapshot(entry)
    assert state.to_snapshot() == entry
    assert state.duplicate_of(data_batch(7, 3, 2, 4)) is not None
    assert state.duplicate_of(data_batch(7, 3, 0, 2)) is None
    assert check_sequence(state, data_batch(7, 3, 6, 1), supports_implicit_add=True, lowest_sequence=None) is None


def test_snapshot_entry_of_a_producer_that_left_only_a_marker():
    leader = Leader()
    leader.marker(9, 4, coordinator_epoch=6)
    [entry] = leader.partition.snapshot_entries()
    assert entry == ProducerSnapshotEntry(9, 4, -1, -1, 0, 1_000, 6, -1)
    assert ProducerState.from_snapshot(entry).last_sequence == -1
