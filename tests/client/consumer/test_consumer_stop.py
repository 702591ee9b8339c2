"""A consumer that is stopped, or never came to run: who waits is told, nothing is left."""

import asyncio
import logging
from functools import partial

import pytest
from evidence.world.client import NO_ANSWER, ScriptedBroker, run

from oncelog import errors, sync
from oncelog.client.consumer import consumer as module
from oncelog.wire.api import ApiKey
from tests.client.consumer import test_classic_protocol, test_consumer_protocol
from tests.client.consumer.test_consumer import ZERO, consumer

NO_MEMBER = (ScriptedBroker, {})
CLASSIC = (test_classic_protocol.Coordinator, {"group_id": "g"})
KIP_848 = (test_consumer_protocol.Coordinator, {"group_id": "g", "group_protocol": "consumer"})


@pytest.mark.parametrize(("broker", "config"), [NO_MEMBER, CLASSIC, KIP_848])
def test_a_poll_that_waits_is_told_at_once(broker, config):
    async def work(loop):
        c = consumer(broker(), "t", **config)
        await c.start()
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(told(c))
            await asyncio.sleep(1)
            began = loop.time()
            await c.stop(500)
            await waiting
            assert loop.time() - began < 1

    async def told(c):
        with pytest.raises(errors.IllegalState, match="it was stopped, make a new one"):
            await c.poll(600_000)

    run(work)


def test_async_for_ends():
    async def work():
        c = consumer(ScriptedBroker(), "t")
        await c.start()

        async def read():
            return [record async for record in c]

        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(read())
            await asyncio.sleep(1)
            await c.stop()
        assert reading.result() == []

    run(work)


def test_a_blocking_loop_ends(oncelog_broker):
    c = sync.Consumer("none-yet", bootstrap_servers=oncelog_broker.bootstrap_servers)
    c.start()
    c.stop()
    assert list(c) == []


def test_a_start_that_fails_leaves_nothing(monkeypatch):
    class Broken(Exception):
        pass

    def breaks(_):
        raise Broken

    async def work():
        monkeypatch.setattr(module.Consumer, "_start_membership", breaks)
        before = asyncio.all_tasks()
        c = consumer(ScriptedBroker(), "t", group_id="g")
        with pytest.raises(Broken):
            await c.start()
        assert asyncio.all_tasks() == before
        assert c._cluster.is_closed

    run(work)


@pytest.mark.parametrize(("broker", "config"), [NO_MEMBER, CLASSIC])
def test_a_topic_that_does_not_exist_is_told_once(broker, config, caplog):
    async def work():
        async with consumer(broker(), "nowhere", allow_auto_create_topics=False, **config) as c:
            for _ in range(5):
                assert await c.poll(3000) == []

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(work)
    told = [record.getMessage() for record in caplog.records if "nowhere" in record.getMessage()]
    assert told == ["topic 'nowhere' does not exist; it is read when somebody creates it"]


def test_a_topic_that_is_deleted_under_its_reader_is_told_each_time(oncelog_broker, caplog):
    """An assigned one was polled for in silence."""

    server, name = oncelog_broker.bootstrap_servers, "deleted-under-its-reader"
    with (
        caplog.at_level(logging.WARNING, "oncelog.client"),
        sync.Admin(bootstrap_servers=server) as admin,
        sync.Consumer(bootstrap_servers=server, auto_offset_reset="earliest") as c,
    ):
        c.assign([(name, 0)])
        for _ in range(2):
            admin.create_topics([name])
            with sync.Producer(bootstrap_servers=server) as p:
                p.send_and_wait(name, b"1")
            while not c.poll(100):
                pass
            caplog.clear()
            admin.delete_topics([name])
            for _ in range(100):
                assert c.poll(100) == []
                if "does not exist" in caplog.text:
                    break
            assert f"topic '{name}' does not exist; it is read when somebody creates it" in caplog.text


@pytest.mark.parametrize(("broker", "config"), [CLASSIC, KIP_848])
def test_a_poll_that_commits_beside_a_stop_is_told_that_it_was_stopped(broker, config):
    """It was a RuntimeError of its tasks."""

    async def work(_, wait_ms):
        c = consumer(broker(), "t", **config, auto_commit_interval_ms=1)
        await c.start()
        waiting = asyncio.ensure_future(_poll_on(c))
        await asyncio.sleep(wait_ms / 1000)
        await c.stop()
        with pytest.raises(errors.IllegalState):
            await waiting

    async def _poll_on(c):
        while True:
            await c.poll(20)

    for wait_ms in range(0, 400, 3):
        run(partial(work, wait_ms=wait_ms))


CALLS = {
    "start": lambda c: c.start(),
    "poll": lambda c: c.poll(100),
    "poll_arrow": lambda c: c.poll_arrow(100),
    "position": lambda c: c.position(ZERO),
    "committed": lambda c: c.committed([ZERO]),
    "commit": lambda c: c.commit({ZERO: 1}),
    "end_offsets": lambda c: c.end_offsets([ZERO]),
    "partitions_for_topic": lambda c: c.partitions_for_topic("t"),
    "assign": lambda c: c.assign([ZERO]),
    "subscribe": lambda c: c.subscribe(["t"]),
    "unsubscribe": lambda c: c.unsubscribe(),
}


@pytest.mark.parametrize(("broker", "config"), [NO_MEMBER, CLASSIC, KIP_848])
@pytest.mark.parametrize("state", ["stopped", "its start was cancelled", "its start failed"])
@pytest.mark.parametrize("call", CALLS)
def test_one_that_is_over_says_so_whatever_is_asked_of_it(broker, config, state, call):
    async def work():
        served = broker()
        quick = {"default_api_timeout_ms": 300, "request_timeout_ms": 300}
        c = consumer(served, "t", **config, **quick)
        if state == "its start failed":
            served.script(ApiKey.METADATA, *[NO_ANSWER] * 10)
            with pytest.raises(errors.RequestTimedOut):
                await c.start()
        else:
            starting = asyncio.ensure_future(c.start())
            if state == "stopped":
                await starting
                await c.stop()
            else:
                await asyncio.sleep(0)
                starting.cancel()
                await asyncio.gather(starting, return_exceptions=True)
        with pytest.raises(errors.IllegalState, match=r"make a new one|no group_id|was closed|is not assigned"):
            asked = CALLS[call](c)
            if asked is not None:
                await asked
        await c.stop()

    run(work)
