"""The long way of a record: what it waits for may not come."""

import asyncio

import pyarrow as pa
import pytest
from evidence.world.client import NO_ANSWER, ScriptedBroker, producer, run

from oncelog import Admin, Broker, Producer, errors
from oncelog.client.delivery import Delivery
from oncelog.wire.api import ApiKey


def test_a_topic_that_nobody_leads_is_as_good_as_not_known():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.partitions_for("t")
            broker.leader_id = -1
            await p._cluster.refresh(("t",))
            p._cluster.view.topics.pop("t")
            await p._cluster.refresh(("t",))
            with pytest.raises(errors.WouldBlock, match="not known yet"):
                p.send_nowait("t", b"0")

    run(work)


def test_who_waits_for_a_topic_is_told_that_the_producer_was_stopped():
    async def work():
        async with producer(ScriptedBroker()) as p:
            waiting = asyncio.create_task(p.send("nosuch", b"0"))
            await asyncio.sleep(0.1)
            await p.stop()
            with pytest.raises(errors.IllegalState, match="is not running any more: it was stopped"):
                await waiting

    run(work)


def test_a_partition_that_was_just_added_is_asked_for():
    """It was refused until metadata were five minutes old."""

    async def main():
        async with (
            Broker() as broker,
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
            Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as p,
        ):
            await p.send_and_wait("t", b"0")
            await admin.create_partitions({"t": 2})
            assert (await p.send_and_wait("t", b"1", partition=1)).partition == 1
            await admin.create_partitions({"t": 3})
            await p.send_arrow("t", pa.record_batch({"value": pa.array([b"2"])}), partition=2)
            await p.flush()
            await admin.create_partitions({"t": 4})
            rows = {"value": pa.array([b"3", b"4"]), "partition": pa.array([3, None], pa.int32())}
            await p.send_arrow("t", pa.record_batch(rows))
            await p.flush()
            with pytest.raises(errors.InvalidArgument, match=r"outside 0\.\.3"):
                await p.send_arrow("t", pa.record_batch(rows | {"partition": pa.array([3, 4], pa.int32())}))
            with pytest.raises(errors.InvalidPartitions, match="has no partition 4"):
                await p.send("t", b"3", partition=4)
            with pytest.raises(errors.InvalidArgument, match="partition must be a whole number"):
                await p.send("t", b"3", partition=[3])

    asyncio.run(main())


@pytest.mark.parametrize("big_bytes", [700, 2000])
def test_who_came_first_gets_room_first(big_bytes):
    """A large record that waits for room is not passed by all the small ones that come after it."""

    async def work():
        broker, order = ScriptedBroker(), []
        broker.delay_s[ApiKey.PRODUCE] = 0.01

        async def send(name, size_bytes):
            await p.send("t", bytes(size_bytes), partition=0)
            order.append(name)

        async def small(name):
            for n in range(100):
                await send(f"{name}{n}", 80)

        async with producer(broker, buffer_memory=1000, linger_ms=0, max_request_size=5000) as p:
            await p.partitions_for("t")
            async with asyncio.TaskGroup() as tasks:
                others = [tasks.create_task(small(name)) for name in "abcdefghijklmnop"]
                await asyncio.sleep(0.1)
                before = len(order)
                await send("big", big_bytes)
                assert order.index("big") - before <= len(others) + 10  # those that waited already, and what had room
        assert len(order) == 1601

    run(work)


def test_who_gives_up_waiting_for_room_lets_the_next_one_in():
    async def work(loop):
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, NO_ANSWER)
        config = {"buffer_memory": 1000, "linger_ms": 0, "max_block_ms": 1000, "request_timeout_ms": 3000}
        async with producer(broker, **config) as p:
            await p.partitions_for("t")
            first = await p.send("t", bytes(700), partition=0)
            waiting = []
            for size_bytes in (900, 800, 100):
                waiting.append(asyncio.create_task(p.send("t", bytes(size_bytes), partition=0)))
                await asyncio.sleep(0.1)
            assert [each.done() for each in waiting] == [False, False, False]
            with pytest.raises(errors.WouldBlock, match="no room"):
                p.send_nowait("t", b"", partition=0)  # it would fit, but others were here before
            waiting[1].cancel()
            await asyncio.sleep(0)
            with pytest.raises(errors.RequestTimedOut, match="no room for 921 bytes"):
                await waiting[0]
            assert loop.time() < 1.2
            await asyncio.sleep(0.01)
            assert waiting[2].done(), "it fits beside what is on its way"
            assert (await first).offset >= 0
            assert (await waiting[2].result()).offset >= 0

    run(work)


class SlowTopics:
    """Metadata that takes as long as it is told to, each time anew; None fails."""

    def __init__(self, producer, *delays_s):
        self.delays_s, self.asked, self.real = list(delays_s), 0, producer._sending.topic
        producer._sending.topic = self.topic

    async def topic(self, topic, **options):
        self.asked += 1
        delay_s = self.delays_s.pop(0)
        await asyncio.sleep(delay_s or 0)
        if delay_s is None:
            raise errors.UnknownTopicOrPartition(f"topic {topic!r}")
        return await self.real(topic, **options)


def as_event_loops_are(loop):
    loop.random.shuffle = lambda handles: None  # the simulator's begins tasks in any order


def test_the_first_burst_to_a_topic_is_stored_in_its_order():
    """Each asked and waited for itself, with a back-off of its own: Apache Kafka answers a topic that is being made so."""

    async def work(loop):
        as_event_loops_are(loop)
        broker = ScriptedBroker()
        async with producer(broker, batch_size=100) as p:
            topics = SlowTopics(p, 3, 2, 1, 0)
            sends = [asyncio.ensure_future(p.send("t", b"%d" % each, partition=0)) for each in range(4)]
            await asyncio.wait(sends[:1])
            late = asyncio.ensure_future(p.send("t", b"4", partition=0))
            await asyncio.gather(*sends, late)
            await p.flush()
            assert topics.asked == 1
        assert [value for *_, values in broker.produced() for value in values] == [b"0", b"1", b"2", b"3", b"4"]

    run(work)


def test_who_asks_for_a_topic_and_is_cancelled_leaves_it_to_the_next():
    async def work(loop):
        as_event_loops_are(loop)
        broker = ScriptedBroker()
        async with producer(broker) as p:
            topics = SlowTopics(p, 1, 1)
            sends = [asyncio.ensure_future(p.send("t", b"%d" % each, partition=0)) for each in range(4)]
            await asyncio.sleep(0.5)
            sends[0].cancel()
            sends[2].cancel()
            assert [type(each) for each in await asyncio.gather(*sends, return_exceptions=True)] == [
                asyncio.CancelledError,
                Delivery,
                asyncio.CancelledError,
                Delivery,
            ]
            await p.flush()
            assert (topics.asked, p._sending._waiting) == (2, {})
        assert [value for *_, values in broker.produced() for value in values] == [b"1", b"3"]

    run(work)


def test_a_topic_that_cannot_be_had_is_told_to_all_who_wait_for_it():
    async def work(loop):
        as_event_loops_are(loop)
        async with producer(ScriptedBroker()) as p:
            topics = SlowTopics(p, None, 0)
            sends = [p.send("t", b"v", partition=0) for _ in range(3)]
            told = await asyncio.gather(*sends, return_exceptions=True)
            assert [type(each) for each in told] == [errors.UnknownTopicOrPartition] * 3
            assert topics.asked == 1
            await p.send("t", b"v", partition=0)

    run(work)


@pytest.mark.parametrize("waits_for", ["partition", "room"])
def test_all_that_a_record_waits_for_takes_max_block_ms(waits_for):
    """Metadata of the topic, then once more for a partition that is not in it; or room."""

    async def work(loop):
        broker = ScriptedBroker()
        async with producer(broker, max_block_ms=4000, buffer_memory=40_000, linger_ms=60_000) as p:
            if waits_for == "room":
                broker.script(ApiKey.PRODUCE, *[NO_ANSWER] * 9)
                await p.send("t", bytes(30_000), partition=0)
                p._cluster.view.topics.clear()
            broker.delay_s[ApiKey.METADATA] = 2.5
            began = loop.time()
            with pytest.raises(errors.RequestTimedOut, match="4000"):
                await p.send("t", bytes(30_000), partition=0 if waits_for == "room" else 7)
            assert loop.time() - began == pytest.approx(4, abs=0.1)
            p.purge()

    run(work)


def test_who_asks_for_a_topic_in_turn_waits_no_longer_for_the_others():
    async def work(loop):
        broker = ScriptedBroker()
        broker.leader_id = -1
        async with producer(broker, max_block_ms=4000) as p:
            first = asyncio.create_task(p.send("t", b"0"))
            await asyncio.sleep(0.1)
            waiting = [asyncio.create_task(p.send("t", b"%d" % n)) for n in range(2)]
            began = loop.time()
            await asyncio.sleep(3)
            first.cancel()
            told = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in told] == [errors.RequestTimedOut] * 2
            assert 3 < loop.time() - began < 4.1

    run(work)
