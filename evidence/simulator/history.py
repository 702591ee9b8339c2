"""Writes the history of a run (docs/history.md), and remembers beside it what every transaction promised."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from evidence.world.loop import SimLoop
from oncelog.types import ProducerIdAndEpoch, TopicPartition


class Outcome(Enum):
    """What the workload knows of a transaction's end."""

    OK = "ok"
    FAIL = "fail"
    INFO = "info"


@dataclass(eq=False)
class Transaction:
    """One operation: its steps as they happen, its end once it is known.

    `is_decided`: two-phase; the database holds the decision (True: commit, False: abort). `offsets` are positions of
    `group` that were sent with the transaction. `operator_commits`: somebody asked to commit it as far as it had come;
    unless its producer was told that it is committed, each of its records may be.
    """

    process: int
    steps: list[Any] = field(default_factory=list)
    outcome: Outcome | None = None
    is_decided: bool | None = None
    commit_attempted: bool = False
    operator_commits: bool = False
    begun_at: int = 0
    group: str = ""
    offsets: dict[TopicPartition, int] = field(default_factory=dict)

    def send(self, key: TopicPartition, value: int) -> list[Any]:
        """Note a send; the place for its offset is given back."""
        where = [None, value]
        self.steps.append(["send", str(key), where])
        return where

    def poll(self, records: dict[str, list[list[int]]]) -> None:
        """Note a poll."""
        if records:
            self.steps.append(["poll", records])

    @property
    def may_be_part(self) -> bool:
        """Whether a part of it may be committed."""
        return self.operator_commits and self.outcome is not Outcome.OK

    @property
    def is_unknown(self) -> bool:
        """Whether nobody knows what of it is committed."""
        return self.outcome is Outcome.INFO or self.may_be_part

    @property
    def sends(self) -> list[tuple[str, int]]:
        """Key and value of everything it sent."""
        return [(step[1], step[2][1]) for step in self.steps if step[0] == "send"]


class History:
    """The events of all processes, in the order of time."""

    def __init__(self, loop: SimLoop) -> None:
        self._loop = loop
        self.lines: list[str] = []
        self.transactions: list[Transaction] = []
        self.operator_commits: set[ProducerIdAndEpoch] = set()  # what somebody asked to commit
        self._next_process = 0
        self._next_value: dict[TopicPartition, int] = {}

    def new_process(self) -> int:
        """A number that no process had before."""
        self._next_process += 1
        return self._next_process

    def new_value(self, key: TopicPartition) -> int:
        """A value that is sent once."""
        self._next_value[key] = self._next_value.get(key, 0) + 1
        return self._next_value[key]

    def _now(self) -> int:
        return int(self._loop.time() * 1e9)

    def _event(self, kind: str, process: int, function: str, value: Any, time: int | None = None) -> None:
        event = {
            "index": len(self.lines),
            "type": kind,
            "process": process,
            "time": self._now() if time is None else time,
            "f": function,
            "value": value,
        }
        self.lines.append(json.dumps(event))

    def assigned(self, process: int, keys: list[TopicPartition]) -> None:
        """A process reads these keys from now on, wherever its group stands."""
        names = [str(key) for key in keys]
        self._event("invoke", process, "assign", names)
        self._event("ok", process, "assign", names)

    def begin(self, process: int) -> Transaction:
        """A transaction begins."""
        self._event("invoke", process, "txn", None)
        transaction = Transaction(process, begun_at=self._now())
        self.transactions.append(transaction)
        return transaction

    def end(self, transaction: Transaction, outcome: Outcome) -> None:
        """A transaction ended."""
        assert transaction.outcome is None
        transaction.outcome = outcome
        if transaction.operator_commits:
            self._end_apart(transaction, outcome)
        else:
            self._event(outcome.value, transaction.process, "txn", transaction.steps)

    def _end_apart(self, transaction: Transaction, outcome: Outcome) -> None:
        """What it read, for itself: its own records may have been among it; what it sent, together only where that is known."""
        sends = [step for step in transaction.steps if step[0] == "send"]
        rest = [step for step in transaction.steps if step[0] != "send"]
        self._event(outcome.value, transaction.process, "txn", rest)
        for parts in [[send] for send in sends] if transaction.may_be_part else [sends]:
            process = self.new_process()
            self._event("invoke", process, "txn", None, transaction.begun_at)
            self._event((Outcome.INFO if transaction.may_be_part else outcome).value, process, "txn", parts)
