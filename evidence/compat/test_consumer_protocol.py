"""Groups of KIP-848 end to end: our consumer against oncelog and Apache Kafka 4.3, librdkafka's against oncelog."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from evidence.compat.our_clients import SERVERS, World, run
from oncelog import TopicPartition, errors

QUICK = {
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "0",
}


@pytest.fixture(params=SERVERS)
def server(request):
    return request.param


class Reader:
    """One member that polls until it is stopped; what it read is in `seen`."""

    def __init__(self, world: World, topic: str, seen: list[tuple[int, int]], **config: object) -> None:
        config.setdefault("group_protocol", "consumer")
        self.consumer = world.consumer(group_id=f"{world.name}-g", heartbeat_interval_ms=200, **config)
        self.consumer.subscribe([topic], listener=self)
        self.seen, self.revoked, self.is_ending = seen, 0, False
        self.task: asyncio.Task[None] | None = None

    async def on_partitions_revoked(self, revoked):
        self.revoked += len(revoked)
        # At the end of one whose poll was cut short in a rebalance another generation may have begun.
        with (
            contextlib.suppress(errors.IllegalGeneration, errors.RebalanceInProgress)
            if self.is_ending
            else contextlib.nullcontext()
        ):
            await self.consumer.commit()

    async def on_partitions_assigned(self, assigned): ...

    async def on_partitions_lost(self, lost): ...

    async def __aenter__(self):
        await self.consumer.start()
        self.task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_):
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.is_ending = True
        await self.consumer.stop()

    async def _read(self):
        while True:
            self.seen += [(record.partition, record.offset) for record in await self.consumer.poll(200)]

    def has(self, count):
        return len(self.consumer.assignment()) == count


async def until(condition):
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


async def write(world: World, topic: str, count: int, partitions: int) -> None:
    async with world.producer() as producer:
        for n in range(count):
            await producer.send(topic, b"%d" % n, partition=n % partitions)
        await producer.flush()


def test_members_share_and_take_over(server):
    async def scenario(world: World) -> None:
        topic, seen = await world.topic(4), []
        async with Reader(world, topic, seen) as a:
            await until(lambda: a.has(4))
            async with Reader(world, topic, seen) as b:
                await until(lambda: a.has(2) and b.has(2))
                assert not a.consumer.assignment() & b.consumer.assignment()
                assert (a.revoked, b.revoked) == (2, 0)
                await write(world, topic, 40, 4)
                await until(lambda: len(seen) >= 40)
                assert len(seen) == len(set(seen)) == 40
            await until(lambda: a.has(4))
            assert a.revoked == 2

    run(server, scenario, **QUICK)


def test_a_fenced_member_cannot_commit_in_a_transaction(server):
    async def scenario(world: World) -> None:
        topic = await world.topic(1)
        where = TopicPartition(topic, 0)
        async with Reader(world, topic, []) as a, world.producer("t") as producer:
            await until(lambda: a.has(1))
            mine = a.consumer.group_metadata()
            async with producer.transaction():
                await producer.send(topic, b"1")
                await producer.send_offsets_to_transaction({where: 1}, mine)
            assert (await a.consumer.committed([where]))[where].offset == 1
            stale = type(mine)(mine.group_id, mine.generation_id - 1, mine.member_id, None)
            with pytest.raises(errors.KafkaError):
                async with producer.transaction():
                    await producer.send(topic, b"2")
                    await producer.send_offsets_to_transaction({where: 2}, stale)
            assert (await a.consumer.committed([where]))[where].offset == 1

    run(server, scenario, **QUICK)


def test_a_static_member_comes_back_to_its_partitions(server):
    async def scenario(world: World) -> None:
        topic = await world.topic(4)
        async with Reader(world, topic, [], group_instance_id="one") as other:
            await until(lambda: other.has(4))
            async with Reader(world, topic, [], group_instance_id="two") as a:
                await until(lambda: a.has(2) and other.has(2))
                mine = a.consumer.assignment()
            async with Reader(world, topic, [], group_instance_id="two") as b:
                await until(lambda: b.has(2))
                assert b.consumer.assignment() == mine
                assert other.revoked == 2

    run(server, scenario, **QUICK)


@pytest.mark.compat
def test_a_pattern_finds_topics_that_come_later(server, monkeypatch):
    """Ten seconds pass before Apache Kafka looks for new topics again, and before this broker does, but here."""
    monkeypatch.setattr("oncelog.core.groups.consumer.change.REGEX_RESOLVE_INTERVAL_MIN_MS", 300)

    async def scenario(world: World) -> None:
        first = await world.topic(1, "one")
        async with world.consumer(group_id=f"{world.name}-g", group_protocol="consumer") as consumer:
            consumer.subscribe(pattern=f"{world.name}-(one|two)")

            async def polled(topics: set[str]) -> None:
                while {tp.topic for tp in consumer.assignment()} != topics:
                    await consumer.poll(200)

            await polled({first})
            second = await world.topic(1, "two")
            await polled({first, second})

    run(server, scenario, **QUICK)


def test_a_group_changes_its_protocol_while_members_run(server):
    async def scenario(world: World) -> None:
        topic, seen = await world.topic(4), []
        async with Reader(world, topic, seen, group_protocol="classic") as old:
            await until(lambda: old.has(4))
            async with Reader(world, topic, seen) as new:
                await until(lambda: old.has(2) and new.has(2))
                await write(world, topic, 40, 4)
                await until(lambda: len(set(seen)) == 40)
                async with world.admin() as admin:
                    described = (await admin.describe_groups(f"{world.name}-g"))[f"{world.name}-g"]
                assert (described.group_type, described.state, described.protocol_name) == (
                    "consumer",
                    "Stable",
                    "uniform",
                )
                assert described.group_epoch == described.assignment_epoch
                held = {p for member in described.members for p in member.partitions}
                assert held == old.consumer.assignment() | new.consumer.assignment()
            await until(lambda: old.has(4))
            await write(world, topic, 40, 4)
            await until(lambda: len(set(seen)) == 80)

    run(server, scenario, **QUICK)


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_a_storm_of_members_loses_nothing(protocol):
    """Members come and go while records are written; each is read at least once."""

    async def scenario(world: World) -> None:
        topic, seen = await world.topic(6), []
        shaken = random.Random(7)
        options = {"group_protocol": protocol, "partition_assignment_strategy": "cooperative-sticky"}
        members: list[Reader] = []
        for round_ in range(20):
            if len(members) < 2 or (len(members) < 5 and shaken.random() < 0.6):
                members.append(await Reader(world, topic, seen, **options).__aenter__())
            else:
                await members.pop(shaken.randrange(len(members))).__aexit__()
            await write(world, topic, 30, 6)
            await asyncio.sleep(shaken.random() * 0.2)
            assert round_ >= 0
        await until(lambda: len(set(seen)) == 600)
        for each in members:
            await each.__aexit__()

    run("oncelog", scenario, **QUICK)


@pytest.mark.compat
def test_librdkafka_takes_part():
    confluent_kafka = pytest.importorskip("confluent_kafka")

    async def scenario(world: World) -> None:
        topic, seen = await world.topic(4), []
        theirs = confluent_kafka.Consumer(
            {
                "bootstrap.servers": world.bootstrap,
                "group.id": f"{world.name}-g",
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        theirs.subscribe([topic])

        def read() -> None:
            found = theirs.poll(0.05)
            if found is not None:
                assert found.error() is None, found.error()
                seen.append((found.partition(), found.offset()))
                theirs.commit(found, asynchronous=False)

        async with Reader(world, topic, seen) as ours:
            while not (len(theirs.assignment()) == 2 and ours.has(2)):
                await asyncio.to_thread(read)
            await write(world, topic, 40, 4)
            while len(set(seen)) < 40:
                await asyncio.to_thread(read)
            await asyncio.to_thread(theirs.close)
            await until(lambda: ours.has(4))

    run("oncelog", scenario, **QUICK)
