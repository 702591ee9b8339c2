"""Members of consumer groups: they subscribe, read, leave, are killed and come back, while others write what they read.

Three ways to work: `commit` stores positions after the work, `auto` leaves that to the consumer, `copy` reads and writes
in transactions. What each did is noted here and judged by `checkers/groups.py`.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from evidence.simulator.archive import Archive
from evidence.simulator.checkers.cleaning import fates_of
from evidence.simulator.cluster import COPIES, KEYS, TOPICS, Cluster
from evidence.simulator.faults import GroupOptions
from evidence.simulator.knobs import options_of
from evidence.simulator.lives import Lives, client_settings
from evidence.world.loop import Process
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.client.records import ConsumerRecord
from oncelog.errors import (
    FencedInstanceId,
    IllegalGeneration,
    KafkaError,
    RebalanceInProgress,
    StaleMemberEpoch,
    UnknownMemberId,
)
from oncelog.types import TopicPartition

LIFE_ENDS = (KafkaError, TimeoutError)
NOT_STORED = (IllegalGeneration, RebalanceInProgress, StaleMemberEpoch, UnknownMemberId)
SESSION_MS, HEARTBEAT_MS, MAX_POLL_MS = 1500, 300, 4000


class GroupWork(Lives):
    """All members of all groups of a run. `processed` and `stored`: group -> what was worked on, positions confirmed."""

    def __init__(self, cluster: Cluster, archive: Archive) -> None:
        super().__init__(cluster)
        self.archive = archive
        self.groups = {f"members-{number}": group for number, group in enumerate(cluster.options.groups)}
        self.processed: dict[str, set[tuple[TopicPartition, int]]] = {name: set() for name in self.groups}
        self.stored: dict[str, dict[TopicPartition, int]] = {name: {} for name in self.groups}
        self.seen: dict[str, dict[TopicPartition, int]] = {name: {} for name in self.groups}
        self.random = random.Random(f"groups {cluster.seed}")

    def start(self) -> None:
        """Begin every member, and watch the groups' positions."""
        loop = self.cluster.loop
        for name, group in self.groups.items():
            self._slots += [loop.create_task(self._live(name, group, slot)) for slot in range(group.members)]
        if self.groups:
            self._watching = loop.create_task(self._watch())

    async def drained(self) -> None:
        """As of all lives; then nobody watches any more."""
        await super().drained()
        if self.groups:
            self._watching.cancel()

    def _behind(self) -> list[str]:
        broker = self.cluster.broker
        if broker is None or not self.groups:
            return []
        found = []
        for key in KEYS:
            partition = broker.partitions.get(key)
            if partition is None:
                continue
            fates = fates_of(self.archive.batches(key, partition.log_end_offset))
            visible = fates.visible
            if fates.has_open:
                found.append(f"a transaction of {key} is open")
            for name in self.groups:
                stands = self._positions(name).get(key, 0)
                if visible and stands <= visible[-1].offset:
                    found.append(f"{name} stands at {stands} of {key}, the last record is {visible[-1].offset}")
        return found

    def _positions(self, name: str) -> Mapping[TopicPartition, int]:
        broker = self.cluster.broker
        assert broker is not None
        return {
            key: commit.offset
            for holder in broker.groups.loaded()
            for key, commit in holder.machine.offsets.of_group(name).items()
        }

    def is_ordered(self, name: str) -> bool:
        """Whether positions may never go back: a plain commit that arrives after its sender has given up and sent a
        newer one is taken, in Apache Kafka too; one in a transaction is not."""
        return self.groups[name].mode == "copy" or not self.cluster.options.network.late

    async def _watch(self) -> None:
        """Positions never go back, over rebalances and restarts."""
        while True:
            await asyncio.sleep(self.random.uniform(0.01, 0.05))
            if not self.cluster.is_serving or self.cluster.broker is None:
                continue
            for name, seen in self.seen.items():
                for key, offset in self._positions(name).items():
                    if offset < seen.get(key, 0) and self.is_ordered(name):
                        self.cluster.found("groups", f"{name} went back from {seen[key]} to {offset} in {key}")
                    seen[key] = offset

    async def _live(self, name: str, group: GroupOptions, slot: int) -> None:
        draw, number = self.random, 0
        transactional_id = f"copy-{name}-{slot}"
        await asyncio.sleep(draw.uniform(0, 2))
        while not self.must_end:
            process = self._born(f"{name}-{slot}.{number}")
            await self._lived(process, MemberLife(self, process, name, slot, transactional_id).run())
            number += 1
            if draw.random() >= self.cluster.options.same_transactional_id:
                transactional_id = f"copy-{name}-{slot}-{number}"
            await asyncio.sleep(draw.choice((0.05, 0.5, 2.0)))


class MemberLife:
    """One life of a member."""

    def __init__(self, work: GroupWork, process: Process, name: str, slot: int, transactional_id: str) -> None:
        self.work, self.cluster, self.process, self.name = work, work.cluster, process, name
        self.group = work.groups[name]
        self.slot, self.transactional_id = slot, transactional_id
        self.random = random.Random(f"member {self.cluster.seed} {process.name}")

    def _settings(self) -> dict[str, Any]:
        return client_settings(self.cluster, self.process, self.random)

    def _consumer(self) -> Consumer:
        group, settings = self.group, self._settings()
        if group.protocol == "classic":
            settings |= {
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "partition_assignment_strategy": group.strategy,
            }
        return Consumer(
            *TOPICS,
            **{
                **settings,
                "group_id": self.name,
                "group_protocol": group.protocol,
                "group_instance_id": f"{self.name}-{self.slot}" if group.is_static else None,
                "enable_auto_commit": group.mode == "auto",
                "auto_commit_interval_ms": 300,
                "max_poll_interval_ms": MAX_POLL_MS,
                "max_poll_records": self.random.choice((1, 5, 500)),
                "isolation_level": "read_committed",
                "auto_offset_reset": "earliest",
                "fetch_max_wait_ms": 200,
                **options_of(self.cluster.options.knobs, "client", "consumer"),
            },
        )

    async def run(self) -> None:
        """Read until the life is over."""
        consumer = self._consumer()
        producer: Producer | None = None
        try:
            if self.group.mode == "copy":
                producer = Producer(
                    **{
                        **self._settings(),
                        "transactional_id": self.transactional_id,
                        "transaction_timeout_ms": self.cluster.options.transaction_timeout_ms,
                        "delivery_timeout_ms": 8_000,
                        "max_block_ms": 10_000,
                        **options_of(self.cluster.options.knobs, "client", "producer"),
                    }
                )
                await producer.start()
            await consumer.start()
            polls = self.random.randint(3, 80)
            while not self.work.must_end and (polls > 0 or self.work.is_draining):
                polls -= 1
                await self._step(consumer, producer)
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} gives up: {error!r}")
            if isinstance(error, FencedInstanceId):
                await asyncio.sleep(SESSION_MS / 1000)
        if self.random.random() < 0.6:
            await self._stop(consumer, producer)

    async def _stop(self, consumer: Consumer, producer: Producer | None) -> None:
        try:
            if producer is not None:
                await producer.stop(timeout_ms=1000)
            await consumer.stop()
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} stops badly: {error!r}")

    async def _step(self, consumer: Consumer, producer: Producer | None) -> None:
        records = await consumer.poll(self.random.choice((50, 200, 500)))
        if self.random.random() < 0.3:
            await asyncio.sleep(self.random.expovariate(1 / self.cluster.options.think_mean))
        if producer is not None:
            if records:
                await self._copy(records, consumer, producer)
            return
        self.work.processed[self.name] |= {(record.topic_partition, record.offset) for record in records}
        if self.group.mode == "commit" and self.random.random() < 0.7:
            await self._commit(consumer)

    async def _commit(self, consumer: Consumer) -> None:
        positions = {key: at.offset for key, at in consumer.current_positions().items()}
        try:
            await consumer.commit(positions)
        except NOT_STORED as error:
            self.cluster.note(f"{self.process.name} commits: {error!r}")
        else:
            self._confirmed(positions)

    def _confirmed(self, positions: Mapping[TopicPartition, int]) -> None:
        stored = self.work.stored[self.name]
        for key, offset in positions.items():
            stored[key] = max(stored.get(key, 0), offset)

    async def _copy(self, records: list[ConsumerRecord], consumer: Consumer, producer: Producer) -> None:
        """One poll, one transaction: what was read is written with where it came from, and the positions with it."""
        first: dict[TopicPartition, int] = {}
        positions: dict[TopicPartition, int] = {}
        producer.begin_transaction()
        try:
            for record in records:
                key = record.topic_partition
                first.setdefault(key, record.offset)
                positions[key] = record.offset + 1
                value = f"{self.name} {key.topic} {key.partition} {record.offset}".encode()
                await producer.send(COPIES, value, partition=self.random.randrange(2))
            await producer.send_offsets_to_transaction(positions, consumer.group_metadata())
            if self.random.random() < 0.1:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                self._confirmed(positions)
                return
        except KafkaError as error:
            self.cluster.note(f"{self.process.name} copies: {error!r}")
            if not error.abortable:
                raise
            await producer.abort_transaction()
        for key in first.keys() & consumer.assignment():
            consumer.seek(key, first[key])
