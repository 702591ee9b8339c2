"""Members of share groups (KIP-932): they poll, say what became of records, leave, are killed and come back.

What was given to whom, and what a commit confirmed, is noted here and judged: nobody gets a record that is stored as done, nobody
gets one that was never committed, and in the end every committed record was given to somebody. Whose connection the broker has
lost may still get what was on its way, when others have it: only the broker knows that, and it is not judged.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from evidence.simulator.archive import Archive
from evidence.simulator.checkers.cleaning import fates_of
from evidence.simulator.cluster import KEYS, TOPICS, Cluster
from evidence.simulator.faults import ShareOptions
from evidence.simulator.knobs import options_of
from evidence.simulator.lives import Lives, client_settings
from evidence.world.loop import Process
from oncelog.broker.share.share_partition import SharePartition
from oncelog.client.admin.admin import Admin
from oncelog.client.records import ShareRecord
from oncelog.client.sharing.share_consumer import ShareConsumer
from oncelog.core.share.states import ShareState
from oncelog.errors import IllegalState, KafkaError
from oncelog.types import TopicPartition

LIFE_ENDS = (KafkaError, TimeoutError)
FETCH_WAIT_MS = 200
SEEN = {"share.auto.offset.reset": "earliest", "share.isolation.level": "read_committed"}
Place = tuple[TopicPartition, int]


class ShareWork(Lives):
    """All members of all share groups of a run. `done`: group -> places of which a commit confirmed that they are done."""

    stop_seconds = 20.0

    def __init__(self, cluster: Cluster, archive: Archive) -> None:
        super().__init__(cluster)
        self.archive = archive
        self.groups = {f"sharers-{number}": each for number, each in enumerate(cluster.options.sharers)}
        self.given: dict[str, set[Place]] = {name: set() for name in self.groups}
        self.done: dict[str, dict[Place, str]] = {name: {} for name in self.groups}
        self.random = random.Random(f"shares {cluster.seed}")
        # member -> when the broker last gave to others what it had; the loop's time
        self._released: dict[str, float] = {}

    def released(self, member_id: str) -> None:
        """The broker lost a member's connection, or its session."""
        self._released[member_id] = self.cluster.loop.time()

    def start(self) -> None:
        """Begin every member."""
        for name, group in self.groups.items():
            self._slots += [
                self.cluster.loop.create_task(self._live(name, group, slot)) for slot in range(group.members)
            ]

    def _behind(self) -> list[str]:
        broker = self.cluster.broker
        if broker is None:
            return []
        stored = {
            (key.group_id, key.topic_id, key.partition): state
            for holder in broker.node.share_partitions.coordinators.loaded()
            for key, state in holder.machine.by_key.items()
        }
        found = []
        for at in KEYS if self.groups else ():
            partition = broker.partitions.get(at)
            if partition is None:
                continue
            fates = fates_of(self.archive.batches(at, partition.log_end_offset))
            if fates.has_open:
                found.append(f"a transaction of {at} is open")
            visible = [each.offset for each in fates.visible]
            for name in self.groups:
                state = stored.get((name, broker.metadata.topics[at.topic].topic_id, at.partition))
                left = visible if state is None else [offset for offset in visible if not _is_done(state, offset)]
                if left:
                    found.append(f"{name} is not done with {left} of {at}")
        return found

    async def _live(self, name: str, group: ShareOptions, slot: int) -> None:
        number = 0
        await asyncio.sleep(self.random.uniform(0, 2))
        while not self.must_end:
            process = self._born(f"{name}-{slot}.{number}")
            await self._lived(process, MemberLife(self, process, name, group).run())
            number += 1
            await asyncio.sleep(self.random.choice((0.05, 0.5, 2.0)))

    # what members did

    def gave(self, name: str, who: str, consumer: ShareConsumer, records: Iterable[ShareRecord]) -> None:
        """A member has these now."""
        began = min((each.locked_from_ms for each in consumer._sessions.values()), default=0.0) - FETCH_WAIT_MS
        is_lost = self._released.get(consumer._member.member_id, -1.0) * 1000 >= began
        for record in records:
            place = record.topic_partition, record.offset
            self.given[name].add(place)
            if place in self.done[name] and not is_lost:
                kind = self.done[name][place]
                self.cluster.found("shares", f"{who} is given {place[1]} of {place[0]}, which was {kind}ed before")

    def confirmed(self, name: str, said: dict[Place, str], refused: Iterable[TopicPartition]) -> None:
        """A commit came back: what was said is stored, but for these partitions."""
        unknown = set(refused)
        self.done[name] |= {
            place: kind for place, kind in said.items() if place[0] not in unknown and kind in ("accept", "reject")
        }


@contextmanager
def watching_releases(work: ShareWork) -> Iterator[None]:
    """While this lasts, the work hears whose records the broker gives to others."""
    original = SharePartition.release

    def release(self: SharePartition, member_id: str) -> None:
        work.released(member_id)
        original(self, member_id)

    SharePartition.release = release  # type: ignore[method-assign]
    try:
        yield
    finally:
        SharePartition.release = original  # type: ignore[method-assign]


def _is_done(state: ShareState, offset: int) -> bool:
    if offset < state.start_offset:
        return True
    return any(run.is_terminal for run in state.runs.between(offset, offset))


class MemberLife:
    """One life of a member."""

    def __init__(self, work: ShareWork, process: Process, name: str, group: ShareOptions) -> None:
        self.work, self.cluster, self.process, self.name, self.group = work, work.cluster, process, name, group
        self.random = random.Random(f"sharer {self.cluster.seed} {process.name}")
        self.said: dict[Place, str] = {}  # since the last commit
        self.in_hand: list[ShareRecord] = []

    def _settings(self) -> dict[str, Any]:
        return client_settings(self.cluster, self.process, self.random)

    async def run(self) -> None:
        """Share until the life is over."""
        mode = self.group.mode
        consumer = ShareConsumer(
            *TOPICS,
            **{
                **self._settings(),
                "group_id": self.name,
                "share_acknowledgement_mode": mode,
                "max_poll_records": self.random.choice((1, 5, 500)),
                "fetch_max_wait_ms": FETCH_WAIT_MS,
                **options_of(self.cluster.options.knobs, "client"),
            },
        )
        try:
            await self._configure()
            await consumer.start()
            polls = self.random.randint(3, 80)
            while not self.work.must_end and (polls > 0 or self.work.is_draining):
                polls -= 1
                await self._step(consumer)
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} gives up: {error!r}")
        if self.random.random() < 0.6:
            try:
                await consumer.stop()
            except LIFE_ENDS as error:
                self.cluster.note(f"{self.process.name} stops badly: {error!r}")

    async def _configure(self) -> None:
        """What a group sees, and from where, is its config: nobody reads before it is stored."""
        async with Admin(**self._settings()) as admin:
            await admin.alter_configs({("group", self.name): SEEN})

    async def _step(self, consumer: ShareConsumer) -> None:
        records = await consumer.poll(self.random.choice((50, 200, 500)))
        if self.group.mode == "implicit":  # this poll said it of the last one's
            self.said |= {(each.topic_partition, each.offset): "accept" for each in self.in_hand}
        self.in_hand = records
        self.work.gave(self.name, self.process.name, consumer, records)
        if self.random.random() < 0.3:
            slowness = 4 * self.group.slowness if not self.work.is_draining else 1.0
            await asyncio.sleep(self.random.expovariate(1 / self.cluster.options.think_mean) * slowness)
        if self.group.mode == "explicit":
            self._acknowledge(consumer, records)
        if self.random.random() < 0.6:
            await self._commit(consumer)

    def _acknowledge(self, consumer: ShareConsumer, records: list[ShareRecord]) -> None:
        self.random.shuffle(records)
        for record in records:
            kinds = ("accept",) if self.work.is_draining else ("accept", "accept", "accept", "release", "reject")
            kind = self.random.choice(kinds)
            try:
                consumer.acknowledge(record, kind)
            except IllegalState:  # its connection was lost: others may have it
                continue
            self.said[record.topic_partition, record.offset] = kind

    async def _commit(self, consumer: ShareConsumer) -> None:
        said, self.said = self.said, {}
        if self.group.mode == "implicit":
            said |= {(each.topic_partition, each.offset): "accept" for each in self.in_hand}
            self.in_hand = []
        refused = await consumer.commit()
        if refused:
            self.cluster.note(f"{self.process.name} commits: {refused}")
        self.work.confirmed(self.name, said, refused)
