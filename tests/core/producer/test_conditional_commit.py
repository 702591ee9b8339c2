"""A commit right behind its records: what it names, which answers wait for its own, and when it is not tried any more."""

import pytest

from oncelog.core.producer import conditional_commit
from oncelog.core.producer.batch import Acknowledged, ProducerBatch
from oncelog.core.producer.conditional_commit import FRUITLESS_MAX, ConditionalCommit
from oncelog.core.producer.requests import PendingResult, TxnRequest
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.verdicts import TxnApi
from oncelog.errors import ErrorCode, RequestTimedOut
from oncelog.types import CoordinatorKey, TopicPartition
from oncelog.wire.messages.end_txn import EndTxnRequest
from tests.core.producer.transaction_driver import A, B, Driver

OTHER = TopicPartition("other", 7)


def batch(where=A, first=0, count=1, ordinal=None):
    made = ProducerBatch(where, 0, (first,) if ordinal is None else ordinal)
    made.record_count, made.sequence = count, first
    return made


def end_txn():
    message = EndTxnRequest(committed=True)
    return TxnRequest(TxnApi.END_TXN, message, CoordinatorKey(1, "tid"), PendingResult(), 3)


def needed(request):
    return {
        (topic.name, each.partition_index): each.last_sequence for topic in request.needed for each in topic.partitions
    }


def committing(*batches, **config):
    """A producer whose commit waits for the batches, and the commit's result."""
    driver = Driver(**config).begun()
    result = driver.manager.begin_commit()
    driver.has_incomplete = True
    while (request := driver.request()) is not None:  # who the coordinator is
        driver.answer(request)
    return driver, result


def test_it_names_the_last_sequence_of_each_partition():
    request, commit = end_txn(), ConditionalCommit()
    commit.begin(request, [batch(A, 0, 3), batch(OTHER, 2**31 - 2, 3, (0,)), batch(B, 4), batch(A, 3, 2)])
    assert needed(request.message) == {("t", 0): 4, ("t", 1): 4, ("other", 7): 0}
    assert commit.is_undecided


def test_parts_of_a_batch_that_was_split_come_late_and_lie_before():
    """They are the last of the accumulator: the batch behind them decides all the same."""
    request, commit = end_txn(), ConditionalCommit()
    commit.begin(request, [batch(A, 3, 3, (2,)), batch(A, 0, 2, (1, 0)), batch(A, 2, 1, (1, 1))])
    assert needed(request.message) == {("t", 0): 5}


def test_bad_answers_of_its_own_batches_wait_for_its_answer():
    commit, first, second, said, request = ConditionalCommit(), batch(A), batch(B), [], end_txn()
    assert not commit.puts_off(first, lambda: said.append("before"))
    commit.begin(request, [first, second])
    assert commit.puts_off(first, lambda: said.append("first"))
    assert not commit.puts_off(batch(A), lambda: said.append("another's"))
    assert commit.put_off() == (first,)
    commit.not_attempted(request)
    for then in commit.take_released():
        then()
    assert (said, commit.take_released(), commit.take_stored(), commit.is_undecided) == (["first"], [], (), False)


def test_a_success_stores_what_has_no_answer_of_its_own():
    commit, lost, acknowledged = ConditionalCommit(), batch(A), batch(B)
    commit.begin(end_txn(), [lost, acknowledged])
    assert commit.puts_off(lost, lambda: pytest.fail("it is stored"))
    acknowledged.end(Acknowledged(5))
    commit.committed()
    assert commit.take_stored() == (lost,)
    assert (commit.take_stored(), commit.take_released(), commit.put_off()) == ((), [], ())


def test_what_was_given_up_is_still_heard_when_the_commit_was_not_attempted():
    commit, late, said, request = ConditionalCommit(), batch(A), [], end_txn()
    commit.begin(request, [late])
    assert commit.puts_off(late, lambda: said.append("answer"))
    assert commit.puts_off(late, lambda: said.append("given up"))
    late.end(RequestTimedOut("late"))
    assert commit.put_off() == ()
    commit.not_attempted(request)
    for then in commit.take_released():
        then()
    assert said == ["given up"]


@pytest.mark.parametrize("arrives", [True, False])
def test_a_broker_that_always_refuses_is_not_asked_any_more(arrives):
    commit = ConditionalCommit()
    for _ in range(FRUITLESS_MAX):
        commit.committed()  # without a condition, as after each refusal
        assert commit.is_worth_it
        sent, request = batch(A), end_txn()
        commit.begin(request, [sent])
        if arrives:
            sent.end(Acknowledged(1))
        commit.not_attempted(request)
    assert commit.is_worth_it is not arrives


def test_one_success_forgets_the_refusals():
    commit = ConditionalCommit()
    for _ in range(2 * FRUITLESS_MAX):
        for is_done in (True, False):
            sent, request = batch(A), end_txn()
            commit.begin(request, [sent])
            sent.end(Acknowledged(1))
            commit.committed() if is_done else commit.not_attempted(request)
    assert commit.is_worth_it


def test_each_time_it_leaves_it_has_a_higher_number_and_a_plain_one_has_none():
    commit, sent, request = ConditionalCommit(), batch(A), end_txn()
    commit.leaves(request)
    assert request.message.attempt == 0
    commit.begin(request, [sent])
    for expected in (1, 2):
        commit.leaves(request)
        assert request.message.attempt == expected
    commit.not_attempted(request)
    assert (request.message.attempt, request.message.needed, request.version_min) == (0, [], 0)
    commit.begin(request, [sent])
    commit.leaves(request)
    assert request.message.attempt == 3
    request.message.producer_epoch += 1
    commit.leaves(request)
    assert request.message.attempt == 1, "numbers begin anew with each identity: they have no end otherwise"


# -- in the producer's machine


def test_a_commit_goes_behind_the_records_that_it_waits_for():
    driver, result = committing()
    sent = batch(A)
    request = driver.manager.commit_behind([sent], driver.now_ms)
    assert request is not None
    assert (request.api, request.version_min, needed(request.message)) == (TxnApi.END_TXN, 5, {("t", 0): 0})
    assert driver.manager.commit_behind([sent], driver.now_ms) is None, "one request at a time"
    driver.answer(request, producer_id=7, producer_epoch=1)
    assert driver.take(result).error is None
    assert driver.manager.conditional.take_stored() == (sent,)
    assert driver.manager.state is TransactionState.READY


def test_one_that_was_not_attempted_goes_again_when_the_records_are_there():
    driver, result = committing()
    request = driver.manager.commit_behind([batch(A)], driver.now_ms)
    driver.answer(request, ErrorCode.OPERATION_NOT_ATTEMPTED)
    assert driver.request() is None, "it waits for its records"
    assert not result.is_done
    driver.has_incomplete = False
    again = driver.expect(TxnApi.END_TXN)
    assert (again.message.needed, again.message.attempt, again.version_min) == ([], 0, 0)
    driver.answer(again, producer_id=7, producer_epoch=1)
    assert driver.take(result).error is None


def test_one_whose_answer_was_lost_goes_again_as_it_was():
    driver, result = committing()
    request = driver.manager.commit_behind([batch(B, 3)], driver.now_ms)
    driver.manager.disconnected(request, driver.now_ms)
    driver.now_ms += 10_000
    again = driver.expect(TxnApi.END_TXN)
    assert (again is request, needed(again.message), again.message.attempt) == (True, {("t", 1): 3}, 2)
    driver.answer(again, ErrorCode.CONCURRENT_TRANSACTIONS)
    driver.now_ms += 10_000
    assert driver.manager.commit_behind([batch(B, 3)], driver.now_ms) is None, "it is under way"
    assert needed(driver.expect(TxnApi.END_TXN).message) == {("t", 1): 3}
    driver.answer(again, producer_id=7, producer_epoch=1)
    assert driver.take(result).error is None


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.TRANSACTION_ABORTABLE])
def test_an_error_of_the_commit_releases_what_waited(code):
    driver, result = committing()
    sent, said = batch(A), []
    request = driver.manager.commit_behind([sent], driver.now_ms)
    assert driver.manager.conditional.puts_off(sent, lambda: said.append("heard"))
    driver.answer(request, code)
    assert driver.take(result).error is not None
    assert not driver.manager.conditional.is_undecided
    for then in driver.manager.conditional.take_released():
        then()
    assert said == ["heard"]


def test_only_commits_of_the_new_protocol_go_so():
    old, _ = committing(level=1)
    assert old.manager.commit_behind([batch(A)], old.now_ms) is None
    aborting = Driver().begun()
    aborting.manager.begin_abort()
    assert aborting.manager.commit_behind([batch(A)], aborting.now_ms) is None
    open_ = Driver().begun()
    assert open_.manager.commit_behind([batch(A)], open_.now_ms) is None


def test_none_goes_so_where_it_is_never_worth_it(monkeypatch):
    monkeypatch.setattr(conditional_commit, "FRUITLESS_MAX", 0)
    driver, _ = committing()
    assert driver.manager.commit_behind([batch(A)], driver.now_ms) is None
