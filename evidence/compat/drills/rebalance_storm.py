"""Ten of our Consumers with cooperative-sticky, one joining or leaving at a time, fifty times, while records come.

Every record is processed at least once; and nobody's partition is taken away without somebody else getting it: what a
rebalance leaves with its owner is read on through the rebalance (KIP-429).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence

from evidence.compat.drills.outcome import Outcome, Scale
from evidence.compat.drills.reading import Row, create_topics, produce
from oncelog import Consumer, TopicPartition
from oncelog.errors import IllegalGeneration, RebalanceInProgress

MEMBERS = 10
PARTITIONS = 20
RECORDS_PER_S = 1000
SETTLE_S = 60


class Member:
    """One consumer, what it has read, and what it was given and lost."""

    def __init__(self, storm: Storm, name: str) -> None:
        self.storm, self.name = storm, name
        self.owned: set[int] = set()
        self.is_leaving = False

    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        for where in assigned:
            self.storm.given(self, where.partition)

    async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        for where in revoked:
            self.storm.taken(self, where.partition)

    async def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> None:
        self.storm.problems.append(f"{self.name} lost {len(lost)} partitions: its session ran out")
        await self.on_partitions_revoked(lost)

    async def live(self) -> None:
        """Read and commit until it is told to leave."""
        async with Consumer(
            bootstrap_servers=self.storm.bootstrap,
            group_id="storm",
            partition_assignment_strategy="cooperative-sticky",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=10_000,
            heartbeat_interval_ms=200,
        ) as consumer:
            consumer.subscribe(["storm"], listener=self)
            while not self.is_leaving:
                records = await consumer.poll(100)
                for record in records:
                    self.storm.read(self, record.partition, record.value or b"")
                if records:
                    with contextlib.suppress(IllegalGeneration, RebalanceInProgress):
                        await consumer.commit()  # else the next commit covers these, or the next owner reads them again


class Storm:
    """What all members did, and what of it may not be."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.seen: Counter[bytes] = Counter()
        self.problems: list[str] = []
        self.last_owner: dict[int, str] = {}
        self.last_read: dict[int, tuple[str, float]] = {}
        self.kept_gap_s = 0.0  # the longest silence of a partition that stayed with its owner
        self.moves = 0

    def given(self, member: Member, partition: int) -> None:
        if self.last_owner.get(partition) == member.name:
            self.problems.append(f"{member.name} had to give up partition {partition} and got it back")
        self.last_owner[partition] = member.name
        self.last_read.pop(partition, None)
        member.owned.add(partition)
        self.moves += 1

    def taken(self, member: Member, partition: int) -> None:
        member.owned.discard(partition)
        self.last_read.pop(partition, None)

    def read(self, member: Member, partition: int, value: bytes) -> None:
        self.seen[value] += 1
        now = time.monotonic()
        owner, before = self.last_read.get(partition, (member.name, now))
        if owner == member.name:
            self.kept_gap_s = max(self.kept_gap_s, now - before)
        self.last_read[partition] = (member.name, now)


def drill(bootstrap: str, scale: Scale, chance: random.Random) -> Outcome:
    """`changes` members join or leave, one at a time, each as soon as the one before has settled."""
    create_topics(bootstrap, storm=PARTITIONS)
    return asyncio.run(run(bootstrap, scale.pick(short=20, full=50), chance))


async def run(bootstrap: str, changes: int, chance: random.Random) -> Outcome:
    began = time.monotonic()
    storm, stopped, rows = Storm(bootstrap), threading.Event(), endless_rows()
    feed = asyncio.create_task(asyncio.to_thread(feed_until, bootstrap, rows, stopped))
    members: dict[Member, asyncio.Task[None]] = {}
    numbers = iter(range(10_000))

    async def join() -> None:
        member = Member(storm, f"member {next(numbers)}")
        members[member] = asyncio.create_task(member.live())
        await settled(storm, members)

    async def leave() -> None:
        member = chance.choice(list(members))
        member.is_leaving = True
        await members.pop(member)
        await settled(storm, members)

    slowest_s = 0.0
    try:
        for _ in range(MEMBERS):
            await join()
        for change in range(changes):
            at = time.monotonic()
            await (leave() if change % 2 == 0 else join())
            slowest_s = max(slowest_s, time.monotonic() - at)
    finally:
        stopped.set()
        produced = await feed
    deadline = time.monotonic() + SETTLE_S
    while len(storm.seen) < produced and time.monotonic() < deadline:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    for member, task in members.items():
        member.is_leaving = True
        with contextlib.suppress(asyncio.CancelledError):
            await task
    if missing := produced - len(storm.seen):
        storm.problems.append(f"{missing} of {produced} records were never processed")
    again = sum(times - 1 for times in storm.seen.values())
    return Outcome(
        f"{produced:,} records, {MEMBERS} members, {changes} of them left or joined, {storm.moves} partitions moved, "
        f"{again} records processed twice, a kept partition silent for at most {storm.kept_gap_s:.2f} s, slowest rebalance "
        f"{slowest_s:.1f} s, {time.monotonic() - began:.0f} s",
        storm.problems,
    )


async def settled(storm: Storm, members: dict[Member, asyncio.Task[None]]) -> None:
    """Wait until every partition has an owner and nobody has two more than another."""
    deadline = time.monotonic() + SETTLE_S
    while True:
        counts = [len(member.owned) for member in members]
        if sum(counts) == PARTITIONS and max(counts) - min(counts) <= 1:
            return
        for task in members.values():
            if task.done():
                task.result()
        if time.monotonic() > deadline:
            storm.problems.append(f"never settled: {counts}")
            return
        await asyncio.sleep(0.02)


def endless_rows() -> list[Row]:
    """More than the storm can last."""
    return [(index % PARTITIONS, b"", b"%d" % index) for index in range(RECORDS_PER_S * 600)]


def feed_until(bootstrap: str, rows: list[Row], stopped: threading.Event) -> int:
    """Produce at the pace until it is over; how many."""
    return produce(bootstrap, "storm", rows, RECORDS_PER_S, stopped)
