"""Answers of the coordinator beyond the error table, whose cells are in test_client_rules.py."""

from oncelog.core.producer.responses import on_unsupported_version
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.verdicts import TxnApi
from oncelog.errors import ErrorCode, ProducerFenced, UnsupportedVersion
from tests.core.producer.transaction_driver import A, B, Driver, asked

E, S = ErrorCode, TransactionState
INIT, OFFSETS, COMMITTED = "InitPid", "AddOffsets", "EndTxn commit"


def test_initialisation_can_be_tried_again_after_it_was_refused():
    """KAFKA-13668."""
    driver, request, result = asked(INIT)
    driver.answer(request, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    driver.take(result)
    driver.ready()
    assert driver.manager.state is S.READY


def test_an_abortable_initialisation_can_be_aborted_and_tried_again():
    driver, request, result = asked(INIT)
    driver.answer(request, E.TRANSACTION_ABORTABLE)
    driver.take(result)
    driver.take(driver.manager.begin_abort())
    assert driver.manager.state is S.UNINITIALIZED
    driver.ready()


def test_all_partitions_are_looked_at_before_one_is_believed():
    driver = Driver(level=1).begun(with_partition=False)
    driver.manager.add_partition(A)
    driver.manager.add_partition(B)
    request = driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN)
    driver.answer(request, codes={A: E.OPERATION_NOT_ATTEMPTED, B: E.TOPIC_AUTHORIZATION_FAILED})
    assert driver.manager.last_error.code == E.TOPIC_AUTHORIZATION_FAILED
    assert "t-1: 29" in str(driver.manager.last_error)


def test_a_fatal_error_of_one_partition_outweighs_a_retriable_one():
    driver = Driver(level=1).begun(with_partition=False)
    driver.manager.add_partition(A)
    driver.manager.add_partition(B)
    request = driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN)
    driver.answer(request, codes={A: E.UNKNOWN_TOPIC_OR_PARTITION, B: E.PRODUCER_FENCED})
    assert driver.manager.state is S.FATAL_ERROR


def test_answers_after_the_end_change_nothing():
    driver, request, result = asked(COMMITTED)
    driver.manager.fatal_error(ProducerFenced())
    driver.answer(request, producer_id=7, producer_epoch=1)
    assert (driver.manager.state, driver.manager.identity.producer_epoch) == (S.FATAL_ERROR, 0)
    assert isinstance(result.error, ProducerFenced)


def test_offsets_are_not_sent_after_the_transaction_failed():
    driver, request, result = asked(OFFSETS)
    from oncelog.errors import RecordTooLarge

    driver.manager.abortable_error(RecordTooLarge())
    driver.answer(request)
    assert (result.is_done, driver.request()) == (True, None)
    driver.manager.begin_abort()
    assert driver.ask(TxnApi.END_TXN).is_abort


def test_a_broker_that_cannot_do_what_is_needed_ends_the_producer():
    driver, request, result = asked(INIT)
    on_unsupported_version(driver.manager, request, UnsupportedVersion("InitProducerId: needs version 6"))
    assert driver.manager.state is S.FATAL_ERROR
    assert isinstance(result.error, UnsupportedVersion)


def test_fenced_says_what_may_have_happened():
    driver, request, result = asked(COMMITTED)
    driver.answer(request, E.INVALID_PRODUCER_EPOCH)
    assert "newer producer" in str(result.error)
    assert "transaction_timeout_ms=60000" in str(result.error)
