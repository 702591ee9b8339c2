"""Plans of transactions at once, drawn by Hypothesis, played against a broker, and judged by `oncelog.checker`.

    @given(plans())
    def test_nothing_is_lost(broker, plan):
        assert_history(play(broker, f"t-{uuid4()}", plan))

What happens between client and broker is the test's: a FaultyProxy that loses answers, a broker that is killed (`Step("kill")`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import field
from typing import TYPE_CHECKING, Any

from oncelog.checker.anomalies import check
from oncelog.checker.history import read_history
from oncelog.errors import InvalidArgument, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.testing.assertions import Servers, committed_records, options_of
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from oncelog import sync

ACTIONS = ("send", "commit", "abort", "poll")
PROCESSES, PARTITIONS, STEPS_MAX = 3, 2, 30
_POLL_MS = 20
_SHOWN_MAX = 10


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a plan: `action` is one of ACTIONS, done by a process; or another word, which `play` looks up in its `also`."""

    action: str
    process: int = 0
    partition: int = 0


def plans(
    *,
    processes: int = PROCESSES,
    partitions: int = PARTITIONS,
    steps_max: int = STEPS_MAX,
    actions: Sequence[str] = ACTIONS,
) -> SearchStrategy[tuple[Step, ...]]:
    """A strategy of plans: steps of several processes, in any order. Needs `pip install hypothesis`.

    A process begins a transaction with its first "send"; "commit" and "abort" end it, "poll" reads what is committed.
    """
    from hypothesis import strategies

    step = strategies.builds(
        Step,
        strategies.sampled_from(list(actions)),
        strategies.integers(0, processes - 1),
        strategies.integers(0, partitions - 1),
    )
    return strategies.lists(step, max_size=steps_max).map(tuple)


def play(
    servers: Servers, topic: str, plan: Iterable[Step], *, also: Mapping[str, Callable[[], object]] | None = None
) -> list[str]:
    """Do the steps with real clients; the history, as lines in the form of docs/history.md.

    `topic` must not exist: it is made, with as many partitions as are named. `also` says what steps with other actions do:
    {"kill": broker.kill}. At the end open transactions are aborted, and everything that is committed is read once more, so
    that what was lost is seen. A commit that raises is recorded as one whose outcome nobody knows, and its process goes on with
    a new producer. Raises InvalidArgument, and KafkaError where no clients can be had at all.
    """
    steps, others = tuple(plan), dict(also or {})
    for step in steps:
        if step.action not in ACTIONS and step.action not in others:
            raise InvalidArgument(f"{step}: no such action; `also` says what others than {', '.join(ACTIONS)} do")
    with ExitStack() as stack:
        player = _Player(servers, topic, 1 + max((step.partition for step in steps), default=0), stack)
        for step in steps:
            if step.action in others:
                others[step.action]()
            else:
                player.do(step)
        player.end()
        return player.lines


def assert_history(lines: Iterable[str]) -> None:
    """No promise of Kafka's transactions was broken. Raises AssertionError that names each anomaly (docs/history.md)."""
    found = [each for each in check(read_history(lines)).anomalies if each.fails]
    if found:
        shown = "; ".join(f"{each.name}: {each.text}" for each in found[:_SHOWN_MAX])
        raise AssertionError(f"{len(found)} anomalies: {shown}")


@dataclass
class _Open:
    """What a process has sent in its transaction: key, value, and what tells its offset."""

    sent: list[tuple[str, int, sync.SentRecord | None]] = field(default_factory=list)


class _Player:
    """One thread does everything, in the order of the plan; transactions overlap all the same."""

    def __init__(self, servers: Servers, topic: str, partitions: int, stack: ExitStack) -> None:
        from oncelog import sync

        self.lines: list[str] = []
        self._servers, self._options, self._topic, self._stack = servers, options_of(servers), topic, stack
        self._producers: dict[int, sync.Producer] = {}
        self._consumers: dict[int, sync.Consumer] = {}
        self._open: dict[int, _Open] = {}
        self._partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self._value_count = 0
        with sync.Admin(**self._options) as admin:
            admin.create_topics({topic: partitions})

    def do(self, step: Step) -> None:
        if step.action == "send":
            self._send(step.process, step.partition)
        elif step.action == "poll":
            self._poll(step.process)
        elif step.process in self._open:
            self._end(step.process, step.action)

    def end(self) -> None:
        for process in sorted(self._open):
            self._end(process, "abort")
        reader = self._reader(max([0, *self._producers, *self._consumers]) + 1)
        self._note("invoke", reader, "assign", self._keys())
        self._note("ok", reader, "assign", self._keys())
        self._note("invoke", reader, "txn", [])
        found: dict[str, list[list[int]]] = {}
        for record in committed_records(self._servers, self._topic):
            found.setdefault(str(record.topic_partition), []).append([record.offset, int(record.value or b"")])
        self._note("ok", reader, "txn", [["poll", found]])

    def _send(self, process: int, partition: int) -> None:
        producer = self._producers.get(process) or self._new_producer(process)
        if process not in self._open:
            producer.begin_transaction()
            self._open[process] = _Open()
            self._note("invoke", process, "txn", [])
        self._value_count += 1
        key = str(self._partitions[partition])
        try:
            sent = producer.send(self._topic, b"%d" % self._value_count, partition=partition)
        except KafkaError:
            sent = None  # the transaction has failed: its end will say so
        self._open[process].sent.append((key, self._value_count, sent))

    def _end(self, process: int, how: str) -> None:
        producer, opened = self._producers[process], self._open.pop(process)
        try:
            if how == "commit":
                producer.commit_transaction()
            else:
                producer.abort_transaction()
        except KafkaError:
            self._note("info", process, "txn", _value_of(opened))
            del self._producers[process]
            producer.stop()
        else:
            self._note("ok" if how == "commit" else "fail", process, "txn", _value_of(opened))

    def _poll(self, process: int) -> None:
        reader, consumer = self._reader(process), self._consumers.get(process)
        if consumer is None:
            options = self._options | {"isolation_level": "read_committed", "enable_auto_commit": False}
            consumer = self._consumers[process] = self._stack.enter_context(_consumer(options))
            self._note("invoke", reader, "assign", self._keys())
            consumer.assign(self._partitions)
            consumer.seek_to_beginning()
            self._note("ok", reader, "assign", self._keys())
        self._note("invoke", reader, "txn", [])
        found: dict[str, list[list[int]]] = {}
        for record in consumer.poll(timeout_ms=_POLL_MS):
            found.setdefault(str(record.topic_partition), []).append([record.offset, int(record.value or b"")])
        self._note("ok", reader, "txn", [["poll", found]])

    def _new_producer(self, process: int) -> sync.Producer:
        from oncelog import sync

        made = sync.Producer(**self._options, transactional_id=f"{self._topic}-{process}")
        self._producers[process] = self._stack.enter_context(made)
        return made

    def _reader(self, process: int) -> int:
        return 1_000 + process

    def _keys(self) -> list[str]:
        return [str(each) for each in self._partitions]

    def _note(self, kind: str, process: int, function: str, value: list[Any]) -> None:
        event = {"index": len(self.lines), "type": kind, "process": process, "time": time.monotonic_ns()}
        self.lines.append(json.dumps(event | {"f": function, "value": value}))


def _value_of(opened: _Open) -> list[Any]:
    """The sends of a transaction, with the offsets that were acknowledged."""
    found: list[Any] = []
    for key, value, sent in opened.sent:
        offset = sent.result().offset if sent is not None and sent.done() and sent.error is None else None
        found.append(["send", key, [offset, value]])
    return found


def _consumer(options: dict[str, Any]) -> sync.Consumer:
    from oncelog import sync

    return sync.Consumer(**options)
