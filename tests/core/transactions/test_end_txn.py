"""EndTxn: both protocols (KIP-98, KIP-890), state by state, and what differs from Apache Kafka."""

from __future__ import annotations

import pytest

from oncelog.core.transactions.transaction import TransactionRecord
from oncelog.core.transactions.transaction import TransactionState as S
from tests.core.transactions.performed_coordinator import NEW_ID, P, Shell, answer, code

ALL = [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]


@pytest.mark.parametrize(
    ("state", "commit", "abort"),
    [
        (S.ONGOING, "NONE", "NONE"),
        (S.PREPARE_COMMIT, "CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS"),
        (S.PREPARE_ABORT, "CONCURRENT_TRANSACTIONS", "CONCURRENT_TRANSACTIONS"),
        (S.COMPLETE_COMMIT, "NONE", "INVALID_TXN_STATE"),
        (S.COMPLETE_ABORT, "INVALID_TXN_STATE", "NONE"),
        (S.EMPTY, "INVALID_TXN_STATE", "INVALID_TXN_STATE"),
    ],
)
@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_old_protocol(state: S, commit: str, abort: str, version: int) -> None:
    for wanted, expected in ((True, commit), (False, abort)):
        shell = Shell()
        shell.put(state)
        assert answer(shell.end(10, 5, commit=wanted, version=version)) == expected
        assert shell.pay.producer_epoch == 5
        assert len(shell.records) == (state is S.ONGOING)


@pytest.mark.parametrize("state", ALL)
@pytest.mark.parametrize(
    ("version", "fenced"), [(0, "INVALID_PRODUCER_EPOCH"), (1, "INVALID_PRODUCER_EPOCH"), (2, "PRODUCER_FENCED")]
)
def test_old_protocol_looks_at_the_identity_first(state: S, version: int, fenced: str) -> None:
    shell = Shell()
    shell.put(state, last_producer_epoch=4)
    for producer_epoch in (4, 6, 0):
        assert code(shell.end(10, producer_epoch, commit=True, version=version)) == fenced
    assert code(shell.end(11, 5, commit=True, version=version)) == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.parametrize(("commit", "version", "expected"), [(True, 5, False), (False, 5, None), (True, 4, None)])
def test_only_a_commit_by_the_new_protocol_says_whether_it_had_a_condition(
    commit: bool, version: int, expected: bool | None
) -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    shell.end(10, 5, commit=commit, version=version)
    record = shell.records[0]
    assert isinstance(record, TransactionRecord)
    assert record.committed_on_condition is expected


BUMP = "NONE 10/6"
NOW = "NONE 10/5"


@pytest.mark.parametrize(
    ("state", "commit_equal", "commit_retry", "abort_equal", "abort_retry"),
    [
        (S.ONGOING, BUMP, "PRODUCER_FENCED", BUMP, "PRODUCER_FENCED"),
        (S.EMPTY, "INVALID_TXN_STATE", "PRODUCER_FENCED", BUMP, "PRODUCER_FENCED"),
        # Pending for the whole Prepare phase: Apache Kafka too answers this whatever epoch and result (kafka-notes C12).
        (S.PREPARE_COMMIT, *["CONCURRENT_TRANSACTIONS"] * 4),
        (S.PREPARE_ABORT, *["CONCURRENT_TRANSACTIONS"] * 4),
        (S.COMPLETE_COMMIT, "INVALID_TXN_STATE", NOW, BUMP, "INVALID_TXN_STATE"),
        (S.COMPLETE_ABORT, "INVALID_TXN_STATE", "INVALID_TXN_STATE", BUMP, NOW),
    ],
)
@pytest.mark.parametrize("level", [1, 2, 3])
def test_new_protocol(
    state: S, commit_equal: str, commit_retry: str, abort_equal: str, abort_retry: str, level: int
) -> None:
    rows = [(True, 5, commit_equal), (True, 4, commit_retry), (False, 5, abort_equal), (False, 4, abort_retry)]
    for commit, producer_epoch, expected in rows:
        shell = Shell(level=level)
        shell.put(state, last_producer_epoch=4, previous_producer_id=10, client_transaction_version=2)
        assert answer(shell.end(10, producer_epoch, commit=commit)) == expected


@pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
def test_new_protocol_refuses_every_other_identity(state: S) -> None:
    shell = Shell()
    shell.put(state, last_producer_epoch=4, client_transaction_version=2)
    for commit in (True, False):
        for producer_epoch in (3, 6, 32766, 32767, -1):
            assert code(shell.end(10, producer_epoch, commit=commit)) == "PRODUCER_FENCED"
        assert code(shell.end(11, 5, commit=commit)) == "INVALID_PRODUCER_ID_MAPPING"
    assert shell.records == []


def test_an_unknown_id_is_no_mapping_and_an_empty_one_invalid() -> None:
    for version in (0, 4, 5):
        assert answer(Shell().end(10, 5, commit=True, version=version)) == "INVALID_PRODUCER_ID_MAPPING"


def test_the_markers_carry_the_next_epoch() -> None:
    """KIP-890: a delayed Produce of the transaction is fenced by its own marker."""
    shell = Shell()
    shell.put(S.ONGOING)
    (markers,) = shell.end(10, 5, commit=True).markers
    assert (markers.producer_id, markers.producer_epoch, markers.commit) == (10, 6, True)
    assert (markers.coordinator_epoch, markers.transaction_version, markers.partitions) == (1, 2, frozenset({P}))


def test_an_old_client_s_markers_carry_its_epoch() -> None:
    shell = Shell()
    shell.put(S.ONGOING)
    (markers,) = shell.end(10, 5, commit=False, version=4).markers
    assert (markers.producer_epoch, markers.transaction_version, markers.commit) == (5, 0, False)


@pytest.mark.parametrize("commit", [True, False])
def test_a_retry_over_the_overflow(commit: bool) -> None:
    """KIP-890: the id that asked is remembered; also after a restart, not after the next transition."""
    shell = Shell()
    shell.put(S.ONGOING, producer_epoch=32766)
    assert answer(shell.end(10, 32766, commit=commit)) == f"NONE {NEW_ID}/0"
    assert shell.pay.producer_epoch == 32767
    assert code(shell.end(10, 32766, commit=commit)) == "CONCURRENT_TRANSACTIONS"
    shell.write_markers()
    for again in (shell, shell.restarted()):
        assert answer(again.end(10, 32766, commit=commit)) == f"NONE {NEW_ID}/0"
        assert code(again.end(10, 32766, commit=not commit)) == "INVALID_TXN_STATE"
        assert code(again.end(10, 32765, commit=commit)) == "INVALID_PRODUCER_ID_MAPPING"
        again.add(NEW_ID, 0)
        assert code(again.end(10, 32766, commit=commit)) == "INVALID_PRODUCER_ID_MAPPING"


@pytest.mark.parametrize("commit", [True, False])
def test_a_retry_after_a_restart_in_the_middle(commit: bool) -> None:
    """The new coordinator finishes what the old one decided, and knows the retry."""
    shell = Shell()
    shell.init()
    shell.add(NEW_ID, 0)
    assert answer(shell.end(NEW_ID, 0, commit=commit)) == f"NONE {NEW_ID}/1"
    again = shell.restarted()
    assert code(again.end(NEW_ID, 0, commit=commit)) == "CONCURRENT_TRANSACTIONS"
    again.write_markers()
    assert answer(again.end(NEW_ID, 0, commit=commit)) == f"NONE {NEW_ID}/1"
    assert code(again.end(NEW_ID, 0, commit=not commit)) == "INVALID_TXN_STATE"


def test_level_0_refuses_the_new_protocol_and_keeps_nothing() -> None:
    """Apache Kafka leaves a pending state behind that refuses everything for this id (kafka-notes C22)."""
    shell = Shell(level=0)
    shell.put(S.ONGOING)
    assert code(shell.end(10, 5, commit=True)) == "UNSUPPORTED_VERSION"
    assert not shell.coordinator.is_busy("pay")
    assert code(shell.end(10, 5, commit=True, version=4)) == "NONE"


@pytest.mark.parametrize("commit", [True, False])
def test_an_implicitly_opened_transaction_never_leaves_its_epoch_to_the_next_one(commit: bool) -> None:
    """kafka-notes C15: in Apache Kafka the next batch, at sequence 0 again, is taken for a duplicate."""
    shell = Shell()
    shell.put(S.EMPTY)
    shell.add(10, 5)
    (markers,) = shell.end(10, 5, commit=commit, version=4).markers
    assert (markers.producer_epoch, markers.transaction_version) == (5, 0)
    shell.write_markers()
    for again in (shell, shell.restarted()):
        assert again.pay.producer_epoch == 5
        assert code(again.end(10, 5, commit=commit, version=4)) == "NONE"
        assert code(again.end(10, 4, commit=commit)) == "PRODUCER_FENCED"
        assert code(again.add(10, 5)) == "TRANSACTION_ABORTABLE"
        assert answer(again.end(10, 5, commit=False)) == "NONE 10/6"
        assert code(again.add(10, 6)) == "NONE"
    assert answer(shell.restarted().init()) == "CONCURRENT_TRANSACTIONS"


def test_a_bump_makes_a_used_epoch_harmless() -> None:
    shell = Shell()
    shell.put(S.COMPLETE_COMMIT, client_transaction_version=1, last_producer_epoch=4)
    assert answer(shell.init(10, 4)) == "NONE 10/5"  # a retry: no bump
    assert code(shell.add(10, 5)) == "TRANSACTION_ABORTABLE"
    assert answer(shell.init(10, 5)) == "NONE 10/6"
    assert code(shell.add(10, 6)) == "NONE"


def test_an_old_end_is_no_retry_of_a_new_one() -> None:
    shell = Shell()
    shell.put(S.ONGOING, client_transaction_version=2)
    shell.end(10, 5, commit=True)
    shell.write_markers()
    assert code(shell.end(10, 5, commit=True, version=4)) == "PRODUCER_FENCED"
    assert code(shell.end(10, 6, commit=True, version=4)) == "NONE"


def test_a_transaction_without_partitions_is_complete_at_once() -> None:
    shell = Shell()
    shell.put(S.ONGOING, partitions=frozenset())
    decision = shell.end(10, 5, commit=True)
    assert [record.state for record in shell.records] == [S.PREPARE_COMMIT, S.COMPLETE_COMMIT]  # type: ignore[union-attr]
    assert (decision.markers, answer(decision)) == ((), "NONE 10/6")


def test_an_empty_abort_has_a_start() -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    shell.end(10, 5, commit=False, now_ms=77)
    assert (shell.pay.state, shell.pay.start_ms, shell.pay.last_update_ms) == (S.COMPLETE_ABORT, 77, 77)


def test_a_clock_that_went_back_leaves_no_update_before_the_start() -> None:
    """kafkajs #302."""
    shell = Shell()
    shell.put(S.ONGOING, start_ms=5000)
    shell.end(10, 5, commit=True, now_ms=3000)
    assert shell.pay.last_update_ms == 5000
    shell.write_markers(now_ms=2000)
    assert (shell.pay.start_ms, shell.pay.last_update_ms) == (5000, 5000)
