"""What a healthy system does: transactions of all sizes, some aborted; groups that keep up, whose members are restarted."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Coroutine
from typing import Any

from oncelog import Admin, Consumer, OffsetAndMetadata, Producer, TopicPartition

TOPICS = {"orders": 6, "payments": 3, "report": 2}
WRITERS = 4
GROUPS = {"readers-classic": "classic", "readers-consumer": "consumer"}
TRANSFORMER = "transformer"
MEMBERS = 3
PAUSE_S_MAX = 2.0
LONG_TRANSACTION_S = 6.0
"""Well below the ten seconds from which on `why` tells of an open transaction."""
RESTART_S = (60.0, 240.0)
BURST_S = (10.0, 40.0)


class Load:
    """Runs until it is cancelled; a task that fails ends it with its error."""

    def __init__(self, bootstrap_servers: str, seed: int) -> None:
        self._servers, self._random = bootstrap_servers, random.Random(seed)
        self.counts = dict.fromkeys(("committed", "aborted", "read", "restarts"), 0)

    @property
    def names(self) -> list[str]:
        """Whatever can be asked about."""
        partitions = [f"{topic}-{partition}" for topic, count in TOPICS.items() for partition in range(count)]
        return [*GROUPS, TRANSFORMER, *TOPICS, *partitions, *(f"writer-{i}" for i in range(WRITERS)), TRANSFORMER]

    async def prepare(self) -> None:
        """The topics."""
        async with Admin(bootstrap_servers=self._servers) as admin:
            await admin.create_topics(TOPICS)

    async def run(self) -> None:
        """Everything at once."""
        work: list[Coroutine[Any, Any, None]] = [self._writer(i) for i in range(WRITERS)]
        work += [self._members_in_turn(group, protocol) for group, protocol in GROUPS.items() for _ in range(MEMBERS)]
        work += [self._transformer(), self._bursts()]
        async with asyncio.TaskGroup() as group:
            for each in work:
                group.create_task(each)

    async def _rest(self, longest_s: float = PAUSE_S_MAX) -> None:
        await asyncio.sleep(self._random.uniform(0.02, longest_s))

    async def _writer(self, number: int) -> None:
        draw = self._random
        async with Producer(bootstrap_servers=self._servers, transactional_id=f"writer-{number}") as producer:
            while True:
                is_kept = draw.random() > 0.05
                with contextlib.suppress(_Unwanted):
                    async with producer.transaction():
                        for _ in range(draw.choice((1, 5, 20, 200))):
                            await producer.send(draw.choice(("orders", "payments")), b"%d" % draw.randrange(10**6))
                        if draw.random() < 0.05:
                            await asyncio.sleep(draw.uniform(1.0, LONG_TRANSACTION_S))
                        if not is_kept:
                            raise _Unwanted
                self.counts["committed" if is_kept else "aborted"] += 1
                await self._rest()

    async def _members_in_turn(self, group_id: str, protocol: str) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._random.uniform(*RESTART_S)):
                    await self._member(group_id, protocol)
            self.counts["restarts"] += 1

    async def _member(self, group_id: str, protocol: str) -> None:
        more: dict[str, Any] = {"group_id": group_id, "group_protocol": protocol, "auto_offset_reset": "earliest"}
        async with Consumer("orders", "payments", bootstrap_servers=self._servers, **more) as consumer:
            while True:
                records = await consumer.poll(timeout_ms=500, max_records=500)
                self.counts["read"] += len(records)
                await consumer.commit()

    async def _transformer(self) -> None:
        more: dict[str, Any] = {"group_id": TRANSFORMER, "auto_offset_reset": "earliest", "enable_auto_commit": False}
        async with (
            Consumer("orders", bootstrap_servers=self._servers, **more) as consumer,
            Producer(bootstrap_servers=self._servers, transactional_id=TRANSFORMER) as producer,
        ):
            while True:
                records = await consumer.poll(timeout_ms=500, max_records=200)
                if not records:
                    continue
                async with producer.transaction():
                    positions: dict[TopicPartition, OffsetAndMetadata | int] = {}
                    for record in records:
                        await producer.send("report", record.value)
                        positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
                    await producer.send_offsets_to_transaction(positions, consumer.group_metadata())

    async def _bursts(self) -> None:
        async with Producer(bootstrap_servers=self._servers) as producer:
            while True:
                await asyncio.sleep(self._random.uniform(*BURST_S))
                for i in range(self._random.randrange(1000, 5000)):
                    await producer.send("payments", b"%d" % i)
                await producer.flush()


class _Unwanted(Exception):
    """Why a transaction is aborted."""
