"""One transaction's steps: which states may follow which, which identity acts, who is a retry."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from oncelog.core.transactions import transaction
from oncelog.core.transactions.transaction import MAY_FOLLOW, TransactionRecord
from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.types import ProducerIdAndEpoch, TopicPartition

T = TransactionRecord("pay", 10, 5, 60000, S.ONGOING, frozenset({TopicPartition("t", 0)}), 9, 7)
FINISHED = {S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT}


def test_which_state_may_follow_which() -> None:
    """Spelled out a second time, from the invariant; both must be changed together."""
    allowed = {
        *itertools.product(FINISHED, [S.EMPTY, S.ONGOING, S.PREPARE_ABORT]),
        (S.ONGOING, S.ONGOING),
        (S.ONGOING, S.PREPARE_COMMIT),
        (S.ONGOING, S.PREPARE_ABORT),
        (S.PREPARE_COMMIT, S.COMPLETE_COMMIT),
        (S.PREPARE_ABORT, S.COMPLETE_ABORT),
    }
    assert {(before, after) for after, befores in MAY_FOLLOW.items() for before in befores} == allowed


@pytest.mark.parametrize("state", [state for state in S if state <= S.COMPLETE_ABORT])
def test_the_next_pair_acts_only_while_the_transaction_is_open(state: S) -> None:
    record = replace(T, state=state, next_producer_id=73, next_producer_epoch=2)
    assert transaction.own(record) == (10, 5)
    assert transaction.following(record) == (73, 2)
    assert transaction.acting(record) == ((73, 2) if state is S.ONGOING else (10, 5))
    assert transaction.is_kept(record) is (state is S.ONGOING)
    assert not transaction.is_kept(replace(T, state=state))


@pytest.mark.parametrize(
    ("present", "last", "previous", "requester", "expected"),
    [
        ((10, 5), 4, -1, (10, 4), True),
        ((10, 5), 4, 10, (10, 5), False),
        ((10, 5), 4, 9, (9, 4), False),  # another id counts only at the last two epochs
        ((10, 5), -1, 10, (10, 4), False),
        ((10, 5), -1, -1, (10, -1), False),
        ((10, 0), -1, -1, (10, -1), False),
        ((10, 5), 3, 10, (10, 3), False),
        ((10, 0), 32766, 9, (9, 32766), True),
        ((10, 0), 32767, 9, (9, 32767), True),
        ((10, 0), 32767, 9, (9, 32766), False),
        ((10, 0), 32766, 9, (10, 32766), False),
        ((10, 1), 32766, 9, (9, 32766), False),
        ((10, 0), 32766, -1, (-1, 32766), True),  # unreachable: no request carries producer id -1 with an epoch
        ((10, 0), 5, 9, (9, 5), False),
    ],
)
def test_who_is_a_retry(
    present: tuple[int, int], last: int, previous: int, requester: tuple[int, int], expected: bool
) -> None:
    record = replace(
        T,
        state=S.COMPLETE_COMMIT,
        producer_id=present[0],
        producer_epoch=present[1],
        last_producer_epoch=last,
        previous_producer_id=previous,
    )
    assert transaction.is_retry(record, ProducerIdAndEpoch(*requester)) is expected


def test_the_steps_of_one_transaction() -> None:
    empty = transaction.emptied(T, ProducerIdAndEpoch(10, 6), timeout_ms=9, now_ms=100, value_version=1)
    assert (empty.partitions, empty.start_ms, empty.timeout_ms, empty.last_update_ms) == (frozenset(), -1, 9, 100)
    partition = TopicPartition("u", 3)
    opened = transaction.added(empty, frozenset({partition}), client_version=2, now_ms=110, value_version=1)
    assert (opened.state, opened.start_ms, opened.partitions) == (S.ONGOING, 110, {partition})
    decided = transaction.prepared(
        opened,
        commit=True,
        marker_epoch=7,
        afterwards=ProducerIdAndEpoch(10, 7),
        client_version=2,
        now_ms=120,
        value_version=1,
    )
    assert (decided.state, decided.producer_epoch, decided.next_producer_id) == (S.PREPARE_COMMIT, 7, -1)
    done = transaction.completed(decided, now_ms=130, value_version=1)
    assert (done.state, done.partitions, done.start_ms, done.last_update_ms) == (S.COMPLETE_COMMIT, set(), 110, 130)


def test_the_marker_s_epoch_never_passes_the_last_one() -> None:
    assert transaction.marker_epoch_of(T) == 6
    assert transaction.marker_epoch_of(replace(T, producer_epoch=32766)) == 32767
    assert transaction.marker_epoch_of(replace(T, producer_epoch=32767)) == 32767
