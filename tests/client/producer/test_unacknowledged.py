"""Produce without acknowledgements (acks=0): a broker that reads slowly, or not at all, costs no memory and no caller."""

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, FULL_BYTES, ScriptedBroker, run

from oncelog import Producer
from oncelog.errors import KafkaError, Network, ProducerStopped, RequestTimedOut
from oncelog.wire.api import ApiKey

BATCH_BYTES = 16_384
VALUE = b"x" * 4_000


def producer(broker, **config):
    config = {"acks": 0, "enable_idempotence": False, "linger_ms": 0, "batch_size": BATCH_BYTES, **config}
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, **config)


async def until(true):
    while not true():  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.001)


def unsent_bytes(broker):
    return sum(pipe.peer.get_write_buffer_size() for pipe in broker.pipes)


def not_read_any_more(broker):
    """The producer's newest connection, the broker's end."""
    pipe = broker.pipes[-1]
    pipe.pause_reading()
    return pipe


async def send_many(p, count):
    return [await p.send("t", b"%d " % n + VALUE, partition=n % 2) for n in range(count)]


def test_what_a_broker_does_not_read_is_bounded_and_holds_back_send():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, buffer_memory=400_000) as p:
            await (await p.send("t", b"first", partition=0))
            pipe = not_read_any_more(broker)
            sending = asyncio.ensure_future(send_many(p, 1000))
            await asyncio.sleep(20)
            assert not sending.done(), "send waits for room in buffer_memory"
            assert unsent_bytes(broker) < FULL_BYTES + 3 * BATCH_BYTES
            pipe.resume_reading()
            await asyncio.gather(*await sending)
            await until(lambda: sum(broker.end_offsets.values()) == 1001)
            for partition in range(2):
                values = [record.value for batch in broker.log["t", partition] for record in batch.records()]
                numbers = [int(value.split()[0]) for value in values if value != b"first"]
                assert numbers == list(range(partition, 1000, 2)), "in order, each once"
        assert broker.connection_count == 2, "the bootstrap server's and the leader's"

    run(work)


def test_a_broker_that_never_reads_again_is_given_up():
    """Its connection is cut, not closed: closing would keep what it did not read for as long as it does not read."""

    async def work(loop):
        broker = ScriptedBroker()
        p = producer(broker, request_timeout_ms=1000, delivery_timeout_ms=1500, retries=0)
        await p.start()
        await (await p.send("t", b"first", partition=0))
        pipe = not_read_any_more(broker)
        began, deliveries = loop.time(), await send_many(p, 40)
        outcomes = await asyncio.gather(*deliveries, return_exceptions=True)
        assert loop.time() - began < 3
        failed = [each for each in outcomes if isinstance(each, KafkaError)]
        assert failed, "what did not leave"
        assert {type(each) for each in failed} <= {RequestTimedOut, Network}
        assert pipe.closed
        assert unsent_bytes(broker) == 0
        assert p._sender.requests_in_flight_count == 0
        await (await p.send("t", b"last", partition=0))
        await until(lambda: broker.connection_count == 3)
        await p.stop()

    run(work)


def test_what_else_waits_on_that_connection_is_told():
    async def work(loop):
        broker = ScriptedBroker()
        p = producer(broker, request_timeout_ms=1000, retries=0)
        await p.start()
        await (await p.send("t", b"first", partition=0))
        not_read_any_more(broker)
        await send_many(p, 40)
        began = loop.time()
        connection = await p._cluster.connection(p._cluster.view.nodes[1])
        with pytest.raises(Network):
            await connection.refresh_versions(60_000)
        assert loop.time() - began < 2
        await p.stop()

    run(work)


def test_a_connection_that_is_lost_meanwhile_is_followed_by_another():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await (await p.send("t", b"first", partition=0))
            pipe = not_read_any_more(broker)
            deliveries = await send_many(p, 40)
            await asyncio.sleep(1)
            assert not all(each.done() for each in deliveries)
            pipe.abort()
            await asyncio.gather(*deliveries)
            await until(lambda: broker.connection_count == 3)

    run(work)


@pytest.mark.parametrize("waits_for", ["stop", "flush"])
def test_a_stop_is_not_held_up(waits_for):
    async def work(loop):
        broker = ScriptedBroker()
        p = producer(broker)
        await p.start()
        await (await p.send("t", b"first", partition=0))
        pipe = not_read_any_more(broker)
        deliveries = await send_many(p, 40)
        flushing = asyncio.ensure_future(p.flush()) if waits_for == "flush" else None
        await asyncio.sleep(1)
        began = loop.time()
        await p.stop(timeout_ms=2000)
        assert loop.time() - began < 2.5
        outcomes = await asyncio.wait_for(asyncio.gather(*deliveries, return_exceptions=True), 1)
        assert any(isinstance(each, KafkaError) for each in outcomes)
        if flushing is not None:
            with pytest.raises(ProducerStopped, match="the producer was stopped"):
                await asyncio.wait_for(flushing, 1)
        await asyncio.sleep(0.1)
        assert pipe.closed
        assert unsent_bytes(broker) == 0

    run(work)


def test_what_was_purged_meanwhile_is_told_and_the_next_goes_on():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await (await p.send("t", b"first", partition=0))
            pipe = not_read_any_more(broker)
            await send_many(p, 40)
            await asyncio.sleep(1)
            assert p.purge() > 0
            pipe.resume_reading()
            await (await p.send("t", b"last", partition=0))
            await p.flush()
            await until(lambda: broker.log["t", 0][-1].records()[0].value == b"last")
            assert len(broker.requests(ApiKey.PRODUCE)) < 20

    run(work)
