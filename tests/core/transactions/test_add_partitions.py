"""AddPartitionsToTxn and AddOffsetsToTxn: the order of Kafka's checks, verification, waiting adds."""

from __future__ import annotations

import pytest

from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.types import TopicPartition
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTransaction
from tests.core.transactions.performed_coordinator import P, Q, Shell, code

FINISHED = [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
PREPARED = [S.PREPARE_COMMIT, S.PREPARE_ABORT]


@pytest.mark.parametrize("state", FINISHED)
@pytest.mark.parametrize(("version", "client_version"), [(0, 0), (3, 0), (4, 2), (5, 2)])
def test_the_first_partition_opens_the_transaction(state: S, version: int, client_version: int) -> None:
    shell = Shell()
    shell.put(state, start_ms=3, previous_producer_id=9)
    assert code(shell.add(10, 5, version=version, now_ms=70)) == "NONE"
    assert (shell.pay.state, shell.pay.start_ms, shell.pay.partitions) == (S.ONGOING, 70, frozenset({P}))
    assert (shell.pay.client_transaction_version, shell.pay.previous_producer_id) == (client_version, -1)


def test_more_partitions_leave_the_start() -> None:
    shell = Shell()
    shell.put(S.ONGOING, start_ms=10)
    assert code(shell.add(10, 5, P, Q, now_ms=70)) == "NONE"
    assert (shell.pay.partitions, shell.pay.start_ms, shell.pay.last_update_ms) == (frozenset({P, Q}), 10, 70)


def test_what_is_in_already_is_not_written_again() -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    assert code(shell.add(10, 5, P)) == "NONE"
    assert shell.records == []


def test_a_transaction_opened_by_implicit_add_stays_one() -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    shell.add(10, 5, P, version=5)
    shell.add(10, 5, Q, version=3)
    assert shell.pay.client_transaction_version == 2


@pytest.mark.parametrize(
    ("version", "fenced"),
    [
        (0, "INVALID_PRODUCER_EPOCH"),
        (1, "INVALID_PRODUCER_EPOCH"),
        (2, "PRODUCER_FENCED"),
        (3, "PRODUCER_FENCED"),
        (4, "PRODUCER_FENCED"),
    ],
)
@pytest.mark.parametrize("state", [*FINISHED, S.ONGOING])
def test_who_may_add(state: S, version: int, fenced: str) -> None:
    shell = Shell()
    shell.put(state, last_producer_epoch=4)
    for producer_epoch in (4, 6, -1):
        assert code(shell.add(10, producer_epoch, Q, version=version)) == fenced
    for producer_id in (99, -1):
        assert code(shell.add(producer_id, 5, Q, version=version)) == "INVALID_PRODUCER_ID_MAPPING"
    assert shell.records == []


@pytest.mark.parametrize("state", PREPARED)
@pytest.mark.parametrize("version", [0, 3, 4, 5])
def test_while_an_end_is_under_way_nobody_is_fenced(state: S, version: int) -> None:
    """KAFKA-18660: the client may have the next identity already."""
    shell = Shell()
    shell.put(state)
    for identity in ((10, 5), (10, 9), (99, 0)):
        decision = shell.add(*identity, version=version)
        assert code(decision) == "CONCURRENT_TRANSACTIONS"
        assert decision.held_until_complete == "pay"
    assert shell.add_offsets(10, 5).held_until_complete == "pay"


def test_unknown_and_empty_ids() -> None:
    shell = Shell()
    for version in (0, 3, 4, 5):
        assert code(shell.add(10, 5, version=version)) == "INVALID_PRODUCER_ID_MAPPING"
    assert code(shell.add_offsets(10, 5)) == "INVALID_PRODUCER_ID_MAPPING"
    entry = AddPartitionsToTxnTransaction(transactional_id="")
    assert shell.coordinator.add_partitions(entry, 4, 1).records == ()
    request = AddPartitionsToTxnRequest(v3_and_below_transactional_id="")
    assert shell.coordinator.add_partitions_to_txn(request, 3, 1).records == ()


def test_the_code_stands_at_every_partition() -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    (topic,) = shell.add(99, 5, TopicPartition("t", 4)).reply.topic_results
    assert [(r.partition_index, r.partition_error_code) for r in topic.results_by_partition] == [(4, 49)]


def test_level_0_cannot_take_the_new_protocol() -> None:
    """The epoch has to be bumped at the end, which value version 0 cannot say."""
    shell = Shell(level=0)
    shell.put(S.EMPTY)
    assert code(shell.add(10, 5)) == "UNSUPPORTED_VERSION"
    assert code(shell.add(10, 5, version=3)) == "NONE"
    assert code(shell.add(10, 5, verify=True)) == "NONE"


def test_a_second_add_does_not_wait_for_the_sync_of_the_first() -> None:
    """It goes behind it in the log; both partitions count, whichever is asked first."""
    shell = Shell()
    shell.put(S.EMPTY)
    coordinator = shell.coordinator
    entries = [AddPartitionsToTxnTransaction(transactional_id="pay", producer_id=10, producer_epoch=5) for _ in "12"]
    for entry, partition in zip(entries, (P, Q), strict=True):
        entry.topics = [_topic(partition)]
    first = coordinator.add_partitions(entries[0], 5, 1)
    coordinator.appended(first.records)
    second = coordinator.add_partitions(entries[1], 5, 2)
    coordinator.appended(second.records)
    again = coordinator.add_partitions(entries[0], 5, 3)
    assert again.records, "what is not committed is not answered from memory"
    for record in (*first.records, *second.records):
        assert coordinator.is_busy("pay")
        coordinator.apply(record)
    assert not coordinator.is_busy("pay")
    assert shell.pay.partitions == {P, Q}


def test_behind_anything_else_an_add_waits() -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    init = shell.coordinator.table
    init.appended([shell.pay])
    assert code(shell.add(10, 5)) == "CONCURRENT_TRANSACTIONS"


# -- verify only


@pytest.mark.parametrize("version", [4, 5])
def test_verification(version: int) -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    assert code(shell.add(10, 5, P, version=version, verify=True)) == "NONE"
    assert code(shell.add(10, 5, Q, version=version, verify=True)) == "TRANSACTION_ABORTABLE"
    assert code(shell.add(10, 4, P, version=version, verify=True)) == "PRODUCER_FENCED"
    assert code(shell.add(10, 6, P, version=version, verify=True)) == "PRODUCER_FENCED"
    assert code(shell.add(99, 5, P, version=version, verify=True)) == "INVALID_PRODUCER_ID_MAPPING"
    assert shell.records == []


@pytest.mark.parametrize("state", FINISHED)
def test_without_an_open_transaction_the_producer_has_to_abort(state: S) -> None:
    shell = Shell()
    shell.put(state)
    assert code(shell.add(10, 5, verify=True)) == "TRANSACTION_ABORTABLE"


@pytest.mark.parametrize("state", PREPARED)
def test_verification_of_a_decided_transaction(state: S) -> None:
    """kafka-notes C13: the identity first; and it is never held."""
    shell = Shell()
    shell.put(state)
    decision = shell.add(10, 5, verify=True)
    assert (code(decision), decision.held_until_complete) == ("CONCURRENT_TRANSACTIONS", None)
    assert code(shell.add(10, 4, verify=True)) == "PRODUCER_FENCED"


def test_verification_ignores_what_is_pending() -> None:
    """KAFKA-14904."""
    shell = Shell()
    shell.put(S.ONGOING)
    shell.coordinator.appended([shell.pay])
    assert code(shell.add(10, 5, P, verify=True)) == "NONE"


# -- KIP-939: a kept transaction


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        ((73, 2), "INVALID_TXN_STATE"),
        ((73, 1), "PRODUCER_FENCED"),
        ((10, 5), "PRODUCER_FENCED"),
        ((99, 2), "INVALID_PRODUCER_ID_MAPPING"),
    ],
)
def test_a_kept_transaction_takes_no_partition(identity: tuple[int, int], expected: str) -> None:
    shell = Shell()
    shell.put(S.ONGOING, next_producer_id=73, next_producer_epoch=2)
    for version in (2, 3, 4, 5):
        assert code(shell.add(*identity, version=version)) == expected
    assert code(shell.add(*identity, verify=True)) == expected
    assert code(shell.add_offsets(*identity)) == expected


def test_an_add_cannot_slip_behind_a_waiting_keep_init() -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    table = shell.coordinator.table
    request = shell.coordinator
    from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

    keep = request.init_producer_id(
        InitProducerIdRequest(transactional_id="pay", transaction_timeout_ms=1, keep_prepared_txn=True), 6, 1
    )
    table.appended(keep.records)
    assert code(shell.add(10, 5, Q)) == "CONCURRENT_TRANSACTIONS"


# -- AddOffsetsToTxn


@pytest.mark.parametrize(
    ("version", "fenced"),
    [(0, "INVALID_PRODUCER_EPOCH"), (1, "INVALID_PRODUCER_EPOCH"), (2, "PRODUCER_FENCED"), (4, "PRODUCER_FENCED")],
)
def test_offsets(version: int, fenced: str) -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    assert code(shell.add_offsets(10, 4, version=version)) == fenced
    assert code(shell.add_offsets(10, 5, version=version)) == "NONE"
    assert shell.pay.partitions == {TopicPartition("__consumer_offsets", 3)}
    assert shell.pay.client_transaction_version == 0


def _topic(partition: TopicPartition):
    from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnTopic

    return AddPartitionsToTxnTopic(name=partition.topic, partitions=[partition.partition])
