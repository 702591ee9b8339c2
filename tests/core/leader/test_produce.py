"""Identity, duplicates, fencing, verification of produced batches (KIP-98, KIP-890; docs/kafka-notes.md, "Produce")."""

from __future__ import annotations

import pytest
from evidence.world.partition_leader import NEW_PROTOCOL, OLD_PROTOCOL, Leader, data_batch, marker_batch

from oncelog.core.leader.partition import Append, AskCoordinator, Duplicate, PartitionConfig, Refuse
from oncelog.core.leader.produce import check_request
from oncelog.errors import ErrorCode
from oncelog.log.retained_records import emptied
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.record_batch import RecordBatch


def code(verdict) -> ErrorCode:
    assert isinstance(verdict, Refuse), verdict
    assert verdict.message
    return verdict.error_code


@pytest.mark.parametrize(
    ("batch", "transactional_id", "expected"),
    [
        (marker_batch(1, 0, commit=True), "t", ErrorCode.INVALID_RECORD),
        (data_batch(1, 0, 0), None, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (data_batch(-1, -1, -1), "t", ErrorCode.INVALID_RECORD),
        (data_batch(1, -1, 0, transactional=False), None, ErrorCode.INVALID_PRODUCER_EPOCH),
        (data_batch(1, -2, 0, transactional=False), None, ErrorCode.INVALID_PRODUCER_EPOCH),
        (data_batch(1, 0, -1, transactional=False), None, ErrorCode.INVALID_RECORD),
    ],
    ids=["control", "no-id", "no-producer", "epoch-1", "epoch-2", "no-sequence"],
)
def test_batches_that_are_wrong_in_themselves(batch, transactional_id, expected):
    leader = Leader()
    assert code(leader.check(batch, transactional_id=transactional_id)) is expected
    assert leader.partition.describe_producers() == []


def test_a_batch_without_producer_id_asks_for_nothing():
    assert isinstance(Leader().check(data_batch(-1, -1, -1, transactional=False), transactional_id=None), Append)
    assert isinstance(Leader().check(data_batch(-2, -1, -1, transactional=False), transactional_id=None), Append)
    # next to transactional ones a request's transactional id does not matter to it
    assert isinstance(Leader().check(data_batch(-1, -1, -1, transactional=False), transactional_id="t"), Append)


def test_every_batch_of_a_request_is_looked_at():
    """CVE-2018-17196: a plain first batch hid a transactional second one."""
    plain, first, second = data_batch(-1, -1, -1, transactional=False), data_batch(1), data_batch(2)
    refused = check_request([plain, first], None)
    assert refused is not None
    assert refused.error_code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert check_request([plain, first, first], "t") is None
    assert check_request([plain], None) is None
    for other in (second, data_batch(1, 1)):
        refused = check_request([first, other], "t")
        assert refused is not None
        assert refused.error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_a_fenced_epoch_is_refused_before_the_coordinator_is_asked():
    """KAFKA-18042."""
    leader = Leader()
    leader.marker(1, 3)
    for version in (OLD_PROTOCOL, NEW_PROTOCOL):
        assert code(leader.check(data_batch(1, 2, 0), version=version)) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_what_the_coordinator_is_asked():
    leader = Leader()
    asked = leader.check(data_batch(1, 0, 0), version=NEW_PROTOCOL)
    assert isinstance(asked, AskCoordinator)
    assert (asked.transactional_id, asked.producer_id, asked.producer_epoch, asked.add) == ("t", 1, 0, True)
    asked = leader.check(data_batch(1, 0, 0), version=OLD_PROTOCOL)
    assert isinstance(asked, AskCoordinator)
    assert not asked.add


def test_an_open_transaction_is_not_asked_for_again():
    leader = Leader()
    leader.produce(1, 0, 0)
    for version in (OLD_PROTOCOL, NEW_PROTOCOL):
        assert isinstance(leader.check(data_batch(1, 0, 1), version=version), Append)


def test_verification_can_be_switched_off_for_the_old_protocol_only():
    leader = Leader(PartitionConfig(verification_enabled=False))
    assert isinstance(leader.check(data_batch(1, 0, 3), version=OLD_PROTOCOL), Append)
    assert isinstance(leader.check(data_batch(1, 0, 0), version=NEW_PROTOCOL), AskCoordinator)


def test_a_marker_between_answer_and_append_voids_the_guard():
    """KIP-890, Race Condition: else the late batch opened a transaction that nobody ends."""
    leader = Leader()
    batch = data_batch(1, 0, 0)
    asked = leader.check(batch, version=OLD_PROTOCOL)
    assert isinstance(asked, AskCoordinator)
    leader.marker(1, 0, commit=False, transaction_version=0)
    late = data_batch(1, 0, 0, base_offset=1)
    assert code(leader.check(late, version=OLD_PROTOCOL, guard=asked.guard)) is ErrorCode.INVALID_TXN_STATE
    assert leader.partition.last_stable_offset == leader.partition.high_watermark == 1


def test_a_void_guard_does_not_join_the_next_transaction_of_the_same_epoch():
    leader = Leader()
    asked = leader.check(data_batch(1, 0, 0), version=OLD_PROTOCOL)
    assert isinstance(asked, AskCoordinator)
    leader.produce(1, 0, 0, version=OLD_PROTOCOL)
    leader.marker(1, 0, commit=False, transaction_version=0)
    leader.produce(1, 0, 1, version=OLD_PROTOCOL)  # the next transaction, verified by a guard of its own
    late = data_batch(1, 0, 2, base_offset=3)
    assert code(leader.check(late, version=OLD_PROTOCOL, guard=asked.guard)) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(leader.check(late, version=OLD_PROTOCOL), Append)


def test_a_bumped_marker_keeps_the_next_transactions_guard():
    """KAFKA-18575: the next transaction's first batch overtakes the marker of the one before."""
    leader = Leader()
    leader.produce(1, 0, 0)
    following = data_batch(1, 1, 0, base_offset=2)
    asked = leader.check(following)
    assert isinstance(asked, AskCoordinator)
    leader.marker(1, 1, commit=True)
    assert isinstance(leader.check(following, guard=asked.guard), Append)


def test_an_unbumped_marker_voids_the_guard_of_the_new_protocol_too():
    """EndTxn v4 or Apache's operator abort ends the transaction (producer id, epoch) itself."""
    leader = Leader()
    asked = leader.check(data_batch(1, 0, 0))
    assert isinstance(asked, AskCoordinator)
    leader.marker(1, 0, commit=False, transaction_version=0)
    late = data_batch(1, 0, 0, base_offset=1)
    assert code(leader.check(late, guard=asked.guard)) is ErrorCode.INVALID_TXN_STATE


def test_two_batches_that_wait_for_one_verification_share_its_guard():
    leader = Leader()
    first, second = data_batch(1, 0, 0), data_batch(1, 0, 1, base_offset=1)
    asked = leader.check(first)
    asked_again = leader.check(second)
    assert isinstance(asked, AskCoordinator)
    assert isinstance(asked_again, AskCoordinator)
    assert asked.guard is asked_again.guard
    assert code(leader.check(second, guard=asked.guard)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    leader.append(first, guard=asked.guard)
    assert isinstance(leader.check(second, guard=asked.guard), Append)


def test_a_reordered_old_protocol_batch_waits_for_the_lower_sequence_that_was_seen():
    leader = Leader()
    second = leader.check(data_batch(1, 0, 5), version=OLD_PROTOCOL)
    first = leader.check(data_batch(1, 0, 0, 5), version=OLD_PROTOCOL)
    assert isinstance(first, AskCoordinator)
    assert isinstance(second, AskCoordinator)
    verdict = leader.check(data_batch(1, 0, 5), version=OLD_PROTOCOL, guard=second.guard)
    assert code(verdict) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.check(data_batch(1, 0, 0, 5), version=OLD_PROTOCOL, guard=first.guard), Append)


def test_a_duplicate_does_not_stop_the_batches_after_it():
    """kafka-notes P1: Kafka keeps the duplicate's sequence as the lowest and refuses every following batch."""
    leader = Leader()
    leader.produce(1, 0, 0, version=OLD_PROTOCOL)
    leader.produce(1, 0, 1, version=OLD_PROTOCOL)
    leader.marker(1, 0, transaction_version=0)
    assert leader.produce(1, 0, 1, version=OLD_PROTOCOL) == Duplicate(1, 1, 1_000)
    assert isinstance(leader.produce(1, 0, 2, version=OLD_PROTOCOL), Append)
    assert isinstance(leader.produce(1, 0, 3, version=OLD_PROTOCOL), Append)


def test_a_new_transaction_at_the_same_epoch_is_not_swallowed_as_a_duplicate():
    """kafka-notes C15: Produce v12 with EndTxn v4 keeps the epoch; Kafka answers 0 with the old offset: silent loss."""
    leader = Leader()
    leader.produce(1, 0, 0)
    assert leader.produce(1, 0, 0) == Duplicate(0, 0, 1_000)  # within its own transaction it is one
    leader.marker(1, 0, transaction_version=0)
    assert code(leader.produce(1, 0, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert isinstance(leader.produce(1, 0, 1), Append)  # a client that counts on goes on
    assert code(leader.produce(1, 0, 0)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.produce(1, 0, 1) == Duplicate(2, 2, 1_000)
    assert leader.partition.log_end_offset == 3


def test_only_the_transactional_id_that_opened_the_transaction_may_write_to_it():
    """kafka-notes P6: Kafka asks for it with the first batch only."""
    leader = Leader()
    leader.produce(1, 0, 0, transactional_id="mine")
    for version in (OLD_PROTOCOL, NEW_PROTOCOL):
        verdict = leader.produce(1, 0, 1, transactional_id="another", version=version)
        assert code(verdict) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert isinstance(leader.produce(1, 0, 1, transactional_id="mine"), Append)


def test_a_question_under_a_wrong_id_or_epoch_disturbs_nobody():
    leader = Leader()
    leader.check(data_batch(1, 0, 0), transactional_id="another")
    leader.check(data_batch(1, 7, 0), transactional_id="mine")
    batch = data_batch(1, 0, 3)
    asked = leader.check(batch, transactional_id="mine", version=OLD_PROTOCOL)
    assert isinstance(asked, AskCoordinator)
    verdict = leader.check(batch, transactional_id="mine", version=OLD_PROTOCOL, guard=asked.guard)
    assert isinstance(verdict, Append)
    leader.append(batch, guard=asked.guard)
    assert leader.partition.open_transactions()[0].transactional_id == "mine"


def test_a_plain_batch_of_a_producer_with_an_open_transaction_is_refused():
    leader = Leader()
    leader.produce(1, 0, 0)
    verdict = leader.check(data_batch(1, 0, 1, transactional=False), transactional_id=None)
    assert code(verdict) is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("version", "expected"),
    [(NEW_PROTOCOL, ErrorCode.CONCURRENT_TRANSACTIONS), (OLD_PROTOCOL, ErrorCode.NOT_ENOUGH_REPLICAS)],
)
def test_two_epochs_transactions_never_become_one(version: int, expected: ErrorCode):
    """A marker lost by an unclean stop, or a hanging transaction: it has to be ended first."""
    leader = Leader()
    leader.produce(1, 0, 0)
    assert code(leader.produce(1, 1, 0, version=version)) is expected
    leader.marker(1, 1, commit=False)
    assert isinstance(leader.produce(1, 1, 0, version=version), Append)


def test_after_an_operators_abort_the_transaction_cannot_go_on_here():
    """KIP-664, kafka-notes M1: Kafka lets the producer go on; half of its transaction is then committed."""
    leader = Leader()
    leader.produce(1, 0, 0)
    leader.marker(1, 0, commit=False, coordinator_epoch=-1, start_offset=0, transaction_version=0)
    assert code(leader.produce(1, 0, 1)) is ErrorCode.INVALID_TXN_STATE
    leader.marker(1, 1, commit=False)  # the coordinator ends it everywhere
    assert isinstance(leader.produce(1, 1, 0), Append)


def test_an_operators_abort_is_of_its_epoch_alone():
    """Where the cleaner left only the header of the marker that raised the epoch, too."""
    leader = Leader()
    leader.produce(1, 0, 0)
    leader.marker(1, 0, commit=False, coordinator_epoch=-1, start_offset=0, transaction_version=0)
    leader.partition.replay(RecordBatch(emptied(marker_batch(1, 1, commit=False, base_offset=2))))
    assert isinstance(leader.check(data_batch(1, 1, 0)), AskCoordinator)


def test_offsets_of_a_transaction_are_guarded_like_its_batches():
    leader = Leader()
    producer = ProducerIdAndEpoch(1, 0)

    def check(producer: ProducerIdAndEpoch = producer, guard=None, transactional_id: str = "t"):
        return leader.partition.check_offset_commit(
            producer, transactional_id=transactional_id, supports_implicit_add=True, now_ms=0, guard=guard
        )

    asked = check()
    assert isinstance(asked, AskCoordinator)
    assert isinstance(check(guard=asked.guard), Append)
    leader.append(data_batch(1, 0, 0), guard=asked.guard)
    assert isinstance(check(), Append)
    assert code(check(transactional_id="another")) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    leader.marker(1, 1)
    assert code(check()) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert isinstance(check(ProducerIdAndEpoch(1, 1)), AskCoordinator)


@pytest.mark.parametrize(
    ("is_new", "expected"),
    [(True, ErrorCode.CONCURRENT_TRANSACTIONS), (False, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)],
)
def test_offsets_wait_for_a_missing_marker_in_the_words_of_their_request(is_new: bool, expected: ErrorCode):
    leader = Leader()
    leader.produce(1, 0, 0)
    arguments = {"transactional_id": "t", "supports_implicit_add": is_new, "now_ms": 0}
    asked = leader.partition.check_offset_commit(ProducerIdAndEpoch(1, 1), **arguments)
    assert isinstance(asked, AskCoordinator)
    verdict = leader.partition.check_offset_commit(ProducerIdAndEpoch(1, 1), guard=asked.guard, **arguments)
    assert code(verdict) is expected
