"""A world in memory for `Processing`: partitions, a group's positions, transactions. Whatever a step does may fail; what is
committed is kept, so that a test can say whether each record's outcome is there once."""

from __future__ import annotations

import random
from collections import Counter

from oncelog.core.processing.machine import Processing
from oncelog.core.processing.steps import (
    Abort,
    CheckEnd,
    End,
    Failure,
    Item,
    Limits,
    Poll,
    Renew,
    Rewind,
    Step,
    Transform,
    Write,
)
from oncelog.errors import IllegalGeneration, ProducerFenced, RecordTooLarge, RequestTimedOut
from oncelog.types import TopicPartition

PARTITIONS = [TopicPartition("in", 0), TopicPartition("in", 1)]
RECORDS = 30


class World:
    """`poison`: records whose transform always fails; `unstorable`: whose output no broker takes."""

    def __init__(self, seed: int, limits: Limits, *, trouble: float) -> None:
        self.chance, self.trouble = random.Random(seed), trouble
        self.poison = {(tp, offset) for tp in PARTITIONS for offset in range(RECORDS) if self.draw(0.05)}
        self.unstorable = {(tp, offset) for tp in PARTITIONS for offset in range(RECORDS) if self.draw(0.05)}
        self.committed_offsets: dict[TopicPartition, int] = {}
        self.outputs: list[tuple[TopicPartition, int]] = []
        self.dead: list[tuple[TopicPartition, int]] = []
        self.positions = dict.fromkeys(PARTITIONS, 0)
        self.owned = set(PARTITIONS)
        self.open: Write | None = None
        self.now_ms = 0.0
        self.machine = Processing(limits)
        self.is_dead_letter_kept = True

    def draw(self, probability: float) -> bool:
        return self.chance.random() < probability

    def run(self, steps_max: int = 20_000) -> BaseException | None:
        """To the end; what it ended of. After enough steps there is no more trouble: it must come to an end."""
        for count in range(steps_max):
            if count == steps_max // 2:
                self.trouble = 0
            step = self.machine.next_step(self.now_ms)
            if isinstance(step, End):
                return step.error
            self.now_ms += self.chance.choice((0, 1, 20))
            self.carry_out(step)
        raise AssertionError(f"no end: {self.machine.phase}, {self.machine.hand_count} in hand")

    def carry_out(self, step: Step) -> None:
        if isinstance(step, Poll):
            self.poll(step)
        elif isinstance(step, CheckEnd):
            is_at_end = all(self.positions[tp] == RECORDS for tp in PARTITIONS)
            self.machine.checked_end(is_at_end, self.now_ms, is_held_back=self.draw(self.trouble))
        elif isinstance(step, Transform):
            self.transform(step)
        elif isinstance(step, Write):
            self.write(step)
        else:
            self.mend(step)

    def poll(self, step: Poll) -> None:
        if self.draw(self.trouble):
            self.rebalance()
        self.now_ms += 0 if self.draw(0.5) else step.timeout_ms
        if self.draw(self.trouble):
            self.machine.poll_failed(RequestTimedOut("no broker"), self.now_ms)
            return
        items = []
        for tp in sorted(self.owned) if not step.pauses else ():
            count = min(self.chance.randint(0, step.records_max), step.records_max - len(items))
            for offset in range(self.positions[tp], min(self.positions[tp] + count, RECORDS)):
                items.append(Item(tp, offset, 10, None))
                self.positions[tp] = offset + 1
        self.machine.polled(items, self.now_ms, pauses=step.pauses)

    def rebalance(self) -> None:
        """A partition goes and comes back, where the group stands with it."""
        gone = set(self.chance.sample(PARTITIONS, self.chance.randint(1, 2)))
        self.machine.gone(gone)
        for tp in gone:
            self.positions[tp] = self.committed_offsets.get(tp, 0)

    def transform(self, step: Transform) -> None:
        for count, item in enumerate(step.items):
            if item[:2] in self.poison or self.draw(self.trouble / 5):
                self.machine.transformed(count, Failure(ValueError("poison")), self.now_ms)
                return
            if count and self.draw(0.1):
                self.machine.transformed(count, None, self.now_ms)  # its time was over
                return
        self.machine.transformed(len(step.items), None, self.now_ms)

    def write(self, step: Write) -> None:
        assert self.open is None, "a second transaction while one is open"
        self.open = step
        if step.dead is None:
            assert not any(item[:2] in self.poison for item in step.items)
        if step.dead is None and any(item[:2] in self.unstorable for item in step.items):
            if self.draw(0.5):
                index = next(i for i, item in enumerate(step.items) if item[:2] in self.unstorable)
                self.machine.refused(index, RecordTooLarge("too large"), self.now_ms)
            else:
                self.machine.failed(RecordTooLarge("one of them"), self.now_ms, is_open=True)
            return
        if self.draw(self.trouble):
            kind, is_open = self.chance.choice(
                [
                    (IllegalGeneration, True),
                    (RequestTimedOut, True),
                    (RequestTimedOut, False),
                    (ProducerFenced, False),
                ]
            )
            if kind is RequestTimedOut and not is_open and self.draw(0.5):
                self.commit()  # and its answer was lost
            self.machine.failed(kind("trouble"), self.now_ms, is_open=is_open)
            return
        self.commit()
        self.machine.committed(len(step.items))

    def commit(self) -> None:
        assert self.open is not None
        for tp, next_offset in self.open.next_offsets.items():
            mine = [item.offset for item in self.open.items if item.topic_partition == tp]
            assert mine == list(range(self.committed_offsets.get(tp, 0), next_offset)), "a gap, or twice"
            self.committed_offsets[tp] = next_offset
        kept = self.dead if self.open.dead is not None else self.outputs
        kept += [item[:2] for item in self.open.items]
        self.open = None

    def mend(self, step: Step) -> None:
        if self.draw(self.trouble):
            kind = self.chance.choice([RequestTimedOut, ProducerFenced])
            self.machine.failed(kind("trouble"), self.now_ms, is_open=False)
        elif isinstance(step, Abort):
            assert self.open is not None
            self.open = None
            self.machine.aborted()
        elif isinstance(step, Renew):
            self.open = None
            self.machine.renewed()
        elif isinstance(step, Rewind):
            assert self.open is None
            for tp, first in step.first_offsets.items():
                self.positions[tp] = self.committed_offsets.get(tp, first)
            self.machine.rewound()

    def problems(self) -> list[str]:
        """What a reader of the outputs would miss, or see twice."""
        expected = {(tp, offset) for tp in PARTITIONS for offset in range(RECORDS)}
        found = Counter(self.outputs + self.dead)
        problems = [f"lost {each}" for each in expected - found.keys()]
        problems += [f"twice {each}" for each, count in found.items() if count > 1]
        problems += [f"dead without need {each}" for each in set(self.dead) - self.poison - self.unstorable]
        problems += [f"written {each}" for each in set(self.outputs) & (self.poison | self.unstorable)]
        for tp in PARTITIONS:
            offsets = [offset for where, offset in self.outputs if where == tp]
            problems += [f"order in {tp}: {offsets}"] if offsets != sorted(offsets) else []
        return problems
