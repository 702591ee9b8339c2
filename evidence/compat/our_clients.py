"""Runs a scenario of our clients against oncelog in this process, or against Apache Kafka.

`make conformance` starts one and says where in ONCELOG_KAFKA_BOOTSTRAP.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from oncelog import Admin, Broker, Consumer, Producer, TopicPartition
from oncelog.client.records import ConsumerRecord

KAFKA_BOOTSTRAP = os.environ.get("ONCELOG_KAFKA_BOOTSTRAP", "")
ONCELOG, KAFKA = "oncelog", "kafka"
SERVERS = [ONCELOG, *([pytest.param(KAFKA, marks=pytest.mark.compat)] if KAFKA_BOOTSTRAP else [])]
BROKER_CONFIG = {
    "num.partitions": "1",
    "transaction.two.phase.commit.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
}
WAIT_S = 120  # for a hang: a busy machine may take many times what an idle one does
_numbers = itertools.count(1)


@dataclass
class World:
    """A running server, and names that nobody used before."""

    server: str
    bootstrap: str
    name: str

    @property
    def is_oncelog(self) -> bool:
        return self.server == ONCELOG

    def producer(self, transactional_id: str | None = None, **config: object) -> Producer:
        config.setdefault("linger_ms", 0)
        full = None if transactional_id is None else f"{self.name}-{transactional_id}"
        return Producer(bootstrap_servers=self.bootstrap, transactional_id=full, **config)

    def consumer(self, *topics: str, isolation_level: str = "read_committed", **config: object) -> Consumer:
        config.setdefault("auto_offset_reset", "earliest")
        return Consumer(*topics, bootstrap_servers=self.bootstrap, isolation_level=isolation_level, **config)

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.bootstrap)

    async def topic(self, partitions: int = 1, name: str = "topic", **configs: str) -> str:
        full = f"{self.name}-{name}"
        async with self.admin() as admin:
            await admin.create_topics({full: {"partitions": partitions, "configs": configs}})
        return full

    async def settled(self, topic: str) -> None:
        """Wait until no transaction is open on the topic: EndTxn is answered before its markers are written."""
        async with self.consumer() as stable, self.consumer(isolation_level="read_uncommitted") as whole:
            partitions = [TopicPartition(topic, p) for p in await stable.partitions_for_topic(topic)]
            async with asyncio.timeout(WAIT_S):
                while await stable.end_offsets(partitions) != await whole.end_offsets(partitions):  # noqa: ASYNC110
                    await asyncio.sleep(0.02)

    async def read_all(
        self, topic: str, isolation_level: str = "read_committed", *, settled: bool = True
    ) -> list[ConsumerRecord]:
        """Everything between the beginning and the end as it is now."""
        if settled:
            await self.settled(topic)
        async with self.consumer(isolation_level=isolation_level) as consumer:
            partitions = [TopicPartition(topic, p) for p in await consumer.partitions_for_topic(topic)]
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            found: list[ConsumerRecord] = []
            while any([await consumer.position(tp) < end for tp, end in ends.items()]):
                found += await consumer.poll(1000)
            return found

    async def values(
        self, topic: str, isolation_level: str = "read_committed", *, settled: bool = True
    ) -> list[bytes | None]:
        return [record.value for record in await self.read_all(topic, isolation_level, settled=settled)]


def run(server: str, scenario: Callable[[World], Awaitable[None]], **config: str) -> None:
    """Run the scenario; it must be over some time."""

    async def main() -> None:
        name = f"{scenario.__qualname__.split('.')[0].removeprefix('test_')[:60]}-{os.getpid()}-{next(_numbers)}"
        async with asyncio.timeout(2 * WAIT_S):
            if server == KAFKA:
                await scenario(World(server, KAFKA_BOOTSTRAP, name))
            else:
                async with Broker(config=BROKER_CONFIG | config) as broker:
                    await scenario(World(server, broker.bootstrap_servers, name))

    asyncio.run(main())


async def eventually(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until it holds: Apache Kafka's brokers take up what its controller decided a moment later."""
    async with asyncio.timeout(WAIT_S):
        while not await condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
