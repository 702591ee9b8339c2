"""Random schedules against a naive model of the gate: what is due is given whenever nothing is in flight, and all is answered."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.leader.gate import Answer, Gate, GateConfig, Question, TransactionToAsk
from oncelog.core.leader.gate_errors import ClientVersion, GuardedApi
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition

PARTITIONS = tuple(TopicPartition("orders", index) for index in range(2))
ADD, VERIFY = ClientVersion(GuardedApi.PRODUCE, 12), ClientVersion(GuardedApi.PRODUCE, 9)
CONFIG = GateConfig(retry_backoff_ms=20, retry_backoff_ms_max=100)
NODES = (1, 2)
CODES = (ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTION_ABORTABLE)


@dataclass
class Asked:
    """One question as the model knows it: in a list, with the moment from which it may be asked."""

    question: Question
    queue_key: int
    asked_ms: int
    due_ms: int
    is_in_flight: bool = False
    is_woken: bool = False


class World:
    """The gate and the model; the steps' arguments are drawn."""

    def __init__(self) -> None:
        self.gate = Gate(CONFIG)
        self.now_ms = 0
        self.asked: dict[int, Asked] = {}  # what is still to be answered, by token
        self.gone: dict[int, Asked] = {}  # dropped while in flight
        self.next_token = 0

    def in_flight(self, queue_key: int) -> list[Asked]:
        everything = (*self.asked.values(), *self.gone.values())
        return [each for each in everything if each.queue_key == queue_key and each.is_in_flight]

    def waiting(self, queue_key: int) -> list[Asked]:
        return [each for each in self.asked.values() if each.queue_key == queue_key and not each.is_in_flight]

    def merge(self, queue_key: int) -> None:
        """Equal questions that wait are one, due when the first of them is, and stay so when that one goes."""
        due: dict[tuple[str, int, ClientVersion], int] = {}
        for each in self.waiting(queue_key):
            mine = each.question
            equal = (mine.transactional_id, mine.producer_epoch, mine.client)
            due[equal] = min(due.get(equal, each.due_ms), each.due_ms)
        for each in self.waiting(queue_key):
            mine = each.question
            each.due_ms = due[mine.transactional_id, mine.producer_epoch, mine.client]

    # steps

    def ask(self, name: str, queue_key: int, producer_epoch: int, is_new: bool, partition: int) -> None:
        self.next_token += 1
        client = ADD if is_new else VERIFY
        question = Question(self.next_token, client, name, 7, producer_epoch, frozenset({PARTITIONS[partition]}))
        self.asked[self.next_token] = Asked(question, queue_key, self.now_ms, self.now_ms)
        self.gate.ask(question, queue_key, self.now_ms)
        self.merge(queue_key)

    def send(self, queue_key: int) -> None:
        was_busy = bool(self.in_flight(queue_key))
        due = {each.question.transactional_id for each in self.waiting(queue_key) if each.due_ms <= self.now_ms}
        entries = self.gate.next_request(queue_key, self.now_ms)
        names = [entry.transactional_id for entry in entries]
        assert len(names) == len(set(names)), "an id once per request"
        assert not (was_busy and entries), "one request in flight"
        if not was_busy:
            assert set(names) == due, "everything due is given, an identity of each id"
        for entry in entries:
            self._sent(entry, queue_key)

    def _sent(self, entry: TransactionToAsk, queue_key: int) -> None:
        questions = [self.asked[token] for token in entry.tokens]
        assert entry.partitions == frozenset().union(*(each.question.partitions for each in questions))
        assert any(each.due_ms <= self.now_ms for each in questions)
        for each in questions:
            assert not each.is_in_flight
            assert each.queue_key == queue_key
            mine = each.question
            assert (mine.transactional_id, mine.producer_epoch) == (entry.transactional_id, entry.producer_epoch)
            assert mine.client.supports_implicit_add is not entry.verify_only
            each.is_in_flight = True

    def answer(self, queue_key: int, code: ErrorCode) -> None:
        sent = self.in_flight(queue_key)
        if not sent:
            return
        results = {each.question.transactional_id: dict.fromkeys(PARTITIONS, code) for each in sent}
        answers = {answer.token: answer for answer in self.gate.answered(queue_key, results, self.now_ms)}
        for each in sent:
            token = each.question.token
            each.is_in_flight = False
            may_wait = (
                token not in self.gone
                and each.question.client is ADD
                and code is ErrorCode.CONCURRENT_TRANSACTIONS
                and self.now_ms < each.asked_ms + CONFIG.retry_backoff_ms_max
            )
            assert (token not in answers) == may_wait
            if may_wait:
                backoff_ms = 0 if each.is_woken else CONFIG.retry_backoff_ms
                each.due_ms = min(self.now_ms + backoff_ms, each.asked_ms + CONFIG.retry_backoff_ms_max)
            else:
                self._over(answers.pop(token), code)
            each.is_woken = False
        assert not answers, "nobody else is answered"
        self.merge(queue_key)

    def fail(self, queue_key: int) -> None:
        sent = self.in_flight(queue_key)
        if sent:
            answers = self.gate.failed(queue_key, ErrorCode.NETWORK_EXCEPTION)
            assert sorted(answer.token for answer in answers) == sorted(each.question.token for each in sent)
            for answer in answers:
                self._over(answer, ErrorCode.NETWORK_EXCEPTION)

    def _over(self, answer: Answer, code: ErrorCode) -> None:
        assert bool(answer.refused) == (code is not ErrorCode.NONE)
        self.asked.pop(answer.token, None)
        self.gone.pop(answer.token, None)

    def wake(self, name: str, queue_key: int) -> None:
        self.gate.wake(name, queue_key)
        for each in self.asked.values():
            if each.question.transactional_id == name and each.queue_key == queue_key:
                if each.is_in_flight:
                    each.is_woken = True
                else:
                    each.due_ms = min(each.due_ms, self.now_ms)

    def drop(self, position: int) -> None:
        if self.asked:
            token = sorted(self.asked)[position % len(self.asked)]
            dropped = self.asked.pop(token)
            if dropped.is_in_flight:
                self.gone[token] = dropped
            self.gate.drop([token])

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms

    # what holds after every step

    def check(self) -> None:
        assert len(self.gate) == len(self.asked) + len(self.gone)
        idle = [queue_key for queue_key in NODES if not self.in_flight(queue_key)]
        due = {queue_key for queue_key in idle if any(each.due_ms <= self.now_ms for each in self.waiting(queue_key))}
        assert set(self.gate.queues_due(self.now_ms)) == due
        timers = [each.due_ms for queue_key in idle for each in self.waiting(queue_key)]
        timer = self.gate.next_timer()
        assert (timer is None) == (not timers)
        if timer is not None and not due:
            assert timer == min(timers), "the timer rings when the first of them is due"
        for queue_key in NODES:
            assert self.gate.has_waiting(queue_key) == bool(self.waiting(queue_key))

    def finish(self) -> None:
        """No more faults: whoever follows `queues_due` and `next_timer` has everything answered, in bounded time."""
        for _ in range(1000):
            for queue_key in NODES:
                self.answer(queue_key, ErrorCode.CONCURRENT_TRANSACTIONS)
                self.send(queue_key)
            if not any(self.in_flight(queue_key) for queue_key in NODES):
                timer = self.gate.next_timer()
                if timer is None:
                    break
                self.now_ms = max(self.now_ms, timer)
        assert not self.asked
        assert len(self.gate) == 0


names = st.sampled_from(["a", "b", "c"])
nodes = st.sampled_from(NODES)
steps = st.one_of(
    st.tuples(st.just("ask"), names, nodes, st.integers(0, 2), st.booleans(), st.integers(0, 1)),
    st.tuples(st.just("send"), nodes),
    st.tuples(st.just("answer"), nodes, st.sampled_from(CODES)),
    st.tuples(st.just("fail"), nodes),
    st.tuples(st.just("wake"), names, nodes),
    st.tuples(st.just("drop"), st.integers(0, 9)),
    st.tuples(st.just("pass_time"), st.integers(1, 120)),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(steps, max_size=40))
def test_what_is_due_is_given_and_what_is_asked_is_answered(schedule):
    world = World()
    for name, *arguments in schedule:
        getattr(world, name)(*arguments)
        world.check()
    world.finish()
