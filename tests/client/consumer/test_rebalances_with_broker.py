"""Rebalances with a real broker: nothing is read twice where positions are committed, for each protocol."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Admin, Broker, Consumer, Producer, RebalanceListener, TopicPartition
from oncelog.testing import FaultyProxy

WAIT_S = 60  # for a hang
HOUR_MS = 3_600_000
PROTOCOLS = {
    "eager": {"partition_assignment_strategy": "range"},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
CONFIG = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.assignment.interval.ms": "0",
    "offsets.topic.num.partitions": "1",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.heartbeat.interval.ms": "50",
}


def run(work):
    async def bounded():
        async with asyncio.timeout(WAIT_S), Broker(config=CONFIG) as broker:
            await work(broker.bootstrap_servers)

    asyncio.run(bounded())


class Reader:
    """A member that is polled all the time by a task of its own."""

    def __init__(self, bootstrap, protocol, **config):
        self.values = []
        self.given_back = []
        self.changed = asyncio.Event()
        self.consumer = Consumer(
            bootstrap_servers=bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            auto_commit_interval_ms=HOUR_MS,
            heartbeat_interval_ms=50,
            **PROTOCOLS[protocol],
            **config,
        )

    async def __aenter__(self):
        await self.consumer.start()
        self.task = asyncio.ensure_future(self.read())
        self.task.add_done_callback(lambda _: self.changed.set())
        return self

    async def __aexit__(self, *_):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self.consumer.stop()

    async def read(self):
        while True:
            self.values += [record.value for record in await self.consumer.poll(timeout_ms=100)]
            self.changed.set()

    async def until(self, condition):
        while not condition():
            self.changed.clear()
            await self.changed.wait()
            if self.task.done():
                self.task.result()

    async def on_partitions_revoked(self, revoked):
        async with Admin(bootstrap_servers=self.consumer._config.bootstrap_servers) as admin:
            offsets = await admin.list_consumer_group_offsets("g")
        positions = self.consumer.current_positions()
        self.given_back += [(offsets[each].offset, positions[each].offset) for each in revoked]

    async def on_partitions_assigned(self, assigned):
        pass

    async def on_partitions_lost(self, lost):
        pass


async def produce(bootstrap, topic, *values, partitions=(0, 1)):
    async with Producer(bootstrap_servers=bootstrap) as producer:
        for value in values:
            for partition in partitions:
                await (await producer.send(topic, b"%d-%d" % (partition, value), partition=partition))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_one_member_read_the_next_one_does_not(protocol):
    async def work(bootstrap):
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({"t": {"partitions": 2}})
        await produce(bootstrap, "t", *range(5))
        async with Reader(bootstrap, protocol) as first:
            first.consumer.subscribe(["t"], listener=first)
            await first.until(lambda: len(first.values) == 10)
            async with Reader(bootstrap, protocol) as second:
                second.consumer.subscribe(["t"], listener=second)
                await second.until(lambda: len(second.consumer.assignment()) == 1)
                await first.until(lambda: len(first.consumer.assignment()) == 1)
                await produce(bootstrap, "t", *range(5, 10))
                await first.until(lambda: len(first.values) + len(second.values) >= 20)
            assert first.given_back
            assert all(committed == position for committed, position in first.given_back)
            await first.until(lambda: len(first.consumer.assignment()) == 2)
            await produce(bootstrap, "t", 10)
            await first.until(lambda: {b"0-10", b"1-10"} <= set(first.values))
        found = first.values + second.values
        assert sorted(found) == sorted(b"%d-%d" % (p, n) for p in (0, 1) for n in range(11))

    run(work)


@pytest.mark.parametrize("protocol", [*PROTOCOLS, None])
def test_a_topic_of_a_pattern_that_is_deleted_and_made_again(protocol):
    async def work(bootstrap):
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({"a1": {"partitions": 1}})
            await produce(bootstrap, "a1", *range(3), partitions=[0])
            reader = Reader(bootstrap, protocol or "eager", metadata_max_age_ms=200)
            if protocol is None:
                reader.consumer = Consumer(
                    bootstrap_servers=bootstrap, auto_offset_reset="earliest", metadata_max_age_ms=200
                )
            async with reader:
                reader.consumer.subscribe(pattern="a.*")
                await reader.until(lambda: len(reader.values) == 3)
                await admin.create_topics({"a2": {"partitions": 1}})
                await produce(bootstrap, "a2", 7, partitions=[0])
                await reader.until(lambda: reader.values[3:] == [b"0-7"])
                await admin.delete_topics(["a1"])
                await reader.until(lambda: reader.consumer.assignment() == {TopicPartition("a2", 0)})
                await admin.create_topics({"a1": {"partitions": 1}})
                await produce(bootstrap, "a1", *range(100, 105), partitions=[0])
                await reader.until(lambda: len(reader.values) == 9)
                assert reader.values[4:] == [b"0-%d" % n for n in range(100, 105)]
                # and at once, between two looks at the metadata
                await admin.delete_topics(["a1"])
                await admin.create_topics({"a1": {"partitions": 1}})
                await produce(bootstrap, "a1", *range(200, 208), partitions=[0])
                await reader.until(lambda: len(reader.values) == 17)
                assert reader.values[9:] == [b"0-%d" % n for n in range(200, 208)]

    run(work)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_whose_join_was_heard_and_not_answered_comes_in(protocol):
    async def work(bootstrap):
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("t", b"x")
        async with FaultyProxy(bootstrap) as proxy:
            proxy.drop("ConsumerGroupHeartbeat" if protocol == "consumer" else "JoinGroup", after=True, nth=1)
            options = {
                "group_id": "g",
                "group_instance_id": "i",
                "auto_offset_reset": "earliest",
                **PROTOCOLS[protocol],
            }
            async with Consumer("t", bootstrap_servers=proxy.bootstrap_servers, **options) as member:
                while not (records := await member.poll(timeout_ms=500)):
                    pass
                assert [record.value for record in records] == [b"x"]

    run(work)


@pytest.mark.parametrize("how", ["poll", "poll_arrow"])
@pytest.mark.parametrize("protocol", ["classic", "consumer", None])
def test_who_polls_again_and_again_without_waiting_lets_the_loop_run(protocol, how):
    async def main():
        config = {} if protocol is None else {"group_id": "g", "group_protocol": protocol}
        async with asyncio.timeout(WAIT_S), Broker(config={"group.initial.rebalance.delay.ms": "0"}) as broker:
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Producer(**servers) as producer:
                for n in range(10):
                    await producer.send("t", b"%d" % n)
            async with Consumer("t", auto_offset_reset="earliest", **servers, **config) as consumer:
                count = 0
                while count < 10:
                    count += (
                        len(await consumer.poll(0))
                        if how == "poll"
                        else (await consumer.poll_arrow(timeout_ms=0)).num_rows
                    )
            assert count == 10

    asyncio.run(main())


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_one_that_subscribes_again_waits_for_the_listener_of_its_unsubscribe(protocol, static):
    """A static member that joined anew before its listener has committed would be another generation."""

    class Slow(RebalanceListener):
        def __init__(self):
            self.may_commit, self.has_committed = asyncio.Event(), asyncio.Event()

        async def on_partitions_revoked(self, revoked):
            await self.may_commit.wait()
            await self.consumer.commit()
            self.has_committed.set()

    async def work(bootstrap):
        listener = Slow()
        async with Producer(bootstrap_servers=bootstrap) as producer:
            for value in range(10):
                await producer.send("t", str(value).encode())
        more = {"group_instance_id": "one"} if static else {}
        reader = Reader(bootstrap, protocol, enable_auto_commit=False, **more)
        listener.consumer = consumer = reader.consumer
        async with consumer:
            consumer.subscribe(["t"], listener=listener)
            read = []
            while len(read) < 10:
                read += await consumer.poll(200)
            consumer.unsubscribe()
            consumer.subscribe(["t"], listener=listener)
            assert await consumer.poll(300) == []
            listener.may_commit.set()
            while not consumer.assignment():
                read += await consumer.poll(100)
            read += await consumer.poll(100)
            assert listener.has_committed.is_set()
            assert len(read) == 10

    run(work)
