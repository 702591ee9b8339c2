"""Conversations that nobody thought of: clients of both protocols do at random what clients may do, and what they may not.

What is known to differ (docs/differences-from-kafka.md) is left out: a duplicate after its transaction's end, EndTxn of the
old protocol after implicit add, an init with an epoch ahead, the retry of the bump to the last epoch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from evidence.differential.conversation import READ_COMMITTED, Conversation
from evidence.differential.conversations_levels import level
from evidence.differential.scenario import family

SEEDS = [f"seed{number}" for number in range(25)]
LATE_SEEDS = [f"seed{number}" for number in range(15)]
STEPS = 24
LAST = 32766


class Client:
    """One transactional id, with what its client knows and a model of what the broker knows."""

    def __init__(self, x: Conversation, rng: random.Random, topic: str, name: str, *, is_new: bool) -> None:
        self.x, self.rng, self.topic, self.name, self.is_new = x, rng, topic, name, is_new
        self.producer_id, self.epoch_now = x.init(name, v=5 if is_new else 4)
        self.sequences = [0, 0]
        self.added: set[int] = set()
        self.written: set[int] = set()  # partitions with a batch of the open transaction
        self.has_offsets = False
        self.is_open = False

    @property
    def who(self) -> tuple[int, int]:
        return self.producer_id, self.epoch_now

    # what a client does

    def add(self) -> None:
        partition = self.rng.randrange(2)
        self.x.add(self.name, *self.who, [(self.topic, [partition])], v=self.rng.randrange(4))
        self.added.add(partition)
        self.is_open = True

    def produce(self) -> None:
        partition = self.rng.randrange(2)
        if not self.is_new and partition not in self.added:
            self.add()
            if partition not in self.added:
                return
        self.send(partition, self.sequences[partition], self.rng.randint(1, 3))

    def send(self, partition: int, sequence: int, count: int = 1, label: str = "") -> None:
        found = self.x.produce(
            self.topic,
            partition,
            n=count,
            producer=self.who,
            sequence=sequence,
            transactional_id=self.name,
            v=12 if self.is_new else self.rng.choice((9, 11)),
            label=label,
        )
        if self.is_new:
            self.is_open = True
        if found.error_code == 0 and sequence == self.sequences[partition]:
            self.sequences[partition] += count
            self.written.add(partition)

    def offsets(self) -> None:
        if not self.is_new and not self.has_offsets:
            self.x.add_offsets(self.name, *self.who, "g")
        version = 5 if self.is_new else self.rng.choice((0, 2, 3, 4))
        self.x.txn_offsets(self.name, "g", *self.who, [(self.topic, 0, self.rng.randrange(100))], v=version)
        self.has_offsets = self.is_open = True

    def end(self) -> None:
        self.finish(commit=self.rng.random() < 0.6)

    def finish(self, *, commit: bool) -> None:
        before = self.who
        ended = self.x.end(self.name, *before, commit, v=5 if self.is_new else self.rng.choice((1, 3, 4)), settle=True)
        if self.is_new and ended[0] >= 0:
            self.producer_id, self.epoch_now = ended
            self.sequences = [0, 0]
        was_written = self.written
        self.added, self.written, self.has_offsets, self.is_open = set(), set(), False, False
        for partition in was_written:
            self.settled(partition)
        if self.rng.random() < 0.4:
            result = self.rng.random() < 0.5
            if self.is_new and not commit and not result:
                result = True  # an abort of the old epoch is a retry; of anything else it would be an empty abort
            again = self.x.end(self.name, *before, result, v=5 if self.is_new else 4, label=" once more", settle=True)
            if self.is_new and again[0] >= 0:  # the first one was refused, this one is an end
                self.producer_id, self.epoch_now = again

    def settled(self, partition: int) -> None:
        """Wait for this partition's marker: another client's transaction may hold the last stable offset."""

        def ended() -> object:
            asked = [{"name": self.topic, "partition_indexes": [partition]}]
            rows = self.x.call("DescribeProducers", 0, topics=asked).topics[0].partitions[0].active_producers
            still = [row for row in rows if row.producer_id == self.producer_id and row.current_txn_start_offset >= 0]
            return None if still else True

        self.x.until(ended)

    # what it may not do

    def gap(self) -> None:
        partition = self.rng.randrange(2)
        if partition in self.written:
            self.send(partition, self.sequences[partition] + 1, label=" gap")

    def duplicate(self) -> None:
        for partition in self.written:
            if self.sequences[partition] > 0:
                self.x.produce(
                    self.topic,
                    partition,
                    n=1,
                    producer=self.who,
                    sequence=self.sequences[partition] - 1,
                    transactional_id=self.name,
                    v=12 if self.is_new else 11,
                    label=" perhaps a duplicate",
                )

    def stale(self) -> None:
        """With the epoch before, or the one after, which nobody has."""
        step = self.rng.choice((-1, 1))
        producer = self.producer_id, self.epoch_now + step
        if producer[1] < 0:
            return
        kind = self.rng.randrange(4)
        if kind == 0:
            self.x.add(self.name, *producer, [(self.topic, [0])], v=self.rng.randrange(4), label=" wrong epoch")
        elif kind == 1 and self.is_open:
            self.x.end(self.name, *producer, self.rng.random() < 0.5, v=self.rng.randrange(6), label=" wrong epoch")
        elif kind == 2:
            self.x.txn_offsets(self.name, "g", *producer, [(self.topic, 0, 1)], v=5, label=" wrong epoch")
        else:
            self.x.add4([(self.name, *producer, True, [(self.topic, [0])])], label=" wrong epoch")

    def resume(self) -> None:
        """KIP-360, while nothing is open; its retry too."""
        if self.is_open:
            self.finish(commit=False)
        before = self.who
        self.producer_id, self.epoch_now = self.x.init(self.name, *before, v=5 if self.is_new else 4)
        if self.rng.random() < 0.5 and self.epoch_now != LAST:
            self.x.init(self.name, *before, label=" retry")
        self.sequences = [0, 0]

    def restart(self) -> None:
        """A newer instance of the client, perhaps of the other protocol."""
        was_written = self.written
        self.is_new = self.rng.random() < 0.5
        self.producer_id, self.epoch_now = self.x.init(self.name, v=5 if self.is_new else 4, label=" a newer instance")
        self.sequences, self.added, self.written = [0, 0], set(), set()
        self.has_offsets = self.is_open = False
        for partition in was_written:
            self.settled(partition)

    # what anybody may ask

    def look(self) -> None:
        self.x.describe(self.name)
        self.x.producers(self.topic, self.rng.randrange(2))


@family("core", SEEDS)
def random_transactions(
    x: Conversation, seed: str, now_and_then: Callable[[random.Random], None] = lambda rng: None
) -> None:
    rng = random.Random(f"transactions {seed}")
    t = x.topic("a", 2)
    x.find_group("g")
    clients = [Client(x, rng, t, name, is_new=rng.random() < 0.6) for name in ("t", "u")]
    for _ in range(STEPS):
        client = rng.choice(clients)
        doing: list[tuple[int, Callable[[], None]]] = [
            (30, client.produce),
            (6, client.add),
            (8, client.offsets),
            (20, client.end),
            (6, client.gap),
            (6, client.duplicate),
            (10, client.stale),
            (6, client.resume),
            (5, client.restart),
            (6, client.look),
        ]
        rng.choices([act for _, act in doing], [weight for weight, _ in doing])[0]()
        if rng.random() < 0.2:
            x.produce(t, rng.randrange(2), [b"plain"])
            now_and_then(rng)
    for client in clients:
        if client.is_open:
            client.finish(commit=rng.random() < 0.5)
    for partition in range(2):
        x.fetch(t, partition, 0, READ_COMMITTED)
    x.offset_fetch("g", [(t, [0])], stable=True)


@family("seeded", LATE_SEEDS, t=LAST - 4, u=LAST - 3)
def random_at_the_last_epochs(x: Conversation, seed: str) -> None:
    """The same, with ids that have been used thirty thousand times."""
    random_transactions(x, f"late {seed}")


@family("levels", LATE_SEEDS[:8])
def random_level_changes(x: Conversation, seed: str) -> None:
    """The same, while transaction.version goes from 2 to 1 and back."""
    level(x, 2)
    random_transactions(x, f"levels {seed}", lambda rng: level(x, rng.choice((1, 2))))
    level(x, 2)


def random_scenarios(seeds: Iterable[str]) -> list[str]:
    """Conversations of other seeds, by name."""
    seeds = list(seeds)
    family("core", seeds)(random_transactions)
    family("seeded", seeds, t=LAST - 4, u=LAST - 3)(random_at_the_last_epochs)
    return [f"random_{kind}_{seed}" for seed in seeds for kind in ("transactions", "at_the_last_epochs")]
