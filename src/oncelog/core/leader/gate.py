"""Which transactions to ask the coordinators about, together and one request at a time per coordinator (KIP-890).

Partition leaders come here with what `AskCoordinator` named. Rules: one AddPartitionsToTxn in flight per coordinator, a
transactional id once per request. CONCURRENT_TRANSACTIONS is not passed on at once to clients of the new protocol: the
previous transaction's markers are on their way, so the question is held and asked again, at the latest at the bound.

What is asked while a request is in flight waits for its end: whoever gives an answer (`answered`) or fails it (`failed`)
looks at `next_request` again, and at `next_timer`, which passes over a coordinator with a request in flight.

Unlike Apache Kafka, which fails a queued question with NETWORK_EXCEPTION when its transactional id asks again, equal
questions are asked as one; different identities of one transactional id wait their turn and the coordinator decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field

from oncelog.core.leader.gate_errors import ClientVersion, client_refusal
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class GateConfig:
    """Kafka's keys of the retries on CONCURRENT_TRANSACTIONS (ms)."""

    retry_backoff_ms: int = 20  # add.partitions.to.txn.retry.backoff.ms
    retry_backoff_ms_max: int = 100  # add.partitions.to.txn.retry.backoff.max.ms: the longest that a question is held


@dataclass(frozen=True, slots=True)
class Question:
    """One client request's partitions that need the coordinator's word; `token` comes back with the answer."""

    token: int
    client: ClientVersion
    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a question: the partitions that are refused, in the client's words; the others are agreed."""

    token: int
    refused: Mapping[TopicPartition, Refuse]


@dataclass(frozen=True, slots=True)
class TransactionToAsk:
    """One entry of an AddPartitionsToTxn v4+ request; `tokens` are those of the questions it asks for."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool
    partitions: frozenset[TopicPartition]
    tokens: tuple[int, ...]


@dataclass(slots=True)
class _Entry:
    """Equal questions: same identity, same wish; asked not before `due_ms`."""

    questions: list[tuple[Question, int]]  # with the time each was first asked
    due_ms: int

    @property
    def first(self) -> Question:
        return self.questions[0][0]

    def takes(self, question: Question) -> bool:
        mine = self.first
        return (
            mine.transactional_id == question.transactional_id
            and mine.producer_id == question.producer_id
            and mine.producer_epoch == question.producer_epoch
            and mine.client.supports_implicit_add == question.client.supports_implicit_add
        )

    def to_ask(self) -> TransactionToAsk:
        mine = self.first
        return TransactionToAsk(
            mine.transactional_id,
            mine.producer_id,
            mine.producer_epoch,
            not mine.client.supports_implicit_add,
            frozenset().union(*(question.partitions for question, _ in self.questions)),
            tuple(question.token for question, _ in self.questions),
        )


@dataclass(slots=True)
class _Queue:
    waiting: list[_Entry] = field(default_factory=list)
    in_flight: list[_Entry] = field(default_factory=list)
    woken: set[str] = field(default_factory=set)  # completed while their question was in flight
    gone: set[int] = field(default_factory=set)  # dropped while they were in flight

    def end_request(self) -> list[_Entry]:
        """Nothing is in flight any more: what was."""
        entries, self.in_flight = self.in_flight, []
        return entries


class Gate:
    """The questions of one broker, in queues: one for each coordinating node, or a lane of this one (docs/glossary.md)."""

    def __init__(self, config: GateConfig | None = None) -> None:
        self.config = config or GateConfig()
        self._queues: dict[int, _Queue] = {}

    def __len__(self) -> int:
        return sum(
            len(entry.questions) for queue in self._queues.values() for entry in (*queue.waiting, *queue.in_flight)
        )

    def ask(self, question: Question, queue_key: int, now_ms: int) -> None:
        """Queue a question for its transactional id's coordinator."""
        self._enqueue(self._queues.setdefault(queue_key, _Queue()), question, now_ms, due_ms=now_ms)

    def next_request(self, queue_key: int, now_ms: int) -> tuple[TransactionToAsk, ...]:
        """What to send for that queue now: everything due; nothing while a request is in flight. Answer it or fail it."""
        queue = self._queues.get(queue_key)
        if queue is None or queue.in_flight:
            return ()
        asked: dict[str, _Entry] = {}
        later: list[_Entry] = []
        for entry in queue.waiting:
            if entry.due_ms <= now_ms and entry.first.transactional_id not in asked:
                asked[entry.first.transactional_id] = entry
            else:
                later.append(entry)
        queue.waiting, queue.in_flight = later, list(asked.values())
        return tuple(entry.to_ask() for entry in queue.in_flight)

    def answered(
        self, queue_key: int, results: Mapping[str, Mapping[TopicPartition, ErrorCode]], now_ms: int
    ) -> list[Answer]:
        """The coordinator's answer, by transactional id and partition. What is not in it counts as UNKNOWN_SERVER_ERROR."""
        queue = self._queues[queue_key]
        woken, queue.woken = queue.woken, set()
        gone, queue.gone = queue.gone, set()
        answers: list[Answer] = []
        for entry in queue.end_request():
            codes = results.get(entry.first.transactional_id, {})
            backoff_ms = 0 if entry.first.transactional_id in woken else self.config.retry_backoff_ms
            for question, asked_ms in entry.questions:
                if question.token not in gone and self._may_hold(question, codes, asked_ms, now_ms):
                    due_ms = min(now_ms + backoff_ms, asked_ms + self.config.retry_backoff_ms_max)
                    self._enqueue(queue, question, asked_ms, due_ms=due_ms)
                else:
                    answers.append(_answer(question, codes))
        return answers

    def failed(self, queue_key: int, error_code: ErrorCode) -> list[Answer]:
        """No answer, or an error for the whole request: NETWORK_EXCEPTION for a lost connection or a timeout."""
        queue = self._queues[queue_key]
        queue.woken.clear()
        queue.gone.clear()
        entries = queue.end_request()
        return [refused(question, error_code) for entry in entries for question, _ in entry.questions]

    def wake(self, transactional_id: str, queue_key: int | None = None) -> list[int]:
        """Its transaction is complete: ask now what was held (where known, in that queue); the queues to send for."""
        found = []
        if queue_key is None:
            queues = self._queues
        else:
            queues = {queue_key: self._queues[queue_key]} if queue_key in self._queues else {}
        for queue_key, queue in queues.items():
            held = [entry for entry in queue.waiting if entry.first.transactional_id == transactional_id]
            for entry in held:
                entry.due_ms = min(asked_ms for _, asked_ms in entry.questions)
            if held:
                found.append(queue_key)
            if any(entry.first.transactional_id == transactional_id for entry in queue.in_flight):
                queue.woken.add(transactional_id)  # should its answer still be "concurrent"
        return found

    def drop(self, tokens: Iterable[int]) -> None:
        """A closed connection takes its waiting questions along; what is in flight is answered to nobody, held never."""
        gone = set(tokens)
        for queue in self._queues.values():
            in_flight = {question.token for entry in queue.in_flight for question, _ in entry.questions}
            queue.gone |= gone & in_flight
            for entry in queue.waiting:
                entry.questions = [asked for asked in entry.questions if asked[0].token not in gone]
            queue.waiting = [entry for entry in queue.waiting if entry.questions]

    def next_timer(self) -> int | None:
        """When a held question is due (ms), None where none waits or each waits for an answer first."""
        return min(
            (entry.due_ms for queue in self._queues.values() if not queue.in_flight for entry in queue.waiting),
            default=None,
        )

    def has_waiting(self, queue_key: int) -> bool:
        """Whether a question waits for that queue's next request, now or later."""
        queue = self._queues.get(queue_key)
        return queue is not None and bool(queue.waiting)

    def queues_due(self, now_ms: int) -> list[int]:
        """The queues for which `next_request` has something."""
        return [
            queue_key
            for queue_key, queue in self._queues.items()
            if not queue.in_flight and any(entry.due_ms <= now_ms for entry in queue.waiting)
        ]

    def _enqueue(self, queue: _Queue, question: Question, asked_ms: int, *, due_ms: int) -> None:
        for entry in queue.waiting:
            if entry.takes(question):
                entry.questions.append((question, asked_ms))
                entry.due_ms = min(entry.due_ms, due_ms)
                return
        queue.waiting.append(_Entry([(question, asked_ms)], due_ms))

    def _may_hold(
        self, question: Question, codes: Mapping[TopicPartition, ErrorCode], asked_ms: int, now_ms: int
    ) -> bool:
        return (
            question.client.supports_implicit_add
            and now_ms < asked_ms + self.config.retry_backoff_ms_max
            and any(codes.get(partition) is ErrorCode.CONCURRENT_TRANSACTIONS for partition in question.partitions)
        )


def refused(question: Question, error_code: ErrorCode) -> Answer:
    """One error for all of a question's partitions; COORDINATOR_NOT_AVAILABLE when nobody knows the coordinator."""
    return _answer(question, dict.fromkeys(question.partitions, error_code))


def _answer(question: Question, codes: Mapping[TopicPartition, ErrorCode]) -> Answer:
    refusals = {
        partition: client_refusal(question.client, codes.get(partition, ErrorCode.UNKNOWN_SERVER_ERROR))
        for partition in question.partitions
    }
    return Answer(
        question.token, {partition: refusal for partition, refusal in refusals.items() if refusal is not None}
    )
