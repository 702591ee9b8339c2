"""Ends and lags of a consumer, against a real broker with open and aborted transactions."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import run
from evidence.world.client import BOOTSTRAP, ScriptedBroker
from evidence.world.client import run as run_virtual

from oncelog import Broker, Consumer, Producer, TopicPartition
from oncelog.client.consumer.log_bounds import Lag
from oncelog.errors import RequestTimedOut
from oncelog.wire.api import ApiKey

ZERO = TopicPartition("t", 0)


def served(work):
    """Runs `work` with a broker of its own."""

    async def main():
        async with Broker() as broker:
            await work(broker)

    run(main())


def consumer_of(broker: Broker, isolation_level: str = "read_committed") -> Consumer:
    return Consumer(
        bootstrap_servers=broker.bootstrap_servers, isolation_level=isolation_level, auto_offset_reset="earliest"
    )


async def fill(broker: Broker) -> Producer:
    """Offsets 0 committed, 1 its marker, 2 aborted, 3 its marker, 4 and 5 open. The open one's producer."""
    producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="a")
    await producer.start()
    for ends in (producer.commit_transaction, producer.abort_transaction, None):
        producer.begin_transaction()
        for _ in range(1 if ends is not None else 2):
            await producer.send("t", value=b"v", partition=0)
        await producer.flush()
        if ends is not None:
            await ends()
    return producer


def test_lag_says_what_can_be_read_and_what_is_blocked():
    async def main(broker: Broker) -> None:
        producer = await fill(broker)
        async with consumer_of(broker) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 0)
            assert await consumer.lag() == {ZERO: Lag(readable=4, blocked=2, raw=6)}
            assert not await consumer.at_end()
            records = []
            while (
                await consumer.position(ZERO) < 4
            ):  # past the marker and the aborted record: nothing is left to be read
                records += [record.offset for record in await consumer.poll(timeout_ms=300)]
            assert records == [0]
            assert await consumer.poll(timeout_ms=300) == []
            assert await consumer.position(ZERO) == 4
            assert await consumer.at_end()
            assert await consumer.lag(ZERO) == {ZERO: Lag(readable=0, blocked=2, raw=2)}
            await producer.commit_transaction()
            while await consumer.at_end(ZERO):  # noqa: ASYNC110 - the marker is written after the answer
                await asyncio.sleep(0.01)
            assert (await consumer.lag())[ZERO].blocked == 0
        await producer.stop()

    served(main)


def test_ends_differ_by_isolation():
    async def main(broker: Broker) -> None:
        producer = await fill(broker)
        async with consumer_of(broker) as consumer:
            assert await consumer.beginning_offsets([ZERO]) == {ZERO: 0}
            assert await consumer.end_offsets([ZERO]) == {ZERO: 4}
            assert await consumer.end_offsets([ZERO], isolation_level="read_uncommitted") == {ZERO: 6}
        async with consumer_of(broker, "read_uncommitted") as consumer:
            assert await consumer.end_offsets([ZERO]) == {ZERO: 6}
            assert await consumer.end_offsets([ZERO], isolation_level="read_committed") == {ZERO: 4}
        await producer.abort_transaction()
        await producer.stop()

    served(main)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_an_empty_partition_is_at_its_end(isolation_level):
    async def main(broker: Broker) -> None:
        async with consumer_of(broker, isolation_level) as consumer:
            async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send("t", value=b"v", partition=0)
            consumer.assign([ZERO])
            await consumer.seek_to_end()
            assert await consumer.position(ZERO) == 1
            assert await consumer.at_end()
            assert await consumer.lag() == {ZERO: Lag(0, 0, 0)}

    served(main)


@pytest.mark.parametrize(
    ("group", "pattern"), [(None, False), (None, True), ("classic", False), ("classic", True), ("consumer", False)]
)  # a broker that matches a pattern says at first that there is nothing for the member
def test_who_does_not_know_yet_what_it_reads_is_not_at_the_end(group, pattern):
    """`while not at_end(): poll()` read nothing at all: of no partitions each is at its end."""

    async def main(broker: Broker) -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send("t", value=b"v", partition=0)
        member = {} if group is None else {"group_id": "g", "group_protocol": group}
        servers = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        async with Consumer(**servers, **member) as consumer:
            consumer.subscribe(**({"pattern": "^t$"} if pattern else {"topics": ["t"]}))
            assert not await consumer.at_end()
            found = []
            while not await consumer.at_end():
                found += await consumer.poll(1)
            assert [each.value for each in found] == [b"v"]

    served(main)


def test_who_reads_nothing_is_at_the_end():
    """A member beside others that have everything, and a pattern that matches no topic."""

    async def main(broker: Broker) -> None:
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send("t", value=b"v", partition=0)
        async with consumer_of(broker) as consumer:
            assert await consumer.at_end(), "it subscribed to nothing"
            consumer.subscribe(pattern="^nothing$")
            while not await consumer.at_end():
                assert await consumer.poll(1) == []
        many = broker.bootstrap_servers
        async with (
            Consumer("t", bootstrap_servers=many, group_id="g", group_protocol="consumer") as one,
            Consumer("t", bootstrap_servers=many, group_id="g", group_protocol="consumer") as other,
        ):
            while len(one.assignment()) + len(other.assignment()) < 1:
                await one.poll(1)
                await other.poll(1)
            idle = other if one.assignment() else one
            while not await idle.at_end():
                await idle.poll(1)

    served(main)


def test_the_two_looks_of_a_lag_share_its_time():
    async def work(loop):
        slow = ScriptedBroker()
        config = {"bootstrap_servers": BOOTSTRAP, "default_api_timeout_ms": 4000, "auto_offset_reset": "earliest"}
        async with Consumer("t", host=slow.host(), **config) as consumer:
            await consumer.poll(500)
            slow.delay_s[ApiKey.LIST_OFFSETS] = 3
            began = loop.time()
            with pytest.raises(RequestTimedOut, match="not done within 4000 ms"):
                await consumer.lag(ZERO)
            assert loop.time() - began == pytest.approx(4, abs=0.05)

    run_virtual(work)
