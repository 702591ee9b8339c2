"""A real broker in the test's loop, an application beside it, and what a read_committed reader sees."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("faststream", reason="needs faststream")

from pydantic import BaseModel

from oncelog import Admin, Broker, Consumer, ConsumerRecord, Producer
from oncelog.faststream import OncelogBroker

WAIT_S = 60  # for a hang
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.min.session.timeout.ms": "500",
}
TOPICS = ("out", "side", "dead")
QUICK = {"transform_backoff_ms": 1, "transaction_interval_ms": 5}


class Order(BaseModel):
    number: int
    what: str = "apples"


def run(work, wait_s=WAIT_S, **config):
    """Give `work` a broker's address, in a loop of its own."""

    async def bounded():
        async with asyncio.timeout(wait_s), Broker(config={**CONFIG, **config}) as broker:
            return await work(broker.bootstrap_servers)

    return asyncio.run(bounded())


def new_broker(bootstrap, **options):
    """A broker for FastStream that logs nothing."""
    return OncelogBroker(bootstrap, **{"logger": None, "linger_ms": 0, **options})


@asynccontextmanager
async def running(broker):
    """As an application runs it."""
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


async def fill(bootstrap, *values, topic="in", partitions=1, headers=None):
    """Records, one after the other, with keys. Topics are made before: to look for one that is not there yet takes a while."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        there = await admin.list_topics()
        await admin.create_topics(
            {name: partitions if name == topic else 1 for name in (topic, *TOPICS) if name not in there}
        )
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for number, value in enumerate(values):
            await producer.send(topic, value, b"k%d" % number, headers)
        await producer.flush()


async def read(bootstrap, topic, count) -> list[ConsumerRecord]:
    """The first so many committed records, waited for; and what else has come with them."""
    found: list[ConsumerRecord] = []
    async with Consumer(
        topic, bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        while len(found) < count:
            found += await consumer.poll(500)
    return found


async def values(bootstrap, topic, count):
    return [record.value for record in await read(bootstrap, topic, count)]


async def position(bootstrap, group="g"):
    """The sum of the group's committed offsets."""
    async with Admin(bootstrap_servers=bootstrap) as admin:
        return sum(at.offset for at in (await admin.list_consumer_group_offsets(group)).values())


async def until(is_so):
    """Others work meanwhile."""
    while not (await found if asyncio.iscoroutine(found := is_so()) else found):  # noqa: ASYNC110 (a counter has no event)
        await asyncio.sleep(0.01)
