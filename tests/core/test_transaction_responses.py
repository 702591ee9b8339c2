"""Every cell of the error table: what each error of each response does to the producer."""

import pytest

from oncelog.core.transaction_requests import GroupMetadata
from oncelog.core.transaction_responses import on_unsupported_version
from oncelog.core.transaction_states import TransactionState
from oncelog.core.transaction_verdicts import TxnApi
from oncelog.errors import ErrorCode, ProducerFenced, UnsupportedVersion
from oncelog.types import OffsetAndMetadata
from tests.core.transaction_driver import GROUP_OFFSETS, A, B, Driver

E, S = ErrorCode, TransactionState
INIT, PARTS, OFFSETS, COMMIT, COMMITTED, ABORTED, FIND = COLUMNS = (
    "InitPid", "AddParts", "AddOffsets", "TxnOffsetCommit", "EndTxn commit", "EndTxn abort", "FindCoord",
)  # fmt: skip

# R retry, C find the coordinator and retry, A abortable, F fatal, P fatal as ProducerFenced, U uninitialized again
TABLE = """
code | InitPid | AddParts | AddOffsets | TxnOffsetCommit | EndTxn commit | EndTxn abort | FindCoord
15   | C | C | C | C | C | C | R
16   | C | C | C | C | C | C | R
14   | R | R | R | R | R | R | R
51   | R | R | R | R | R | R | R
13   | R | R | R | R | R | R | R
3    | R | R | R | R | R | R | R
7    | R | R | R | C | R | R | R
47   | P | P | P | P | P | P | F
90   | P | P | P | P | P | P | F
49   | F | F | F | F | F | F | F
48   | F | F | F | F | F | F | F
53   | U | F | F | F | F | F | F
31   | U | A | F | F | F | F | F
29   | F | A | F | F | F | F | F
30   | F | A | A | A | F | F | A
55   | F | A | F | F | F | F | F
59   | F | A | A | F | A | F | F
120  | A | A | A | A | A | F | A
25   | F | A | F | A | F | F | F
22   | F | A | F | A | F | F | F
69   | F | A | F | A | F | F | F
113  | F | A | F | A | F | F | F
82   | F | A | F | A | F | F | F
43   | F | A | F | F | F | F | F
50   | F | A | F | F | F | F | F
-1   | F | A | F | F | F | F | F
"""


def cells():
    lines = [[cell.strip() for cell in line.split("|")] for line in TABLE.strip().splitlines()[1:]]
    for code, *verdicts in lines:
        for column, verdict in zip(COLUMNS, verdicts, strict=True):
            yield pytest.param(column, int(code), verdict, id=f"{column}-{code}")


def asked(column):
    """A producer that has just sent such a request; TV1, where all of them exist."""
    driver = Driver(level=1)
    manager = driver.manager
    if column in (INIT, FIND):
        result = manager.initialize()
        return driver, driver.expect(TxnApi.INIT_PRODUCER_ID if column == INIT else TxnApi.FIND_COORDINATOR), result
    driver.begun(with_partition=column in (COMMITTED, ABORTED))
    if column == PARTS:
        manager.add_partition(A)
        request = driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN)
        return driver, request, request.result
    if column in (OFFSETS, COMMIT):
        result = manager.send_offsets({GROUP_OFFSETS: OffsetAndMetadata(1)}, GroupMetadata("g"))
        if column == COMMIT:
            driver.ask(TxnApi.ADD_OFFSETS_TO_TXN)
            return driver, driver.expect(TxnApi.TXN_OFFSET_COMMIT), result
        return driver, driver.expect(TxnApi.ADD_OFFSETS_TO_TXN), result
    result = manager.begin_commit() if column == COMMITTED else manager.begin_abort()
    return driver, driver.expect(TxnApi.END_TXN), result


@pytest.mark.parametrize(("column", "code", "verdict"), list(cells()))
def test_error_table(column, code, verdict):
    driver, request, result = asked(column)
    manager = driver.manager
    before = manager.state
    driver.answer(request, code)
    if verdict in "RC":
        assert (manager.state, result.is_done) == (before, False)
        driver.now_ms += 10_000
        expected = TxnApi.FIND_COORDINATOR if verdict == "C" else request.api
        again = driver.request()
        assert again is not None
        assert again.api is expected
        return
    if column != FIND:
        assert result.is_done
        assert result.error is not None
    state = {"A": S.ABORTABLE_ERROR, "F": S.FATAL_ERROR, "P": S.FATAL_ERROR, "U": S.UNINITIALIZED}[verdict]
    assert manager.state is state
    if verdict == "P":
        assert isinstance(manager.last_error, ProducerFenced)
    elif verdict != "U":
        assert manager.last_error.code == code
    if verdict == "A" and code == E.UNKNOWN_PRODUCER_ID:
        assert manager.bump_required


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
