"""What `events` holds, and what must come of it: pure, so that the judge computes it without Spark."""

from __future__ import annotations

import collections
import random
from dataclasses import dataclass

BEGIN_MS = 1_700_000_000_000
STEP_MS = 20  # of event time, from one number to the next
WINDOW_S = 10
LATE_S = 600
"""How long Spark waits for late events, far longer than partitions are read apart: nothing is late, so all must be counted."""
ANSWERED_MS = 5_000
BUCKETS, KEYS, PARTITIONS = 8, 97, 4
REPEATED_ONE_IN = 10
CLOSING_MS = BEGIN_MS + 1_000_000_000
"""Of the last event of each partition, which closes all windows before it."""


@dataclass(frozen=True, slots=True)
class Event:
    """`number` says everything: key, value and time."""

    number: int
    partition: int
    timestamp_ms: int


def events(count: int, seed: int) -> list[Event]:
    """Numbers from 0 on in the order of their times, some of them again a little later, and what closes the windows."""
    chance = random.Random(seed)
    made = []
    for number in range(count):
        event = Event(number, number % KEYS % PARTITIONS, BEGIN_MS + number * STEP_MS)
        made.append(event)
        if chance.randrange(REPEATED_ONE_IN) == 0:
            made.append(event)
    closing = [Event(count + partition, partition, CLOSING_MS) for partition in range(PARTITIONS)]
    return made + closing


def answers(count: int, seed: int) -> list[Event]:
    """One for each number, a little before or after its event, shuffled among its neighbours; and what closes them."""
    chance = random.Random(seed + 1)
    made = [
        Event(
            number,
            chance.randrange(PARTITIONS),
            BEGIN_MS + number * STEP_MS + chance.randrange(-ANSWERED_MS, ANSWERED_MS),
        )
        for number in range(count)
    ]
    made.sort(key=lambda each: each.timestamp_ms)
    closing = [Event(count + PARTITIONS + partition, partition, CLOSING_MS) for partition in range(PARTITIONS)]
    return made + closing


def windows(count: int) -> collections.Counter[str]:
    """Of the numbers below `count`, as the job writes them: start:bucket:events:total."""
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for number in range(count):
        time_ms = BEGIN_MS + number * STEP_MS
        where = (time_ms - time_ms % (WINDOW_S * 1000), number % BUCKETS)
        events, total = found.get(where, (0, 0))
        found[where] = (events + 1, total + number)
    return collections.Counter(f"{w}:{b}:{events}:{total}" for (w, b), (events, total) in found.items())


@dataclass(frozen=True, slots=True)
class Difference:
    """What was found, beside what was expected."""

    duplicates: int
    losses: int
    wrong: int

    def __str__(self) -> str:
        return f"{self.duplicates} duplicates, {self.losses} losses, {self.wrong} wrong"

    @property
    def is_exact(self) -> bool:
        """Whether nothing differs."""
        return self == Difference(0, 0, 0)


def difference(found: collections.Counter[str], expected: collections.Counter[str]) -> Difference:
    """Of two multisets without repetitions in `expected`."""
    return Difference(
        duplicates=sum(n - 1 for n in found.values()),
        losses=sum(1 for each in expected if each not in found),
        wrong=sum(1 for each in found if each not in expected),
    )
