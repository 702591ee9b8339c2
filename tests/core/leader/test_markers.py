"""Which markers a partition takes: KIP-98, KIP-890, KIP-664, and docs/kafka-notes.md, "Markers"."""

from __future__ import annotations

import pytest
from evidence.world.partition_leader import Leader

from oncelog.core.leader.partition import Append, Refuse
from oncelog.errors import ErrorCode

FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
COORDINATOR_FENCED = ErrorCode.TRANSACTION_COORDINATOR_FENCED
INVALID_STATE = ErrorCode.INVALID_TXN_STATE


def error(verdict) -> ErrorCode | None:
    assert isinstance(verdict, Append | Refuse)
    return verdict.error_code if isinstance(verdict, Refuse) else None


def leader_at(producer_epoch: int, *, is_open: bool) -> Leader:
    """Producer 1 at that epoch, with an open transaction from offset 0 or with nothing open and offset 0 plain."""
    leader = Leader()
    leader.produce(1, producer_epoch, 0, transactional=is_open)
    return leader


@pytest.mark.parametrize(
    ("current", "is_open", "marker", "transaction_version", "expected"),
    [
        (5, True, 6, 2, None),
        (5, True, 5, 2, FENCED),  # KAFKA-19446: late marker of the transaction before
        (5, True, 4, 2, FENCED),
        (5, False, 5, 2, None),  # KAFKA-19999: the retry of a marker that was written
        (5, False, 4, 2, FENCED),
        (5, False, 7, 2, None),
        (32767, True, 32767, 2, None),  # KAFKA-20090
        (5, True, 6, 3, None),  # transaction version 3 is marked as 2
        (5, True, 5, 3, FENCED),
        (5, True, 5, 0, None),
        (5, True, 6, 0, None),
        (5, True, 4, 0, FENCED),
        (5, True, 5, 1, None),
        (5, False, 4, 1, FENCED),
    ],
)
def test_producer_epoch_of_a_marker(current, is_open, marker, transaction_version, expected):
    leader = leader_at(current, is_open=is_open)
    end_offset = leader.partition.log_end_offset
    assert error(leader.marker(1, marker, transaction_version=transaction_version)) is expected
    assert leader.partition.log_end_offset == end_offset + (expected is None)


@pytest.mark.parametrize("transaction_version", [0, 1, 2])
def test_an_unknown_producer_takes_every_marker_and_remembers_its_epoch(transaction_version):
    leader = Leader()
    assert error(leader.marker(1, 7, transaction_version=transaction_version, coordinator_epoch=3)) is None
    [row] = leader.partition.describe_producers()
    assert (row.producer_epoch, row.last_sequence, row.coordinator_epoch) == (7, -1, 3)
    assert error(leader.produce(1, 6, 0)) is FENCED


@pytest.mark.parametrize(("coordinator_epoch", "expected"), [(2, COORDINATOR_FENCED), (3, None), (4, None)])
def test_an_older_coordinator_is_fenced(coordinator_epoch, expected):
    leader = Leader()
    leader.marker(1, 1, coordinator_epoch=3)
    assert error(leader.marker(1, 2, coordinator_epoch=coordinator_epoch)) is expected
    assert leader.partition.describe_producers()[0].coordinator_epoch == max(3, coordinator_epoch)


@pytest.mark.parametrize(
    ("producer_id", "producer_epoch", "transaction_version", "expected"),
    [
        (-1, 0, 2, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (1, -1, 2, FENCED),
        (1, 0, -1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_markers_that_name_nothing_are_refused_by_name(producer_id, producer_epoch, transaction_version, expected):
    """kafka-notes M3: Kafka answers UNKNOWN_SERVER_ERROR."""
    leader = Leader()
    assert error(leader.marker(producer_id, producer_epoch, transaction_version=transaction_version)) is expected
    assert leader.partition.log_end_offset == 0


@pytest.mark.parametrize("committed", [True, False])
def test_a_retried_marker_with_the_other_result_is_refused(committed):
    """kafka-notes M4: Kafka writes the contradiction down."""
    leader = leader_at(0, is_open=True)
    leader.marker(1, 1, commit=committed)
    assert error(leader.marker(1, 1, commit=not committed)) is INVALID_STATE
    assert error(leader.marker(1, 1, commit=committed)) is None
    assert leader.partition.log_end_offset == 3


def test_the_old_protocol_may_commit_after_an_abort_at_the_same_epoch():
    leader = leader_at(0, is_open=True)
    assert error(leader.marker(1, 0, commit=False, transaction_version=0)) is None
    assert error(leader.marker(1, 0, commit=True, transaction_version=0)) is None


def test_a_marker_without_open_transaction_touches_neither_index_nor_last_stable_offset():
    leader = Leader()
    leader.produce(2, 0, 0)
    leader.marker(1, 1, commit=False)
    assert leader.aborted == []
    assert leader.partition.last_stable_offset == 0


def operator_abort(leader: Leader, producer_epoch: int, start_offset: int, *, commit: bool = False):
    return leader.marker(
        1, producer_epoch, commit=commit, coordinator_epoch=-1, transaction_version=0, start_offset=start_offset
    )


@pytest.mark.parametrize(
    ("producer_epoch", "start_offset", "commit", "expected"),
    [
        (4, 0, False, None),
        (4, 1, False, INVALID_STATE),  # the transaction begins elsewhere
        (4, -1, False, INVALID_STATE),
        (3, 0, False, FENCED),  # the epoch must match exactly
        (5, 0, False, FENCED),
        (4, 0, True, ErrorCode.INVALID_REQUEST),  # an operator cannot commit
    ],
)
def test_operator_abort_names_an_open_transaction_and_its_exact_epoch(producer_epoch, start_offset, commit, expected):
    leader = leader_at(4, is_open=True)
    assert error(operator_abort(leader, producer_epoch, start_offset, commit=commit)) is expected
    assert leader.partition.last_stable_offset == (2 if expected is None else 0)


def test_operator_abort_of_nothing_open_is_refused():
    assert error(operator_abort(leader_at(4, is_open=False), 4, 0)) is INVALID_STATE
    assert error(operator_abort(Leader(), 4, 0)) is INVALID_STATE


def test_operator_abort_fences_no_coordinator():
    leader = Leader()
    leader.marker(1, 0, coordinator_epoch=9, transaction_version=0)
    leader.produce(1, 0, 0)
    assert error(operator_abort(leader, 0, 1)) is None
    assert leader.partition.describe_producers()[0].coordinator_epoch == 9
    assert error(leader.marker(1, 1, coordinator_epoch=9)) is None
    assert error(leader.marker(1, 2, coordinator_epoch=-1)) is COORDINATOR_FENCED  # without a start offset


def test_apaches_tool_without_start_offset_works_as_in_kafka():
    """kafka-notes M2: coordinator epoch -1 is accepted where none is stored, and stays -1."""
    leader = leader_at(0, is_open=True)
    assert error(leader.marker(1, 0, commit=False, transaction_version=0, coordinator_epoch=-1)) is None
    assert leader.partition.describe_producers()[0].coordinator_epoch == -1
