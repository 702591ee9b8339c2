"""aiokafka: the oldest versions of the transaction APIs (0) that are still in use."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

aiokafka = pytest.importorskip("aiokafka")
errors = pytest.importorskip("aiokafka.errors")
admin = pytest.importorskip("aiokafka.admin")

pytestmark = pytest.mark.compat
WAIT_S = 120  # for a hang


class Clients:
    """Makes clients of one broker; all are stopped at the end."""

    def __init__(self, stack, bootstrap_servers, name):
        self.stack, self.bootstrap_servers, self.name = stack, bootstrap_servers, name

    async def topic(self, partitions=1):
        client = admin.AIOKafkaAdminClient(bootstrap_servers=self.bootstrap_servers)
        await client.start()
        await client.create_topics([admin.NewTopic(self.name, partitions, 1)])
        await client.close()
        return self.name

    async def producer(self, transactional_id=None, **config):
        if transactional_id:
            config["transactional_id"] = f"{self.name}-{transactional_id}"
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=self.bootstrap_servers, **config)
        await producer.start()
        self.stack.push_async_callback(producer.stop)
        return producer

    async def consumer(self, isolation_level="read_committed", **config):
        config = {"auto_offset_reset": "earliest", "enable_auto_commit": False} | config
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, isolation_level=isolation_level, **config
        )
        await consumer.start()
        self.stack.push_async_callback(consumer.stop)
        return consumer

    async def read(self, topic, count, isolation_level="read_committed", partitions=1):
        consumer = await self.consumer(isolation_level)
        where = [aiokafka.TopicPartition(topic, index) for index in range(partitions)]
        consumer.assign(where)
        values = []
        while True:
            for records in (await consumer.getmany(timeout_ms=100)).values():
                values += [record.value.decode() for record in records]
            ends = await consumer.end_offsets(where)
            if len(values) >= count and all([await consumer.position(tp) >= end for tp, end in ends.items()]):
                return sorted(values) if partitions > 1 else values


def run(bootstrap_servers, name, scenario):
    async def main():
        async with asyncio.timeout(WAIT_S), contextlib.AsyncExitStack() as stack:
            await scenario(Clients(stack, bootstrap_servers, name))

    asyncio.run(main())


@pytest.mark.parametrize("codec", [None, "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(bootstrap_servers, name, codec):
    async def scenario(clients):
        topic = await clients.topic()
        producer = await clients.producer(compression_type=codec, enable_idempotence=True)
        sent = await producer.send_and_wait(
            topic, b"v" * 2000, key=b"k", headers=[("h", b"1")], timestamp_ms=1_700_000_000_000
        )
        assert sent.offset == 0
        consumer = await clients.consumer()
        consumer.assign([aiokafka.TopicPartition(topic, 0)])
        record = await consumer.getone()
        assert (record.key, record.value, record.headers) == (b"k", b"v" * 2000, (("h", b"1"),))
        assert record.timestamp == 1_700_000_000_000

    run(bootstrap_servers, name, scenario)


def test_commit_shows_records_and_abort_hides_them(bootstrap_servers, name):
    async def scenario(clients):
        topic = await clients.topic(2)
        producer = await clients.producer("p")
        for index in range(6):
            await producer.begin_transaction()
            for partition in (0, 1):
                await producer.send_and_wait(topic, str(index).encode(), partition=partition)
            await (producer.abort_transaction() if index % 3 == 1 else producer.commit_transaction())
        assert await clients.read(topic, 8, partitions=2) == ["0", "0", "2", "2", "3", "3", "5", "5"]
        assert len(await clients.read(topic, 12, "read_uncommitted", partitions=2)) == 12

    run(bootstrap_servers, name, scenario)


def test_interleaved_aborts_are_told_apart(bootstrap_servers, name):
    async def scenario(clients):
        topic = await clients.topic()
        a, b, plain = await clients.producer("a"), await clients.producer("b"), await clients.producer()
        for index in range(3):
            await a.begin_transaction()
            await b.begin_transaction()
            for part in "xy":
                for producer, who in ((a, "a"), (b, "b"), (plain, "p")):
                    await producer.send_and_wait(topic, f"{who}{index}{part}".encode(), partition=0)
            await (a.commit_transaction if index % 2 else a.abort_transaction)()
            await (b.abort_transaction if index % 2 else b.commit_transaction)()
        expected = [f"{who}{i}{part}" for i in range(3) for part in "xy" for who in ("ap" if i % 2 else "bp")]
        assert await clients.read(topic, 12) == expected

    run(bootstrap_servers, name, scenario)


def test_a_newer_instance_fences_the_older(bootstrap_servers, name):
    async def scenario(clients):
        topic = await clients.topic()
        older = await clients.producer("p")
        await older.begin_transaction()
        await older.send_and_wait(topic, b"older", partition=0)
        newer = await clients.producer("p")
        with pytest.raises(errors.KafkaError):
            await older.commit_transaction()
        async with newer.transaction():
            await newer.send_and_wait(topic, b"newer", partition=0)
        assert await clients.read(topic, 1) == ["newer"]

    run(bootstrap_servers, name, scenario)


def test_offsets_move_with_the_transaction(bootstrap_servers, name):
    async def scenario(clients):
        topic = await clients.topic(2)
        producer = await clients.producer("p")
        where, group = aiokafka.TopicPartition(topic, 0), f"{name}-g"
        reader = await clients.consumer(group_id=group)
        reader.assign([where])
        for offset, commits in ((5, False), (7, True), (9, False)):
            await producer.begin_transaction()
            await producer.send_and_wait(topic, str(offset).encode(), partition=1)
            await producer.send_offsets_to_transaction({where: offset}, group)
            await (producer.commit_transaction if commits else producer.abort_transaction)()
        while await reader.committed(where) != 7:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert await clients.read(topic, 1, partitions=2) == ["7"]

    run(bootstrap_servers, name, scenario)


def test_a_group_hands_over_partitions(bootstrap_servers, name):
    async def scenario(clients):
        topic = await clients.topic(2)
        options = {"group_id": f"{name}-g", "heartbeat_interval_ms": 300}
        producer = await clients.producer()
        for index in range(10):
            await producer.send_and_wait(topic, str(index).encode(), partition=index % 2)
        first = await clients.consumer(**options)
        first.subscribe([topic])
        while len(first.assignment()) < 2:
            await first.getmany(timeout_ms=50)
        second = await clients.consumer(**options)
        second.subscribe([topic])
        while {len(first.assignment()), len(second.assignment())} != {1}:
            await asyncio.gather(first.getmany(timeout_ms=50), second.getmany(timeout_ms=50))
        assert not first.assignment() & second.assignment()

    run(bootstrap_servers, name, scenario)
