"""The producer's transaction machine: calls in every state, priorities, bumps, TV1/TV2/TV3, two-phase commit."""

import pytest

from oncelog.core.producer.batch import ProducerBatch
from oncelog.core.producer.states import MAY_FOLLOW, TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.core.producer.verdicts import TxnApi
from oncelog.errors import (
    ClusterAuthorization,
    ErrorCode,
    IllegalState,
    InvalidProducerEpoch,
    InvalidTxnState,
    NotEnoughReplicas,
    OutOfOrderSequence,
    ProducerFenced,
    RecordTooLarge,
    TransactionAbortable,
    UnsupportedVersion,
)
from oncelog.types import GroupMetadata, OffsetAndMetadata, PreparedTxnState, ProducerIdAndEpoch
from tests.core.producer.transaction_driver import GROUP_OFFSETS, A, B, Driver

S, E = TransactionState, ErrorCode
GROUP = GroupMetadata("g", 4, "m")
OFFSETS = {GROUP_OFFSETS: OffsetAndMetadata(11)}


def batch(where=A):
    made = ProducerBatch(where, 0)
    made.record_count = 1
    return made


def sent_batch(manager: TransactionManager, where=A):
    made = batch(where)
    assert manager.may_send(made)
    manager.sequences.assign(made)
    return made


# -- states (the table itself: test_client_rules.py)


def test_the_table_names_every_state():
    assert set(MAY_FOLLOW) == set(S)


CALLS = {
    "initialize": (lambda m: m.initialize(), {S.UNINITIALIZED}),
    "begin_transaction": (lambda m: m.begin_transaction(), {S.READY}),
    "send": (lambda m: m.check_in_transaction("send"), {S.IN_TRANSACTION}),
    "send_offsets": (lambda m: m.send_offsets(OFFSETS, GROUP), {S.IN_TRANSACTION}),
    "suspend": (lambda m: m.suspend(), {S.IN_TRANSACTION}),
    "begin_commit": (lambda m: m.begin_commit(), {S.IN_TRANSACTION, S.PREPARED_TRANSACTION}),
    "begin_abort": (lambda m: m.begin_abort(), {S.IN_TRANSACTION, S.PREPARED_TRANSACTION, S.ABORTABLE_ERROR}),
}


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("call", CALLS)
def test_calls_fit_the_state_or_change_nothing(call, state):
    manager = Driver().in_state(state).manager
    work, allowed = CALLS[call]
    if state in allowed:
        work(manager)
        return
    with pytest.raises((IllegalState, ProducerFenced, TransactionAbortable)):
        work(manager)
    assert manager.state is state


# -- TV2


def test_tv2_needs_no_request_before_produce():
    driver = Driver().begun()
    manager = driver.manager
    assert (manager.is_tv2, manager.may_send(batch()), manager.produce_version_max) == (True, True, 32767)
    assert driver.request() is None


def test_tv2_end_brings_the_next_epoch_and_sequences_from_zero():
    driver = Driver().begun()
    manager = driver.manager
    manager.sequences.resolved(sent_batch(manager))
    result = manager.begin_commit()
    request = driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert (request.message.committed, request.message.producer_epoch, request.version_max) == (True, 0, 32767)
    assert (driver.take(result).error, manager.state) == (None, S.READY)
    assert manager.identity == ProducerIdAndEpoch(7, 1)
    manager.begin_transaction()
    manager.add_partition(A)
    assert sent_batch(manager).sequence == 0


def test_tv2_follows_a_rotated_producer_id():
    driver = Driver().begun()
    driver.manager.begin_commit()
    driver.ask(TxnApi.END_TXN, producer_id=99, producer_epoch=0)
    assert driver.manager.identity == ProducerIdAndEpoch(99, 0)


def test_a_broker_without_the_new_end_txn_changes_no_identity():
    driver = Driver().begun()
    driver.manager.begin_commit()
    driver.ask(TxnApi.END_TXN)  # version 4: no producer id in the answer
    assert driver.manager.identity == ProducerIdAndEpoch(7, 0)


def test_tv2_offsets_go_straight_to_the_group():
    driver = Driver().begun(with_partition=False)
    result = driver.manager.send_offsets(OFFSETS, GROUP)
    request = driver.ask(TxnApi.TXN_OFFSET_COMMIT)
    assert (request.coordinator.key_type, request.coordinator.key, request.version_max) == (0, "g", 5)
    assert (request.message.generation_id, request.message.member_id) == (4, "m")
    assert result.error is None
    driver.manager.begin_commit()
    driver.expect(TxnApi.END_TXN)


# -- TV1


@pytest.mark.parametrize("level", [0, 1])
def test_tv1_adds_partitions_before_produce(level):
    driver = Driver(level=level).ready()
    manager = driver.manager
    manager.begin_transaction()
    manager.add_partition(A)
    assert (manager.may_send(batch()), manager.produce_version_max) == (False, 11)
    request = driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN)
    manager.add_partition(B)  # waits for the next request
    manager.add_partition(A)
    driver.answer(request)
    assert request.version_max == 3
    assert (manager.may_send(batch(A)), manager.may_send(batch(B))) == (True, False)
    assert driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN).partitions == (B,)
    assert driver.request() is None


def test_tv1_adds_offsets_before_it_commits_them():
    driver = Driver(level=1).begun(with_partition=False)
    result = driver.manager.send_offsets(OFFSETS, GROUP)
    driver.ask(TxnApi.ADD_OFFSETS_TO_TXN)
    assert not result.is_done
    assert driver.ask(TxnApi.TXN_OFFSET_COMMIT).version_max == 4
    assert result.is_done


def test_tv1_keeps_its_epoch_and_goes_on_with_its_sequences():
    driver = Driver(level=1).begun()
    manager = driver.manager
    manager.sequences.resolved(sent_batch(manager))
    manager.begin_commit()
    assert driver.ask(TxnApi.END_TXN).version_max == 4
    manager.result_taken(manager._pending_call)
    manager.begin_transaction()
    manager.add_partition(A)
    driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN)
    assert (sent_batch(manager).sequence, manager.identity) == (1, ProducerIdAndEpoch(7, 0))


def test_tv1_bumps_after_a_batch_that_may_be_stored():
    driver = Driver(level=1).begun()
    manager = driver.manager
    failed = sent_batch(manager)
    manager.batch_failed(failed, NotEnoughReplicas())
    assert isinstance(manager.last_error, TransactionAbortable)
    result = manager.begin_abort()
    driver.ask(TxnApi.END_TXN)
    assert not result.is_done
    request = driver.ask(TxnApi.INIT_PRODUCER_ID, producer_epoch=1)
    assert (request.message.producer_id, request.message.producer_epoch, request.version_min) == (7, 0, 3)
    assert (driver.take(result).error, manager.state) == (None, S.READY)
    assert manager.identity == ProducerIdAndEpoch(7, 1)


def test_tv1_bumps_after_dropping_a_batch_that_was_sent():
    driver = Driver(level=1).begun()
    dropped = sent_batch(driver.manager)
    driver.manager.begin_abort()
    driver.manager.batch_dropped(dropped)
    driver.ask(TxnApi.END_TXN)
    driver.ask(TxnApi.INIT_PRODUCER_ID, producer_epoch=1)
    assert driver.manager.state is S.READY


def test_tv1_bumps_where_nobody_knows_whether_a_partition_was_added():
    """A lost AddPartitionsToTxn may have opened a transaction: InitProducerId ends it, or bumps an empty one."""
    driver = Driver(level=1).ready()
    manager = driver.manager
    manager.begin_transaction()
    manager.add_partition(A)
    manager.disconnected(driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN), driver.now_ms)
    result = manager.begin_abort()
    driver.now_ms += 5000
    driver.ask(TxnApi.INIT_PRODUCER_ID, producer_epoch=1)
    assert driver.take(result).error is None
    assert "END_TXN" not in driver.asked


def test_tv1_bumps_after_an_end_that_may_still_arrive():
    """KAFKA-17754: a delayed EndTxn would decide the next transaction."""
    driver = Driver(level=1).begun()
    result = driver.manager.begin_commit()
    driver.manager.disconnected(driver.expect(TxnApi.END_TXN), driver.now_ms)
    driver.now_ms += 100
    driver.ask(TxnApi.END_TXN)
    assert not result.is_done
    driver.ask(TxnApi.INIT_PRODUCER_ID, producer_epoch=1)
    assert (driver.take(result).error, driver.manager.identity.producer_epoch) == (None, 1)


def test_tv2_needs_no_bump_after_an_end_that_may_still_arrive():
    driver = Driver().begun()
    driver.manager.begin_commit()
    driver.manager.disconnected(driver.expect(TxnApi.END_TXN), driver.now_ms)
    driver.now_ms += 100
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert (driver.manager.state, driver.request()) == (S.READY, None)


def test_upgrade_between_transactions_fences_the_old_epoch():
    """KAFKA-18227."""
    driver = Driver(level=1).begun()
    manager = driver.manager
    manager.note_features(2, 2)
    assert not manager.is_tv2
    result = manager.begin_commit()
    assert driver.ask(TxnApi.END_TXN).version_max == 4
    driver.ask(TxnApi.INIT_PRODUCER_ID, producer_epoch=1)
    assert (driver.take(result).error, manager.is_tv2) == (None, True)


def test_downgrade_takes_effect_with_the_next_transaction():
    driver = Driver().begun()
    manager = driver.manager
    manager.note_features(2, 1)
    manager.begin_commit()
    assert manager.is_tv2
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert not manager.is_tv2


def test_older_feature_reports_are_ignored():
    manager = Driver(level=2).manager
    manager.note_features(0, 0)
    manager.note_features(1, 0)
    driver = Driver(level=2)
    driver.manager.note_features(1, 0)
    assert driver.ready().manager.is_tv2


# -- priorities and waiting


def test_coordinator_then_partitions_then_offsets_then_end():
    driver = Driver(level=1).ready()
    manager = driver.manager
    manager.begin_transaction()
    manager.send_offsets(OFFSETS, GROUP)
    manager.add_partition(A)
    manager.begin_commit()
    for api in (TxnApi.ADD_PARTITIONS_TO_TXN, TxnApi.ADD_OFFSETS_TO_TXN, TxnApi.TXN_OFFSET_COMMIT, TxnApi.END_TXN):
        driver.ask(api)
    assert driver.asked == [
        "FIND_COORDINATOR",
        "INIT_PRODUCER_ID",
        "ADD_PARTITIONS_TO_TXN",
        "ADD_OFFSETS_TO_TXN",
        "FIND_COORDINATOR",
        "TXN_OFFSET_COMMIT",
        "END_TXN",
    ]


def test_one_request_at_a_time():
    driver = Driver()
    driver.manager.initialize()
    request = driver.request()
    assert driver.request() is None
    driver.answer(request)
    assert driver.request() is not None


def test_end_waits_for_all_batches():
    driver = Driver().begun()
    driver.has_incomplete = True
    driver.manager.begin_commit()
    assert driver.request() is None
    driver.has_incomplete = False
    driver.expect(TxnApi.END_TXN)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("end", ["begin_commit", "begin_abort"])
def test_nothing_added_nothing_sent(level, end):
    """KAFKA-18401."""
    driver = Driver(level=level).begun(with_partition=False)
    result = getattr(driver.manager, end)()
    assert driver.request() is None
    assert (driver.take(result).error, driver.manager.state) == (None, S.READY)


def test_a_lost_answer_finds_the_coordinator_again():
    driver = Driver().begun()
    driver.manager.begin_commit()
    driver.manager.disconnected(driver.expect(TxnApi.END_TXN), driver.now_ms)
    assert driver.request() is None
    assert driver.manager.next_timer() == driver.now_ms + 100
    driver.now_ms += 100
    driver.ask(TxnApi.FIND_COORDINATOR)
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert driver.manager.state is S.READY


def test_backoff_grows_and_is_bounded():
    driver = Driver()
    driver.manager.initialize()
    waits = []
    for _ in range(6):
        driver.ask(TxnApi.INIT_PRODUCER_ID, E.COORDINATOR_LOAD_IN_PROGRESS)
        waits.append(driver.manager.next_timer() - driver.now_ms)
        driver.now_ms = driver.manager.next_timer()
    assert waits == [100, 200, 400, 800, 1000, 1000]


def test_concurrent_transactions_retries_sooner_before_the_first_partition():
    """KAFKA-5477."""
    driver = Driver(level=1).ready()
    driver.manager.begin_transaction()
    driver.manager.add_partition(A)
    driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN, E.CONCURRENT_TRANSACTIONS)
    assert driver.manager.next_timer() == driver.now_ms + 20
    driver.now_ms += 20
    driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN)
    driver.manager.add_partition(B)
    driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN, E.CONCURRENT_TRANSACTIONS)
    assert driver.manager.next_timer() == driver.now_ms + 100


def test_a_call_that_timed_out_must_be_repeated():
    driver = Driver().begun()
    manager = driver.manager
    result = manager.begin_commit()
    for other in (manager.begin_abort, manager.begin_transaction, lambda: manager.check_in_transaction("send")):
        with pytest.raises(IllegalState, match="commit_transaction timed out or was cancelled before"):
            other()
    assert manager.begin_commit() is result
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert manager.begin_commit() is result
    manager.result_taken(result)
    manager.begin_transaction()


def test_abort_may_follow_offsets_that_got_no_answer():
    driver = Driver().begun()
    result = driver.manager.send_offsets(OFFSETS, GROUP)
    driver.ask(TxnApi.TXN_OFFSET_COMMIT, E.COORDINATOR_LOAD_IN_PROGRESS)
    driver.manager.begin_abort()
    assert result.is_done
    assert driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1).is_abort


# -- batches that fail


def test_a_failed_batch_must_be_aborted():
    driver = Driver().begun()
    manager = driver.manager
    manager.batch_failed(sent_batch(manager), RecordTooLarge("big"))
    assert manager.drops_waiting_batches
    with pytest.raises(RecordTooLarge):
        manager.begin_commit()
    result = manager.begin_abort()
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert (driver.take(result).error, manager.state, manager.last_error) == (None, S.READY, None)


@pytest.mark.parametrize(
    ("code", "state"),
    [
        (E.INVALID_PRODUCER_EPOCH, S.ABORTABLE_ERROR),
        (E.INVALID_TXN_STATE, S.ABORTABLE_ERROR),
        (E.OUT_OF_ORDER_SEQUENCE_NUMBER, S.ABORTABLE_ERROR),
        (E.UNKNOWN_SERVER_ERROR, S.ABORTABLE_ERROR),
        (E.CLUSTER_AUTHORIZATION_FAILED, S.FATAL_ERROR),
        (E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, S.FATAL_ERROR),
        (E.PRODUCER_FENCED, S.FATAL_ERROR),
        (E.UNSUPPORTED_VERSION, S.FATAL_ERROR),
        (E.INVALID_PRODUCER_ID_MAPPING, S.FATAL_ERROR),
    ],
)
def test_errors_of_batches_in_a_transaction(code, state):
    from oncelog.errors import error_for

    manager = Driver().begun().manager
    manager.batch_failed(sent_batch(manager), error_for(code))
    assert manager.state is state
    if code == E.INVALID_TXN_STATE:
        assert isinstance(manager.last_error, TransactionAbortable)


def test_an_error_while_aborting_says_nothing_new():
    driver = Driver().begun()
    failing = sent_batch(driver.manager)
    driver.manager.begin_abort()
    driver.manager.batch_failed(failing, RecordTooLarge())
    assert driver.manager.state is S.ABORTING_TRANSACTION


def test_an_error_while_committing_fails_the_commit():
    driver = Driver().begun()
    failing = sent_batch(driver.manager)
    driver.has_incomplete = True
    result = driver.manager.begin_commit()
    driver.manager.batch_failed(failing, InvalidProducerEpoch())
    assert isinstance(driver.take(result).error, InvalidProducerEpoch)
    driver.has_incomplete = False
    driver.manager.begin_abort()
    assert driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1).is_abort


def test_fatal_is_for_ever():
    driver = Driver().begun()
    result = driver.manager.begin_commit()
    driver.manager.fatal_error(ProducerFenced("first"))
    driver.manager.fatal_error(ClusterAuthorization("second"))
    assert isinstance(driver.take(result).error, ProducerFenced)
    assert driver.request() is None
    for call in (driver.manager.begin_abort, driver.manager.begin_commit):
        with pytest.raises(ProducerFenced, match="first"):
            call()


# -- idempotent only


def idempotent():
    driver = Driver(transactional_id=None)
    driver.manager.ensure_producer_id()
    driver.manager.ensure_producer_id()
    request = driver.ask(TxnApi.INIT_PRODUCER_ID)
    assert (request.coordinator, request.message.transactional_id) == (None, None)
    assert request.message.transaction_timeout_ms == 2**31 - 1
    assert driver.request() is None
    return driver


def test_an_idempotent_producer_bumps_by_itself_and_renumbers_nothing():
    manager = idempotent().manager
    manager.sequences.resolved(sent_batch(manager), is_acknowledged=True)
    first, second = sent_batch(manager), sent_batch(manager)
    other = sent_batch(manager, B)
    manager.batch_failed(first, OutOfOrderSequence())
    assert manager.identity == ProducerIdAndEpoch(7, 1)
    assert (second.identity, second.sequence) == (ProducerIdAndEpoch(7, 0), 2)
    assert not manager.may_send(batch(A))
    manager.batch_failed(second, OutOfOrderSequence())  # of the old identity: no second bump
    assert manager.identity == ProducerIdAndEpoch(7, 1)
    fresh = sent_batch(manager)
    assert (fresh.identity, fresh.sequence) == (ProducerIdAndEpoch(7, 1), 0)
    assert not manager.may_send(batch(B))
    manager.sequences.resolved(other)
    assert sent_batch(manager, B).identity == ProducerIdAndEpoch(7, 1)


def test_a_batch_that_was_never_numbered_needs_no_bump():
    manager = idempotent().manager
    manager.batch_failed(batch(), NotEnoughReplicas())
    assert (manager.identity, manager.state) == (ProducerIdAndEpoch(7, 0), S.READY)


def test_exhausted_epochs_take_a_new_producer_id():
    driver = idempotent()
    manager = driver.manager
    manager.sequences.begin_identity(ProducerIdAndEpoch(7, 32766))
    manager.batch_failed(sent_batch(manager), OutOfOrderSequence())
    assert (manager.identity, manager.state) == (ProducerIdAndEpoch(), S.UNINITIALIZED)
    assert not manager.may_send(batch())
    manager.ensure_producer_id()
    driver.ask(TxnApi.INIT_PRODUCER_ID, producer_id=8)
    assert sent_batch(manager).identity == ProducerIdAndEpoch(8, 0)


def test_an_idempotent_producer_without_the_right_is_over():
    driver = Driver(transactional_id=None)
    driver.manager.ensure_producer_id()
    driver.ask(TxnApi.INIT_PRODUCER_ID, E.CLUSTER_AUTHORIZATION_FAILED)
    assert driver.manager.state is S.FATAL_ERROR


# -- two-phase commit (KIP-939)


def two_phase(**more):
    return Driver(level=3, two_phase_commit_enable=True, **more)


def keep(driver, **answer):
    result = driver.manager.initialize(keep_prepared_txn=True)
    request = driver.ask(TxnApi.INIT_PRODUCER_ID, **answer)
    assert request.version_min == 6
    driver.take(result)
    return request


def test_two_phase_is_asked_for_in_every_init():
    driver = two_phase()
    request = keep(driver)
    assert (request.message.enable_2pc, request.message.keep_prepared_txn) == (True, True)
    assert driver.manager.state is S.READY


def test_prepare_gives_the_identity_and_stops_everything_else():
    manager = two_phase().begun().manager
    assert str(manager.prepare()) == "7:0"
    assert manager.state is S.PREPARED_TRANSACTION
    for call in (lambda: manager.check_in_transaction("send"), manager.begin_transaction, manager.prepare):
        with pytest.raises(IllegalState):
            call()


def test_prepare_needs_two_phase_commit():
    with pytest.raises(InvalidTxnState):
        Driver().begun().manager.prepare()


@pytest.mark.parametrize(("state", "commits"), [("7:0", True), ("7:1", False), ("8:0", False), ("", False)])
def test_complete_commits_only_what_was_prepared(state, commits):
    driver = two_phase().begun()
    driver.manager.prepare()
    driver.manager.begin_complete(PreparedTxnState(state))
    assert driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1).message.committed is commits
    assert driver.manager.state is S.READY


def test_a_kept_transaction_is_ended_although_this_life_sent_nothing():
    """The gap in Apache Kafka's client: it completes locally without EndTxn."""
    driver = two_phase()
    keep(driver, producer_id=9, producer_epoch=4, ongoing_txn_producer_id=7, ongoing_txn_producer_epoch=3)
    assert driver.manager.state is S.PREPARED_TRANSACTION
    driver.manager.begin_complete(PreparedTxnState("7:3"))
    message = driver.ask(TxnApi.END_TXN, producer_id=9, producer_epoch=5).message
    assert (message.producer_id, message.producer_epoch, message.committed) == (9, 4, True)


def test_complete_where_nothing_was_kept_does_nothing():
    driver = two_phase()
    keep(driver)
    assert driver.take(driver.manager.begin_complete(PreparedTxnState("7:3"))).error is None
    assert driver.request() is None
    driver.manager.begin_transaction()
    with pytest.raises(InvalidTxnState):
        driver.manager.begin_complete(PreparedTxnState("7:3"))


def test_complete_without_a_prepared_transaction_is_refused():
    with pytest.raises(InvalidTxnState):
        two_phase().ready().manager.begin_complete(PreparedTxnState("7:0"))


def test_an_empty_prepared_transaction_uses_up_its_identity():
    """Else the next transaction would bear the state that a database holds as decided."""
    driver = two_phase().begun(with_partition=False)
    state = driver.manager.prepare()
    result = driver.manager.begin_complete(state)
    assert driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1).is_abort
    assert driver.take(result).error is None
    assert driver.manager.identity == ProducerIdAndEpoch(7, 1)


def test_suspend_names_the_open_transaction_and_needs_tv2():
    assert str(Driver().begun().manager.suspend()) == "7:0"
    assert Driver().begun(with_partition=False).manager.suspend().is_none
    with pytest.raises(UnsupportedVersion):
        Driver(level=1).begun().manager.suspend()


def test_the_first_cause_stays():
    manager = Driver().begun().manager
    manager.batch_failed(sent_batch(manager), NotEnoughReplicas("the cause"))
    manager.batch_failed(batch(), OutOfOrderSequence("what followed"))
    with pytest.raises(TransactionAbortable, match="the cause"):
        manager.raise_error()
