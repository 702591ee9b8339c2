"""`Consumer.wakeup`: whoever waits is told once, wherever it waits; no record is lost."""

from __future__ import annotations

import asyncio
import threading

import pytest
from evidence.world.client import NO_ANSWER, ScriptedBroker, run

from oncelog import RebalanceListener, TopicPartition, errors, sync
from oncelog.wire.api import ApiKey
from tests.client.consumer import test_classic_protocol, test_consumer_protocol
from tests.client.consumer.test_consumer import ZERO, consumer, fill, values

CLASSIC = (test_classic_protocol.Coordinator, {"group_id": "g"})
KIP_848 = (test_consumer_protocol.Coordinator, {"group_id": "g", "group_protocol": "consumer"})


async def woken(waiting):
    with pytest.raises(errors.WakeupError):
        await waiting


@pytest.mark.parametrize(("broker", "config"), [(ScriptedBroker, {}), CLASSIC, KIP_848])
def test_a_poll_that_waits_is_woken_once(broker, config):
    async def work(loop):
        async with consumer(broker(), "t", **config) as c:
            waiting = asyncio.ensure_future(woken(c.poll(600_000)))
            await asyncio.sleep(2)
            c.wakeup()
            c.wakeup()
            began = loop.time()
            await waiting
            assert loop.time() - began < 0.1
            assert await c.poll(500) == [], "once"

    run(work)


def test_the_next_poll_is_woken_where_none_waits():
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            c.wakeup()
            await woken(c.poll(5_000))
            assert values(await c.poll(5_000)) == list(range(10))
            c.wakeup()
            await woken(c.poll_arrow(timeout_ms=5_000))

    run(work)


def test_a_look_for_a_position_that_nobody_answers_is_left():
    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        broker.script(ApiKey.LIST_OFFSETS, NO_ANSWER)
        async with consumer(broker) as c:
            c.assign([ZERO])
            waiting = asyncio.ensure_future(woken(c.poll(600_000)))
            await asyncio.sleep(1)
            assert broker.requests(ApiKey.LIST_OFFSETS)
            began = loop.time()
            c.wakeup()
            await waiting
            assert loop.time() - began < 0.1
            assert values(await c.poll(120_000)) == list(range(10))  # the look goes on, and is repeated

    run(work)


def test_records_at_hand_wait_for_no_second_look():
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker, "t") as c:
            assert values([await anext(c), await anext(c)]) == [0, 1]
            c.wakeup()
            await woken(anext(c))
            assert values([await anext(c), await anext(c)]) == [2, 3]

    run(work)


def test_a_listener_that_runs_is_let_end():
    class Slow(RebalanceListener):
        told = False

        async def on_partitions_assigned(self, assigned):
            c.wakeup()
            await asyncio.sleep(1)
            self.told = True

    async def work():
        nonlocal c
        listener = Slow()
        async with consumer(test_classic_protocol.Coordinator(), group_id="g") as c:
            c.subscribe(["t"], listener=listener)
            await woken(c.poll(60_000))
            assert listener.told
            assert await c.poll(500) == []

    c = None
    run(work)


def test_a_consumer_that_was_stopped_says_so():
    async def work():
        c = consumer(ScriptedBroker(), "t")
        c.wakeup()  # before the start, too
        await c.start()
        await woken(c.poll(500))
        await c.stop()
        c.wakeup()
        with pytest.raises(errors.IllegalState, match="stopped"):
            await c.poll(500)

    run(work)


def test_another_thread_wakes_a_blocking_poll(oncelog_broker, oncelog_topic):
    with sync.Producer(bootstrap_servers=oncelog_broker.bootstrap_servers) as producer:
        producer.send_many(oncelog_topic, [(None, b"%d" % n) for n in range(5)])
        producer.flush()
    with sync.Consumer(bootstrap_servers=oncelog_broker.bootstrap_servers, auto_offset_reset="earliest") as c:
        c.assign([TopicPartition(oncelog_topic, 0)])
        assert [each.value for each in c.poll(max_records=1, timeout_ms=10_000)] == [b"0"]
        c.wakeup()  # records are lent to this thread: they are not handed out first
        with pytest.raises(errors.WakeupError):
            c.poll()
        found = [next(c).value for _ in range(4)]
        assert found == [b"1", b"2", b"3", b"4"]
        waits = threading.Timer(0.05, c.wakeup)
        waits.start()
        with pytest.raises(errors.WakeupError):
            next(c)
        waits.join()
        assert c.poll(timeout_ms=1) == []
