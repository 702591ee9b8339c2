"""InitProducerId: the checks of Kafka's `TransactionCoordinator` in their order, KIP-360's retries, KIP-939's keep-init."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog.core.transactions.init_producer_id import new_producer_id
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.table import TransactionConfig
from oncelog.core.transactions.transaction import TransactionState as S
from oncelog.wire.log_records.transaction_state import TransactionTombstone
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from tests.core.transactions.performed_coordinator import NEW_ID, Shell, answer, code

FINISHED = [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT]


@pytest.mark.parametrize(("producer_id", "producer_epoch"), [(10, -1), (-1, 5), (-1, -2)])
def test_row_0_half_an_identity_is_invalid(producer_id: int, producer_epoch: int) -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    assert answer(shell.init(producer_id, producer_epoch)) == "INVALID_REQUEST"


def test_row_1_without_transactional_id_every_request_gets_a_new_id() -> None:
    ids = ProducerIds()
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1, producer_id=3, producer_epoch=9)
    assert code(new_producer_id(ids, request)) == "COORDINATOR_LOAD_IN_PROGRESS"
    ids.give_block(40, 2)
    assert answer(new_producer_id(ids, request)) == "NONE 40/0"
    assert answer(new_producer_id(ids, request.replace(enable_2pc=True))) == "NONE 41/0"
    assert answer(new_producer_id(ids, request.replace(producer_epoch=-1))) == "INVALID_REQUEST"


def test_row_3_two_phase_commit_has_to_be_enabled() -> None:
    shell = Shell(two_phase=False)
    assert answer(shell.init(two_phase=True)) == "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    assert answer(shell.init(keep=True)) == f"NONE {NEW_ID}/0"  # which keeping does not need


@pytest.mark.parametrize("level", [0, 1, 2])
def test_two_phase_commit_is_level_3(level: int) -> None:
    shell = Shell(level=level)
    assert answer(shell.init(two_phase=True)) == "UNSUPPORTED_VERSION"
    assert answer(shell.init(keep=True)) == "UNSUPPORTED_VERSION"


@pytest.mark.parametrize("timeout_ms", [0, -1, -2147483648, 900_001, 2147483647])
def test_row_5_a_refused_timeout_changes_nothing(timeout_ms: int) -> None:
    shell = Shell()
    assert answer(shell.init(timeout_ms=timeout_ms)) == "INVALID_TRANSACTION_TIMEOUT"
    assert shell.coordinator.get("pay") is None
    assert answer(shell.init(timeout_ms=timeout_ms, two_phase=True)) == f"NONE {NEW_ID}/0"
    assert shell.pay.timeout_ms == 2147483647


def test_row_7_a_new_id_starts_at_epoch_0_whatever_is_supplied() -> None:
    assert answer(Shell().init(77, 5)) == f"NONE {NEW_ID}/0"
    shell = Shell()
    shell.coordinator.table.producer_ids = ProducerIds()
    assert answer(shell.init()) == "COORDINATOR_LOAD_IN_PROGRESS"


@pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
def test_rows_8_and_10_a_transition_under_way_comes_before_fencing(state: S) -> None:
    shell = Shell()
    shell.put(state)
    for identity in ((-1, -1), (10, 5), (10, 4), (99, 5)):
        decision = shell.init(*identity)
        assert answer(decision) == "CONCURRENT_TRANSACTIONS"
        assert decision.held_until_complete == "pay"


@pytest.mark.parametrize(
    ("version", "fenced"), [(3, "INVALID_PRODUCER_EPOCH"), (4, "PRODUCER_FENCED"), (5, "PRODUCER_FENCED")]
)
@pytest.mark.parametrize("state", FINISHED)
def test_rows_9_and_15_who_is_fenced(state: S, version: int, fenced: str) -> None:
    shell = Shell()
    shell.put(state, last_producer_epoch=4)
    for identity in ((99, 5), (10, 3), (10, 6), (10, -2), (-2, -2)):
        assert answer(shell.init(*identity, version=version)) == fenced
    assert shell.records == []


@pytest.mark.parametrize("state", FINISHED)
def test_rows_12_to_14(state: S) -> None:
    for identity, expected, last in (((-1, -1), "NONE 10/6", -1), ((10, 5), "NONE 10/6", 5), ((10, 4), "NONE 10/5", 4)):
        shell = Shell()
        shell.put(state, last_producer_epoch=4, start_ms=3)
        assert answer(shell.init(*identity, timeout_ms=7000, now_ms=9)) == expected
        assert (shell.pay.state, shell.pay.last_producer_epoch, shell.pay.start_ms) == (S.EMPTY, last, -1)
        assert (shell.pay.timeout_ms, shell.pay.last_update_ms) == (7000, 9)


@pytest.mark.parametrize("state", FINISHED)
def test_rows_11_and_16_exhausted_epochs(state: S) -> None:
    for identity, expected in (
        ((-1, -1), f"NONE {NEW_ID}/0"),
        ((10, 32766), f"NONE {NEW_ID}/0"),
        ((10, 32765), "NONE 10/32766"),  # Apache Kafka: UNKNOWN_SERVER_ERROR
        ((10, 32764), "PRODUCER_FENCED"),  # Apache Kafka: UNKNOWN_SERVER_ERROR
    ):
        shell = Shell()
        shell.put(state, producer_epoch=32766, last_producer_epoch=32765)
        assert answer(shell.init(*identity)) == expected


def test_a_retry_over_a_new_producer_id_is_recognised_until_a_newer_instance_comes() -> None:
    shell = Shell()
    shell.put(S.EMPTY, producer_epoch=32766)
    for _ in range(3):
        assert answer(shell.init(10, 32766)) == f"NONE {NEW_ID}/0"
    assert answer(shell.restarted().init(10, 32766)) == f"NONE {NEW_ID}/0"
    assert answer(shell.init(10, 32765)) == "PRODUCER_FENCED"
    assert answer(shell.init(NEW_ID, 32766)) == "PRODUCER_FENCED"
    assert answer(shell.init()) == f"NONE {NEW_ID}/1"
    assert answer(shell.init(10, 32766)) == "PRODUCER_FENCED"


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_retry_over_a_restart(level: int) -> None:
    """KIP-360 wants the last epoch persisted; Apache Kafka does not (KAFKA-20357)."""
    shell = Shell(level=level)
    shell.init()
    assert answer(shell.init(NEW_ID, 0)) == f"NONE {NEW_ID}/1"
    again = shell.restarted()
    assert answer(again.init(NEW_ID, 0)) == f"NONE {NEW_ID}/1"
    assert answer(again.init(NEW_ID, 1)) == f"NONE {NEW_ID}/2"
    assert answer(again.init(NEW_ID, 0)) == "PRODUCER_FENCED"


def test_level_0_has_no_room_for_the_last_epoch() -> None:
    """As Apache Kafka: in memory only."""
    shell = Shell(level=0)
    shell.init()
    shell.init(NEW_ID, 0)
    assert answer(shell.init(NEW_ID, 0)) == f"NONE {NEW_ID}/1"
    assert answer(shell.restarted().init(NEW_ID, 0)) == "PRODUCER_FENCED"


@pytest.mark.parametrize(
    ("level", "retry"), [(3, "NONE 10/6"), (2, "NONE 10/6"), (1, "PRODUCER_FENCED"), (0, "PRODUCER_FENCED")]
)
def test_row_17_over_the_own_transaction(level: int, retry: str) -> None:
    """kafka-notes C1: one bump; below level 2 the retry is fenced."""
    shell = Shell(level=level)
    shell.put(S.ONGOING)
    decision = shell.init(10, 5)
    assert (answer(decision), decision.held_until_complete) == ("CONCURRENT_TRANSACTIONS", None)
    (markers,) = decision.markers
    assert (markers.producer_epoch, markers.commit, markers.transaction_version) == (6, False, 2 if level >= 2 else 0)
    shell.write_markers()
    assert answer(shell.init(10, 5)) == retry


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_row_17_a_newer_instance_leaves_no_window(level: int) -> None:
    """kafka-notes C2: in Apache Kafka the old instance may resume between the newer one's two requests."""
    shell = Shell(level=level)
    shell.put(S.ONGOING)
    assert answer(shell.init()) == "CONCURRENT_TRANSACTIONS"
    shell.write_markers()
    assert answer(shell.init(10, 5)) == "PRODUCER_FENCED"
    assert code(shell.end(10, 5, commit=False)) == "PRODUCER_FENCED"
    assert code(shell.end(10, 5, commit=True)) == "PRODUCER_FENCED"
    assert code(shell.add(10, 5)) == "PRODUCER_FENCED"
    assert answer(shell.init()) == "NONE 10/7"


@pytest.mark.parametrize("identity", [(10, 6), (10, 4), (10, 3), (99, 5)])
def test_another_epoch_cannot_abort_an_open_transaction(identity: tuple[int, int]) -> None:
    """kafka-notes C4: Apache Kafka looks only at the producer id, so a zombie aborts the transaction of its successor."""
    shell = Shell()
    shell.put(S.ONGOING, last_producer_epoch=4)
    assert answer(shell.init(*identity)) == "PRODUCER_FENCED"
    assert shell.pay.state is S.ONGOING


@pytest.mark.parametrize("level", [1, 2, 3])
def test_a_fence_at_the_last_epoch_rotates(level: int) -> None:
    shell = Shell(level=level)
    shell.put(S.ONGOING, producer_epoch=32766)
    (markers,) = shell.init().markers
    assert (markers.producer_id, markers.producer_epoch) == (10, 32767)
    shell.write_markers()
    assert code(shell.end(10, 32766, commit=False)) == "PRODUCER_FENCED"
    assert code(shell.end(10, 32766, commit=False, version=4)) == "INVALID_PRODUCER_ID_MAPPING"
    assert answer(shell.init()) == f"NONE {NEW_ID}/1"


def test_a_rotation_by_a_newer_instance_fences_the_one_before() -> None:
    shell = Shell()
    shell.put(S.COMPLETE_COMMIT, producer_epoch=32766)
    shell.init()
    assert code(shell.end(10, 32766, commit=False)) == "PRODUCER_FENCED"
    assert answer(shell.init(10, 32766)) == "PRODUCER_FENCED"


def test_a_fence_at_the_last_epoch_of_level_0_rotates_at_the_next_init() -> None:
    """Value version 0 cannot remember a next producer id."""
    shell = Shell(level=0)
    shell.put(S.ONGOING, producer_epoch=32766)
    (markers,) = shell.init().markers
    assert markers.producer_epoch == 32767
    shell.write_markers()
    assert shell.pay.producer_epoch == 32767
    assert answer(shell.init()) == f"NONE {NEW_ID}/0"


def test_an_expiring_id_is_busy() -> None:
    shell = Shell()
    shell.put(S.EMPTY)
    shell.coordinator.appended([TransactionTombstone("pay")])
    assert answer(shell.init()) == "CONCURRENT_TRANSACTIONS"


# -- KIP-939


def kept(shell: Shell) -> tuple[int, int]:
    return shell.pay.next_producer_id, shell.pay.next_producer_epoch


def test_keeping_moves_only_the_next_pair() -> None:
    """However often, the ongoing identity stays."""
    shell = Shell()
    shell.put(S.ONGOING, timeout_ms=2147483647)
    before = shell.pay
    for count in range(1, 6):
        reply = shell.init(keep=True, two_phase=True).reply
        assert (reply.error_code, reply.producer_id, reply.producer_epoch) == (0, 10, 5 + count)
        assert (reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch) == (10, 5)
    unchanged = replace(shell.pay, next_producer_id=-1, next_producer_epoch=-1, last_update_ms=before.last_update_ms)
    assert unchanged == before


@pytest.mark.parametrize(
    ("own_epoch", "pair", "expected"),
    [
        (32765, None, (10, 32766)),
        (32766, None, (NEW_ID, 0)),  # its own markers need 32767
        (5, (10, 32766), (10, 32767)),
        (5, (73, 32766), (73, 32767)),
        (5, (73, 32767), (NEW_ID, 0)),
    ],
)
def test_the_next_pair_s_overflow(own_epoch: int, pair: tuple[int, int] | None, expected: tuple[int, int]) -> None:
    shell = Shell()
    next_id, next_epoch = pair or (-1, -1)
    shell.put(S.ONGOING, producer_epoch=own_epoch, next_producer_id=next_id, next_producer_epoch=next_epoch)
    assert answer(shell.init(keep=True)) == "NONE {}/{}".format(*expected)
    assert kept(shell) == expected


@pytest.mark.parametrize(
    ("pair", "afterwards"),
    [((10, 8), (10, 9)), ((73, 32765), (73, 32766)), ((73, 32766), (NEW_ID, 0)), ((73, 32767), (NEW_ID, 0))],
)
@pytest.mark.parametrize("commit", [True, False])
def test_the_next_pair_ends_the_transaction(pair: tuple[int, int], afterwards: tuple[int, int], commit: bool) -> None:
    """Markers with the transaction's own id and epoch + 1; the retry is recognised at 32766 and at 32767."""
    shell = Shell()
    shell.put(S.ONGOING, next_producer_id=pair[0], next_producer_epoch=pair[1])
    assert code(shell.end(10, 5, commit=commit)) == "PRODUCER_FENCED"
    decision = shell.end(*pair, commit=commit)
    assert answer(decision) == "NONE {}/{}".format(*afterwards)
    (markers,) = decision.markers
    assert (markers.producer_id, markers.producer_epoch) == (10, 6)
    shell.write_markers()
    for again in (shell, shell.restarted()):
        assert answer(again.end(*pair, commit=commit)) == "NONE {}/{}".format(*afterwards)
        assert code(again.end(*pair, commit=not commit)) == "INVALID_TXN_STATE"
    shell.init(*pair)
    assert (shell.pay.producer_id, shell.pay.producer_epoch) == afterwards


@pytest.mark.parametrize("asked_by", ["newer", "owner", "timeout"])
def test_a_forced_abort_goes_on_from_the_next_pair(asked_by: str) -> None:
    shell = Shell()
    shell.put(S.ONGOING, next_producer_id=73, next_producer_epoch=4)
    if asked_by == "timeout":
        for decision in shell.coordinator.timed_out(70_000):
            shell.perform(decision)
    else:
        shell.init(*((73, 4) if asked_by == "owner" else (-1, -1)))
    (markers,) = shell.markers
    assert (markers.producer_id, markers.producer_epoch, markers.commit) == (10, 6, False)
    shell.write_markers()
    assert (shell.pay.producer_id, shell.pay.producer_epoch) == (73, 5)
    owner_goes_on = answer(shell.end(73, 4, commit=False))
    assert owner_goes_on == ("PRODUCER_FENCED" if asked_by == "newer" else "NONE 73/5")


def test_only_the_present_pair_may_keep_or_abort() -> None:
    shell = Shell()
    shell.put(S.ONGOING, next_producer_id=10, next_producer_epoch=8)
    for identity in ((10, 5), (10, 7), (10, 9), (99, 8)):
        assert answer(shell.init(*identity, keep=True)) == "PRODUCER_FENCED"
        assert answer(shell.init(*identity)) == "PRODUCER_FENCED"
    assert answer(shell.init(10, 8, keep=True)) == "NONE 10/9"
    assert answer(shell.init(10, 8, keep=True)) == "NONE 10/9"  # its retry
    assert answer(shell.restarted().init(10, 8, keep=True)) == "NONE 10/9"


def test_a_keep_init_never_shortens_the_timeout() -> None:
    for before, requested, two_phase, after in (
        (60000, 1000, False, 60000),
        (60000, 90000, False, 90000),
        (60000, 1000, True, 2147483647),
        (2147483647, 1000, False, 2147483647),
    ):
        shell = Shell()
        shell.put(S.ONGOING, timeout_ms=before)
        shell.init(keep=True, timeout_ms=requested, two_phase=two_phase)
        assert shell.pay.timeout_ms == after


@pytest.mark.parametrize("state", FINISHED)
def test_keeping_nothing_is_a_plain_init(state: S) -> None:
    shell = Shell()
    shell.put(state)
    reply = shell.init(keep=True).reply
    assert (reply.producer_id, reply.producer_epoch) == (10, 6)
    assert (reply.ongoing_txn_producer_id, reply.ongoing_txn_producer_epoch) == (-1, -1)


def test_the_config_bounds_the_timeout() -> None:
    shell = Shell()
    shell.coordinator.table.config = TransactionConfig(transaction_max_timeout_ms=100)
    assert code(shell.init(timeout_ms=101)) == "INVALID_TRANSACTION_TIMEOUT"
    assert code(shell.init(timeout_ms=100)) == "NONE"
