"""Whoever waits in a client is woken: at the stop, by whoever finishes, and while the application waits in `poll`."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, NO_ANSWER, ScriptedBroker, run

from oncelog import Consumer, Producer
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.config import ClientConfig
from oncelog.errors import IllegalState, RequestTimedOut
from oncelog.wire.api import ApiKey
from tests.client.consumer.test_classic_protocol import Coordinator
from tests.client.consumer.test_consumer_protocol import Coordinator as ConsumerCoordinator
from tests.client.consumer.test_consumer_protocol import consumer_of


def topics_asked(broker: ScriptedBroker) -> list[list[str]]:
    return [[topic.name for topic in asked.topics or ()] for asked in broker.requests(ApiKey.METADATA)]


@pytest.mark.parametrize("seed", range(20))
def test_what_is_wanted_while_metadata_is_on_its_way_is_asked_for_when_it_came(seed):
    """Asked for in any step of the request that is on its way, also in the one in which it ends."""

    async def work(loop):
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.METADATA] = 0.05
        heard = []

        def came():
            heard.append(loop.time())
            for steps in range(4):
                later(steps, f"wanted-{len(heard)}-{steps}")

        def later(steps, name):
            if steps:
                loop.call_soon(later, steps - 1, name)
            elif len(heard) < 3:
                wanted.append(name)
                cluster.refresh_soon([name])

        wanted = ["first"]
        cluster = Cluster(ClientConfig(bootstrap_servers=BOOTSTRAP), broker.host(), on_failure=print, on_metadata=came)
        await cluster.start()
        cluster.refresh_soon(["first"])
        await asyncio.sleep(30)
        asked = {name for names in topics_asked(broker) for name in names}
        assert asked >= set(wanted)
        await cluster.close()

    run(work, seed)


def test_a_metadata_request_that_failed_does_not_take_along_what_was_wanted_meanwhile():
    async def work(loop):
        broker = ScriptedBroker()
        cluster = Cluster(
            ClientConfig(bootstrap_servers=BOOTSTRAP, request_timeout_ms=200), broker.host(), lambda _: None
        )
        await cluster.start()
        broker.script(ApiKey.METADATA, NO_ANSWER)
        cluster.refresh_soon(["first"])
        loop.call_later(0.1, cluster.refresh_soon, ["second"])
        await asyncio.sleep(30)
        assert "second" in {name for names in topics_asked(broker) for name in names}
        await cluster.close()

    run(work)


def test_a_send_that_waits_for_metadata_is_told_that_the_producer_was_stopped():
    """Not cancelled: nobody cancelled the application's task."""

    async def work():
        broker = ScriptedBroker()
        producer = Producer(bootstrap_servers=BOOTSTRAP, host=broker.host())
        await producer.start()
        broker.delay_s[ApiKey.METADATA] = 5
        sending = asyncio.ensure_future(producer.send("unknown", b"v"))
        await asyncio.sleep(0.5)
        await producer.stop(timeout_ms=100)
        with pytest.raises(IllegalState):
            await sending

    run(work)


def test_a_request_that_waits_for_its_connection_is_told_that_the_client_was_closed():
    async def work():
        broker = ScriptedBroker()
        cluster = Cluster(ClientConfig(bootstrap_servers=BOOTSTRAP), broker.host(), lambda _: None)
        await cluster.start()
        broker.script(ApiKey.API_VERSIONS, NO_ANSWER)
        node = next(iter(cluster.view.nodes.values()))
        asking = asyncio.ensure_future(cluster.connection(node, "another lane"))
        await asyncio.sleep(0.5)
        await cluster.close()
        with pytest.raises(IllegalState):
            await asking

    run(work)


@pytest.mark.parametrize("seed", range(10))
def test_while_anybody_waits_for_room_nothing_lingers(seed):
    """Also when another one that waited has found its room: what it wrote would linger in the way of the first."""

    async def work(loop):
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.PRODUCE] = 0.2
        async with Producer(
            bootstrap_servers=BOOTSTRAP,
            host=broker.host(),
            linger_ms=100_000,
            delivery_timeout_ms=200_000,
            buffer_memory=4000,
            batch_size=2000,
            max_block_ms=5000,
            max_in_flight_requests_per_connection=1,
        ) as producer:
            on_its_way = await producer.send("t", b"x" * 1500, partition=0)
            producer.send_soon()
            await asyncio.sleep(0.1)
            lingers = await producer.send("t", b"x" * 1500, partition=0)
            large = asyncio.ensure_future(producer.send("t", b"x" * 3000, partition=1))
            await asyncio.sleep(0)
            small = asyncio.ensure_future(producer.send("t", b"x" * 1200, partition=1))
            await asyncio.sleep(0)
            sent = [on_its_way, lingers, await large, await small]
            assert loop.time() < 4
            producer.send_soon()
            await asyncio.gather(*sent)

    run(work, seed)


@pytest.mark.parametrize("commits", [True, False])
def test_who_waits_in_poll_is_not_silent_with_the_brokers_assignment_either(commits):
    async def work(loop):
        broker = ConsumerCoordinator()
        consumer = consumer_of(broker, max_poll_interval_ms=1000, enable_auto_commit=commits)
        async with consumer:
            assert await consumer.poll(timeout_ms=10_000) == []
            assert loop.time() >= 10
            epochs = [asked.member_epoch for asked in broker.requests(ApiKey.CONSUMER_GROUP_HEARTBEAT)]
            assert epochs.count(0) == 1
            assert min(epochs) == 0, "it never left"

    run(work)


@pytest.mark.parametrize("commits", [True, False])
def test_who_waits_in_poll_is_not_silent(commits):
    """A poll may wait longer than max_poll_interval_ms: the application is there."""

    async def work(loop):
        broker = Coordinator()
        async with Consumer(
            "t",
            bootstrap_servers=BOOTSTRAP,
            host=broker.host(),
            group_id="g",
            max_poll_interval_ms=1000,
            heartbeat_interval_ms=300,
            enable_auto_commit=commits,
        ) as consumer:
            assert await consumer.poll(timeout_ms=10_000) == []
            assert loop.time() >= 10
            assert broker.requests(ApiKey.LEAVE_GROUP) == []
            assert broker.generation_id == 1

    run(work)


def test_a_join_that_ends_when_the_member_has_left_is_nobodys():
    async def work():
        broker = Coordinator()
        async with Consumer("t", bootstrap_servers=BOOTSTRAP, host=broker.host(), group_id="g") as consumer:
            broker.delay_s[ApiKey.SYNC_GROUP] = 2
            polling = asyncio.ensure_future(consumer.poll(timeout_ms=4000))
            await asyncio.sleep(1)
            membership = consumer._membership
            assert membership.is_joining
            membership.depart("gone")
            assert await polling == []
            assert broker.generation_id >= 2, "it joined again, as whoever it is now"

    run(work)


def test_metadata_that_never_comes_ends_with_the_callers_own_time():
    async def work(loop):
        broker = ScriptedBroker()
        cluster = Cluster(ClientConfig(bootstrap_servers=BOOTSTRAP), broker.host(), lambda _: None)
        await cluster.start()
        broker.script(ApiKey.METADATA, *[NO_ANSWER] * 100)
        with pytest.raises(RequestTimedOut):
            await cluster.topic("another", timeout_ms=1500)
        assert loop.time() < 2
        await cluster.close()

    run(work)
