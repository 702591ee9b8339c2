"""How questions to the coordinators are put together, held, answered (KIP-890)."""

from __future__ import annotations

from oncelog.core.leader.gate import Answer, Gate, GateConfig, Question, refused
from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition

P0, P1, P2 = (TopicPartition("orders", index) for index in range(3))
NODE = 1
OK, CONCURRENT = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS
ADD = ClientVersion(GuardedApi.PRODUCE, 12)
VERIFY = ClientVersion(GuardedApi.PRODUCE, 9)


def question(
    token: int,
    *partitions: TopicPartition,
    transactional_id: str = "t",
    producer_id: int = 7,
    producer_epoch: int = 0,
    client: ClientVersion = ADD,
) -> Question:
    return Question(token, client, transactional_id, producer_id, producer_epoch, frozenset(partitions or (P0,)))


def asked(gate: Gate, now_ms: int = 0) -> list[tuple[str, int, bool, set[TopicPartition]]]:
    return [
        (entry.transactional_id, entry.producer_epoch, entry.verify_only, set(entry.partitions))
        for entry in gate.next_request(NODE, now_ms)
    ]


def codes(answers: list[Answer]) -> dict[int, dict[TopicPartition, ErrorCode]]:
    return {
        answer.token: {partition: refusal.error_code for partition, refusal in answer.refused.items()}
        for answer in answers
    }


def test_questions_of_several_transactions_go_in_one_request():
    gate = Gate()
    gate.ask(question(1, P0, P1), NODE, 0)
    gate.ask(question(2, P2, transactional_id="u", client=VERIFY), NODE, 0)
    assert asked(gate) == [("t", 0, False, {P0, P1}), ("u", 0, True, {P2})]
    answers = gate.answered(NODE, {"t": {P0: OK, P1: OK}, "u": {P2: ErrorCode.TRANSACTION_ABORTABLE}}, 1)
    assert codes(answers) == {1: {}, 2: {P2: ErrorCode.INVALID_TXN_STATE}}
    assert len(gate) == 0


def test_one_request_is_in_flight_per_coordinator():
    gate = Gate()
    gate.ask(question(1), NODE, 0)
    assert asked(gate)
    gate.ask(question(2, transactional_id="u"), NODE, 0)
    gate.ask(question(3, transactional_id="v"), 2, 0)
    assert asked(gate) == []
    assert gate.queues_due(0) == [2]
    gate.answered(NODE, {"t": {P0: OK}}, 1)
    assert gate.queues_due(1) == [NODE, 2]
    assert asked(gate) == [("u", 0, False, {P0})]


def test_equal_questions_are_asked_as_one_and_answered_each():
    """Kafka fails the first with NETWORK_EXCEPTION; a pipelining producer sees NOT_ENOUGH_REPLICAS for nothing."""
    gate = Gate()
    gate.ask(question(1, P0), NODE, 0)
    gate.ask(question(2, P0, P1), NODE, 0)
    assert asked(gate) == [("t", 0, False, {P0, P1})]
    answers = gate.answered(NODE, {"t": {P0: OK, P1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}, 1)
    assert codes(answers) == {1: {}, 2: {P1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}}


def test_different_identities_of_one_transactional_id_take_turns():
    """A transactional id is a key of the request; which identity is fenced only its coordinator knows."""
    gate = Gate()
    gate.ask(question(1), NODE, 0)
    gate.ask(question(2, producer_epoch=1), NODE, 0)
    gate.ask(question(3, producer_id=8), NODE, 0)
    gate.ask(question(4, client=VERIFY), NODE, 0)
    seen = []
    for turn in range(4):
        [(_, producer_epoch, verify_only, _)] = asked(gate)
        seen.append((producer_epoch, verify_only))
        code = ErrorCode.PRODUCER_FENCED if turn == 0 else OK
        answers = gate.answered(NODE, {"t": {P0: code}}, 1)
        assert codes(answers) == {turn + 1: {P0: ErrorCode.INVALID_PRODUCER_EPOCH} if turn == 0 else {}}
    assert seen == [(0, False), (1, False), (0, False), (0, True)]


def test_each_answer_is_in_the_words_of_its_own_client():
    """docs/differences-from-kafka.md, gap 3: Kafka uses the mode of the first question queued for the node."""
    gate = Gate()
    versions = {1: 9, 2: 11, 3: 12}
    for token, version in versions.items():
        client = ClientVersion(GuardedApi.PRODUCE, version)
        gate.ask(question(token, transactional_id=f"t{token}", client=client), NODE, 0)
    gate.ask(question(4, transactional_id="t4", client=ClientVersion(GuardedApi.TXN_OFFSET_COMMIT, 5)), NODE, 0)
    gate.next_request(NODE, 0)
    told = codes(gate.failed(NODE, ErrorCode.NETWORK_EXCEPTION))
    assert [told[token][P0] for token in (1, 2, 3, 4)] == [
        *[ErrorCode.NOT_ENOUGH_REPLICAS] * 3,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    for token, version in versions.items():
        client = ClientVersion(GuardedApi.PRODUCE, version)
        gate.ask(question(token, transactional_id=f"t{token}", client=client), NODE, 0)
    gate.next_request(NODE, 0)
    results = {f"t{token}": {P0: ErrorCode.TRANSACTION_ABORTABLE} for token in versions}
    told = codes(gate.answered(NODE, results, 1))
    assert [int(told[token][P0]) for token in versions] == [48, 120, 120]


def test_concurrent_transactions_is_held_and_asked_again():
    gate = Gate(GateConfig(retry_backoff_ms=20, retry_backoff_ms_max=100))
    gate.ask(question(1), NODE, 1_000)
    assert asked(gate, 1_000)
    assert gate.answered(NODE, {"t": {P0: CONCURRENT}}, 1_005) == []
    assert gate.next_timer() == 1_025
    assert asked(gate, 1_024) == []
    assert asked(gate, 1_025)
    assert gate.next_timer() is None
    assert codes(gate.answered(NODE, {"t": {P0: OK}}, 1_030)) == {1: {}}


def test_what_is_held_is_answered_when_the_bound_ends():
    gate = Gate(GateConfig(retry_backoff_ms=20, retry_backoff_ms_max=100))
    gate.ask(question(1), NODE, 0)
    times, now_ms = [], 0
    while asked(gate, now_ms):
        times.append(now_ms)
        answers = gate.answered(NODE, {"t": {P0: CONCURRENT}}, now_ms)
        if answers:
            assert codes(answers) == {1: {P0: CONCURRENT}}
            break
        now_ms = gate.next_timer()
    assert times == [0, 20, 40, 60, 80, 100]


def test_a_completed_transaction_wakes_what_waits_for_it():
    gate = Gate()
    gate.ask(question(1), NODE, 0)
    gate.ask(question(2, transactional_id="u"), NODE, 0)
    gate.next_request(NODE, 0)
    assert gate.answered(NODE, {"t": {P0: CONCURRENT}, "u": {P0: CONCURRENT}}, 1) == []
    assert gate.wake("t") == [NODE]
    assert gate.wake("nobody") == []
    assert asked(gate, 2) == [("t", 0, False, {P0})]


def test_a_transaction_that_completes_while_its_question_is_in_flight_is_asked_again_at_once():
    gate = Gate()
    gate.ask(question(1), NODE, 0)
    gate.next_request(NODE, 0)
    assert gate.wake("t") == []  # the answer is on its way, and may be from before
    assert gate.answered(NODE, {"t": {P0: CONCURRENT}}, 5) == []
    assert asked(gate, 5) == [("t", 0, False, {P0})]
    assert gate.answered(NODE, {"t": {P0: CONCURRENT}}, 6) == []
    assert asked(gate, 6) == []  # woken once, not for ever


def test_the_old_protocol_is_not_held():
    gate = Gate()
    gate.ask(question(1, client=VERIFY), NODE, 0)
    gate.next_request(NODE, 0)
    assert codes(gate.answered(NODE, {"t": {P0: CONCURRENT}}, 1)) == {1: {P0: ErrorCode.NOT_ENOUGH_REPLICAS}}


def test_what_the_answer_leaves_out_is_an_error():
    gate = Gate()
    gate.ask(question(1, P0, P1), NODE, 0)
    gate.next_request(NODE, 0)
    assert codes(gate.answered(NODE, {"t": {P0: OK}}, 1)) == {1: {P1: ErrorCode.UNKNOWN_SERVER_ERROR}}


def test_a_closed_connection_drops_what_waits():
    gate = Gate()
    gate.ask(question(1, P0), NODE, 0)
    gate.ask(question(2, P1), NODE, 0)
    gate.ask(question(3, transactional_id="u"), NODE, 0)
    gate.drop([1, 3])
    assert asked(gate) == [("t", 0, False, {P1})]
    gate.drop([2])  # in flight already: its answer goes to nobody
    assert [answer.token for answer in gate.answered(NODE, {"t": {P1: OK}}, 1)] == [2]


def test_an_unknown_coordinator_is_refused_at_once():
    answer = refused(question(1, P0, P1), ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert codes([answer]) == {1: dict.fromkeys((P0, P1), ErrorCode.NOT_ENOUGH_REPLICAS)}
