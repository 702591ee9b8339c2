"""Kafka's client rules, cell by cell: `evidence/world/client_rules.txt`, in the order of the Java client's own tables."""

from __future__ import annotations

import pathlib
from typing import NamedTuple

import pytest
from evidence.world.client_rules import CASES, RETRIABLE, RULES, UNHEARD_OF, error_rows, ours

from oncelog.core.producer.batch import ProducerBatch
from oncelog.core.producer.produce_responses import BatchVerdict, verdict_on_batch
from oncelog.core.producer.requests import BUMP_PRIORITY, TxnRequest
from oncelog.core.producer.responses import on_unsupported_version
from oncelog.core.producer.states import TransactionState, may_follow
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.core.producer.verdicts import TxnApi
from oncelog.errors import (
    ErrorCode,
    IllegalState,
    ProducerFenced,
    RecordTooLarge,
    TransactionAbortable,
    UnsupportedVersion,
    error_for,
)
from oncelog.types import GroupMetadata, OffsetAndMetadata, ProducerIdAndEpoch
from tests.core.producer.transaction_driver import GROUP_OFFSETS, A, B, Driver, asked

S, E = TransactionState, ErrorCode
PAGE = pathlib.Path(__file__).parents[3] / "docs" / "differences-from-kafka.md"


# -- the file


def test_every_row_of_kafkas_tables_is_there():
    assert {name: len(rows) for name, rows in RULES.items()} == {
        "states": 1 + len(S),
        "requests": 1 + 7,
        "waiting": 1 + 8,
        "errors": 1 + 18,
        "retriable": 1,
        "produce": 1 + 14,
        "bumps": 1 + 5,
    }
    for rows in RULES.values():
        assert {len(row) for row in rows} == {len(rows[0])}


def test_every_difference_is_documented():
    """Each cell `Kafka>oncelog` has a line in the section "Clients" that begins with its table and row."""
    section = PAGE.read_text().split("\n## Clients\n")[1].split("\n## ")[0]
    told = {line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| `")}
    differing = {
        f"`{name}: {row[0]}`"
        for name, rows in RULES.items()
        for row in rows[1:]
        if any(">" in cell for cell in row) and name != "retriable"
    }
    assert differing <= told


def test_named_rules_have_their_tests():
    for name in [row[0] for table in ("waiting", "bumps") for row in RULES[table][1:]]:
        assert any(found.startswith(f"test_{name}") for found in globals()), name


# -- states


def state_cells() -> list[tuple[S, S, bool]]:
    allowed = {
        S[target]: set(S) if names == "any" else {S[name] for name in names.split()}
        for target, names in RULES["states"][1:]
    }
    return [
        (target, current, current in allowed[target] and (current is not S.FATAL_ERROR or target is current))
        for target in S
        for current in S
    ]


@pytest.mark.parametrize(("target", "current", "is_allowed"), state_cells())
def test_states(target, current, is_allowed):
    assert may_follow(target, current) is is_allowed


def test_who_repeats_what_an_interrupt_hid_the_end_of_is_told_that_it_was_done():
    ready, open_ = Driver().ready(), Driver().begun()
    for end in (ready.manager.begin_commit, ready.manager.begin_abort):
        with pytest.raises(IllegalState, match=r"no transaction is open.*interrupted has ended"):
            end()
    with pytest.raises(IllegalState, match=r"is open already.*interrupted was done"):
        open_.manager.begin_transaction()
    with pytest.raises(IllegalState, match="that is uninitialized cannot become in transaction"):
        Driver().manager.begin_transaction()


def test_an_illegal_state_that_an_answer_asks_for_is_fatal():
    """KAFKA-14831: nothing is known any more, and there is no caller to report to."""
    driver = Driver()
    result = driver.manager.initialize()
    request = driver.expect(TxnApi.INIT_PRODUCER_ID)
    driver.manager.abortable_error(RecordTooLarge())
    driver.answer(request)
    assert driver.manager.state is S.FATAL_ERROR
    assert "cannot become ready" in str(result.error)
    assert driver.request() is None


def test_an_end_in_an_illegal_state_is_fatal():
    driver = Driver().begun()
    result = driver.manager.begin_commit()
    request = driver.expect(TxnApi.END_TXN)
    driver.manager.abortable_error(RecordTooLarge())
    driver.answer(request, producer_id=7, producer_epoch=1)
    assert driver.manager.state is S.FATAL_ERROR
    assert result.error is not None


# -- priorities and waiting


def priority_of(name: str) -> int:
    return int(BUMP_PRIORITY if name.endswith("bump") else TxnApi[name].value)


@pytest.mark.parametrize(("name", "priority"), RULES["requests"][1:])
def test_request_priorities(name, priority):
    assert priority_of(name) == int(priority)


def test_requests_leave_in_the_order_of_the_table():
    """All that there is, asked for in the wrong order, after a batch that makes a bump necessary."""
    driver = Driver(level=1).ready()
    manager = driver.manager
    manager.begin_transaction()
    manager.send_offsets({GROUP_OFFSETS: OffsetAndMetadata(11)}, GroupMetadata("g"))
    manager.add_partition(A)
    result = manager.begin_commit()
    manager.bump_required = True
    order: list[str] = driver.asked[:]
    while (request := driver.request()) is not None:
        is_bump = request.api is TxnApi.INIT_PRODUCER_ID and request.priority == BUMP_PRIORITY
        order.append(request.api.name + (" bump" if is_bump else ""))
        driver.answer(request)
    assert driver.take(result).error is None
    assert order.count("FIND_COORDINATOR") == 2  # of the transactional id, and of the group once it is needed
    assert list(dict.fromkeys(order)) == [row[0] for row in RULES["requests"][1:]]


def test_one_request_at_a_time():
    driver = Driver(level=1).begun()
    driver.manager.add_partition(B)
    driver.manager.send_offsets({GROUP_OFFSETS: OffsetAndMetadata(11)}, GroupMetadata("g"))
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
def test_nothing_added_nothing_ended(level, end):
    """KAFKA-18401."""
    driver = Driver(level=level).begun(with_partition=False)
    result = getattr(driver.manager, end)()
    assert driver.request() is None
    assert (driver.take(result).error, driver.manager.state) == (None, S.READY)


@pytest.mark.parametrize(("column", "level"), CASES)
def test_disconnected_finds_the_coordinator_again(column, level):
    driver, request, _ = asked(column, level)
    driver.manager.disconnected(request, driver.now_ms)
    driver.now_ms += 10_000
    again = driver.request()
    assert again.api is TxnApi.FIND_COORDINATOR
    driver.answer(again)
    if column != "FindCoord":
        assert driver.request() is request


@pytest.mark.parametrize(("column", "level"), CASES)
def test_version_mismatch_is_fatal(column, level):
    driver, request, result = asked(column, level)
    on_unsupported_version(driver.manager, request, UnsupportedVersion("too old"))
    assert driver.manager.state is S.FATAL_ERROR
    assert isinstance(result.error, UnsupportedVersion)


def test_timed_out_call_must_be_repeated():
    driver = Driver().begun()
    manager = driver.manager
    result = manager.begin_commit()
    for other in (manager.begin_abort, manager.begin_transaction, lambda: manager.check_in_transaction("send")):
        with pytest.raises(IllegalState, match="commit_transaction timed out or was cancelled before"):
            other()
    assert manager.state is S.COMMITTING_TRANSACTION
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert manager.begin_commit() is result  # kept until somebody has seen it
    driver.take(result)
    manager.begin_transaction()


def test_aborting_ignores_abortable_errors():
    manager = Driver().in_state(S.ABORTING_TRANSACTION).manager
    manager.abortable_error(RecordTooLarge())
    assert (manager.state, manager.last_error) == (S.ABORTING_TRANSACTION, None)


def test_first_partition_of_a_transaction_is_tried_again_after_20_ms():
    """KAFKA-5477: the previous transaction's markers are on their way."""
    driver = Driver(level=1).begun(with_partition=False)
    for where, backoff_ms in ((A, 20), (B, 100)):
        driver.manager.add_partition(where)
        driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN, E.CONCURRENT_TRANSACTIONS)
        assert driver.manager.next_timer() == driver.now_ms + backoff_ms
        driver.now_ms += backoff_ms
        driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN)


# -- errors of the coordinator's answers


def test_every_error_has_a_verdict_in_every_column():
    rows = error_rows()
    assert set(rows) == {int(code) for code in E if code} | {UNHEARD_OF}
    assert {len(cells) for cells in rows.values()} == {7}
    assert {ours(cell) for cells in rows.values() for cell in cells} == {"R", "C", "A", "A*", "F", "P", "U"}


def what_happened(driver: Driver, request: TxnRequest, column: str) -> str:
    """The letter for what the producer does after the answer."""
    manager = driver.manager
    state, before = manager.state, driver.asked.count("FIND_COORDINATOR")
    if state is S.FATAL_ERROR:
        return "P" if isinstance(manager.last_error, ProducerFenced) and column != "FindCoord" else "F"
    if state is S.UNINITIALIZED:
        return "U"
    if state is S.ABORTABLE_ERROR:
        return "A*" if manager.bump_required else "A"
    assert driver.request() is None, "a back-off comes first"
    driver.now_ms = manager.next_timer()
    again = driver.request()
    if column == "FindCoord":
        assert again is request
        return "R"
    if driver.asked.count("FIND_COORDINATOR") == before:
        assert again is request
        return "R"
    driver.answer(again)
    assert driver.request() is request
    return "C"


@pytest.mark.parametrize(("column", "level"), CASES)
def test_errors(column, level):
    place = RULES["errors"][0].index(column) - 1
    wrong = {}
    for code, cells in error_rows().items():
        driver, request, result = asked(column, level)
        driver.answer(request, code)
        found, expected = what_happened(driver, request, column), ours(cells[place])
        expected = "A" if expected == "A*" and level == 2 else expected  # EndTxn v5 itself bumps
        if found != expected:
            wrong[code] = (expected, found)
        assert result.is_done is (found not in "RC"), code
        if found not in "RC":
            assert result.error is not None, code
            if found != "P":
                assert result.error.code in (code, E.UNKNOWN_SERVER_ERROR), code
    assert wrong == {}


@pytest.mark.parametrize("code", [E.GROUP_AUTHORIZATION_FAILED, E.TRANSACTION_ABORTABLE])
def test_a_group_whose_coordinator_may_not_be_found_is_abortable(code):
    driver = Driver().begun()
    result = driver.manager.send_offsets({GROUP_OFFSETS: OffsetAndMetadata(1)}, GroupMetadata("g"))
    driver.answer(driver.expect(TxnApi.FIND_COORDINATOR), code)
    assert (driver.manager.state, result.error.code) == (S.ABORTABLE_ERROR, code)


@pytest.mark.parametrize("level", [1, 2])
def test_what_is_abortable_can_be_aborted(level):
    """After A: the abort is sent, and the next transaction begins; after A* with the old protocol in a new epoch."""
    for code in (E.UNKNOWN_PRODUCER_ID, E.TRANSACTION_ABORTABLE):
        driver, request, result = asked("EndTxn commit", level)
        driver.answer(request, code)
        driver.take(result)
        aborted = driver.manager.begin_abort()
        assert driver.ask(TxnApi.END_TXN, **({} if level == 1 else {"producer_id": 7, "producer_epoch": 1})).is_abort
        if level == 1 and code == E.UNKNOWN_PRODUCER_ID:
            driver.ask(TxnApi.INIT_PRODUCER_ID, producer_epoch=1)
        assert driver.request() is None
        assert driver.take(aborted).error is None
        driver.manager.begin_transaction()


@pytest.mark.parametrize("position", [0, 1])
def test_one_partition_decides_for_all(position):
    """Per-partition errors are all examined; 55 of the others says nothing."""
    for code in (E.TOPIC_AUTHORIZATION_FAILED, E.UNKNOWN_SERVER_ERROR, E.TRANSACTION_ABORTABLE):
        driver = Driver(level=1).begun(with_partition=False)
        for where in (A, B):
            driver.manager.add_partition(where)
        codes = {A: E.OPERATION_NOT_ATTEMPTED, B: E.OPERATION_NOT_ATTEMPTED} | {(A, B)[position]: code}
        driver.answer(driver.expect(TxnApi.ADD_PARTITIONS_TO_TXN), codes=codes)
        assert (driver.manager.state, driver.manager.last_error.code) == (S.ABORTABLE_ERROR, code)


# -- Produce


class Answer(NamedTuple):
    code: int
    log_start_offset: int = 5
    is_first: bool = True
    retries_are_over: bool = False


def answers() -> list[tuple[str, Answer, str, str]]:
    special = {int(w) for row in RULES["produce"][1:] for w in row[0].split(",")[0].split() if w.isdecimal()}
    others = {
        "retriable": [Answer(code) for code in sorted(RETRIABLE | {7, 15, 16})],
        "retriable, retries over": [Answer(E(code), retries_are_over=True) for code in sorted(RETRIABLE | {15, 16})],
        "expired before its answer": [Answer(E.REQUEST_TIMED_OUT, retries_are_over=True)],
        "45, not first": [Answer(45, is_first=False)],
        "45, first": [Answer(45)],
        "59, log start unknown": [Answer(59, log_start_offset=-1)],
        "59, log start behind ours": [Answer(59, log_start_offset=5)],
        "59, otherwise": [Answer(59, log_start_offset=0)],
        "else": [Answer(int(code)) for code in E if code not in RETRIABLE | special | {7, 15, 16}],
    }
    return [
        (label, answer, transactional, idempotent)
        for label, transactional, idempotent in RULES["produce"][1:]
        for answer in others.get(label) or [Answer(int(word)) for word in label.split()]
    ]


def test_every_error_of_a_batch_has_a_verdict():
    assert {answer.code for _, answer, _, _ in answers()} == set(E)


def sent_batch(manager: TransactionManager, where=A) -> ProducerBatch:
    made = ProducerBatch(where, 0)
    made.record_count = 1
    assert manager.may_send(made)
    manager.sequences.assign(made)
    return made


def make_known(manager: TransactionManager, where=A) -> None:
    """The leader acknowledges a first batch: from now on several may be on their way."""
    manager.sequences.resolved(sent_batch(manager, where), is_acknowledged=True)


def play_produce(driver: Driver, answer: Answer) -> str:
    """What the sender does with the answer, and what becomes of the producer."""
    manager = driver.manager
    before = manager.identity
    make_known(manager)
    batch = sent_batch(manager)
    if not answer.is_first:
        batch = sent_batch(manager)
    as_sent = (batch.identity, batch.sequence)
    verdict = verdict_on_batch(batch, answer.code, answer.log_start_offset)
    if verdict in (BatchVerdict.DONE, BatchVerdict.DONE_BEFORE):
        return "done"
    if verdict is BatchVerdict.RETRY and not answer.retries_are_over:
        assert (batch.identity, batch.sequence) == as_sent
        assert not manager.has_error
        return "R"
    manager.batch_failed(batch, error_for(answer.code))
    if manager.state is S.FATAL_ERROR:
        return "F"
    if manager.state is S.ABORTABLE_ERROR:
        assert manager.bump_required is (not manager.is_tv2)
        return "TA" if isinstance(manager.last_error, TransactionAbortable) and answer.code != 120 else "A"
    if manager.state is S.UNINITIALIZED:
        return "id"
    assert manager.identity == ProducerIdAndEpoch(before.producer_id, before.producer_epoch + 1)
    return "bump"


@pytest.mark.parametrize("level", [1, 2])
def test_produce_in_a_transaction(level):
    wrong = {}
    for label, answer, transactional, _ in answers():
        found = play_produce(Driver(level=level).begun(), answer)
        if found != ours(transactional):
            wrong[(label, answer)] = found
    assert wrong == {}


def idempotent() -> Driver:
    driver = Driver(transactional_id=None)
    driver.manager.ensure_producer_id()
    driver.ask(TxnApi.INIT_PRODUCER_ID)
    return driver


def test_produce_without_transactions():
    wrong = {}
    for label, answer, _, expected in answers():
        found = play_produce(idempotent(), answer)
        if found != ours(expected):
            wrong[(label, answer)] = found
    assert wrong == {}


# -- bumps


def test_can_bump_from_client_with_the_old_protocol_only():
    """The InitProducerId that bumps needs version 3; with the new protocol no error asks for one."""
    driver, request, result = asked("EndTxn commit", 1)
    driver.answer(request, E.UNKNOWN_PRODUCER_ID)
    driver.take(result)
    driver.manager.begin_abort()
    driver.ask(TxnApi.END_TXN)
    bump = driver.expect(TxnApi.INIT_PRODUCER_ID)
    assert (bump.version_min, bump.message.producer_id, bump.message.producer_epoch) == (3, 7, 0)
    for code in E:
        driver = Driver(level=2).begun()
        driver.manager.batch_failed(sent_batch(driver.manager), error_for(code))
        assert not driver.manager.bump_required


@pytest.mark.parametrize("level", [1, 2])
def test_abortable_error_is_followed_by_a_new_epoch(level):
    driver = Driver(level=level).begun()
    manager = driver.manager
    manager.batch_failed(sent_batch(manager), RecordTooLarge())
    result = manager.begin_abort()
    if level == 1:
        driver.ask(TxnApi.END_TXN)
        assert not result.is_done
        driver.ask(TxnApi.INIT_PRODUCER_ID, producer_id=7, producer_epoch=1)
    else:
        driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    driver.take(result)
    manager.begin_transaction()
    manager.add_partition(A)
    if level == 1:
        driver.ask(TxnApi.ADD_PARTITIONS_TO_TXN)
    fresh = sent_batch(manager)
    assert (fresh.identity, fresh.sequence) == (ProducerIdAndEpoch(7, 1), 0)


@pytest.mark.parametrize("level", [1, 2])
def test_expired_after_it_was_sent_in_a_transaction(level):
    manager = Driver(level=level).begun().manager
    manager.batch_failed(sent_batch(manager), error_for(E.REQUEST_TIMED_OUT))
    assert (manager.state, manager.bump_required) == (S.ABORTABLE_ERROR, level == 1)


def test_expired_after_it_was_sent_without_transactions():
    """No new batch of the partition leaves before all that was sent under the old epoch has its answer."""
    manager = idempotent().manager
    make_known(manager)
    expired, behind = sent_batch(manager), sent_batch(manager)
    manager.batch_failed(expired, error_for(E.REQUEST_TIMED_OUT))
    waiting = ProducerBatch(A, 0)
    waiting.record_count = 1
    assert not manager.may_send(waiting)
    manager.sequences.resolved(behind)
    assert manager.may_send(waiting)
    manager.sequences.assign(waiting)
    assert (waiting.identity, waiting.sequence) == (ProducerIdAndEpoch(7, 1), 0)


@pytest.mark.parametrize(("producer_epoch", "next_state"), [(32765, S.READY), (32766, S.UNINITIALIZED)])
def test_last_epoch_is_followed_by_a_new_producer_id(producer_epoch, next_state):
    driver = idempotent()
    manager = driver.manager
    manager.sequences.begin_identity(ProducerIdAndEpoch(7, producer_epoch))
    manager.batch_failed(sent_batch(manager), error_for(E.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert manager.state is next_state
    if next_state is S.UNINITIALIZED:
        manager.ensure_producer_id()
        request = driver.ask(TxnApi.INIT_PRODUCER_ID, producer_id=8)
        assert (request.message.transactional_id, request.message.transaction_timeout_ms) == (None, 2**31 - 1)
        assert sent_batch(manager).identity == ProducerIdAndEpoch(8, 0)


def test_scope_of_a_bump_without_transactions():
    """Only the partition of the failure waits; another goes on in its old epoch until nothing is outstanding there."""
    manager = idempotent().manager
    failed, elsewhere = sent_batch(manager), sent_batch(manager, B)
    manager.batch_failed(failed, error_for(E.OUT_OF_ORDER_SEQUENCE_NUMBER))
    assert sent_batch(manager).identity.producer_epoch == 1
    assert (elsewhere.identity.producer_epoch, elsewhere.sequence) == (0, 0)
    manager.sequences.resolved(elsewhere)
    fresh = sent_batch(manager, B)
    assert (fresh.identity.producer_epoch, fresh.sequence) == (1, 0)


def test_scope_of_a_bump_in_transactions():
    driver = Driver().begun()
    manager = driver.manager
    for where in (A, B):
        manager.sequences.resolved(sent_batch(manager, where))
    manager.begin_commit()
    driver.ask(TxnApi.END_TXN, producer_id=7, producer_epoch=1)
    assert [sent_batch(manager, where).sequence for where in (A, B)] == [0, 0]
