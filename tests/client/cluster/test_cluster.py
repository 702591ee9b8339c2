"""A client's way to a cluster: what does not exist is not waited for, what keeps it from connecting is told, one loop."""

import asyncio
import logging

import pytest
from evidence.world.client import BOOTSTRAP, CUT, ScriptedBroker, run

from oncelog import Admin, Consumer, TopicPartition, errors
from oncelog.testing import TestBroker
from oncelog.wire.api import ApiKey

NOWHERE = TopicPartition("nowhere", 0)


def admin(broker):
    return Admin(host=broker.host(), bootstrap_servers=BOOTSTRAP)


@pytest.mark.parametrize("call", ["list_offsets", "delete_records", "describe_producers", "beyond the last partition"])
def test_what_does_not_exist_is_waited_for_ten_seconds(call):
    async def work(loop):
        broker = ScriptedBroker()
        async with admin(broker) as a:
            calls = {
                "list_offsets": lambda: a.list_offsets({NOWHERE: "latest"}),
                "delete_records": lambda: a.delete_records({NOWHERE: 0}),
                "describe_producers": lambda: a.describe_producers([NOWHERE]),
                "beyond the last partition": lambda: a.list_offsets({TopicPartition("t", 99): "latest"}),
            }
            began = loop.time()
            with pytest.raises(errors.UnknownTopicOrPartition, match="create it, or look at its name"):
                await calls[call]()
            assert 10 <= loop.time() - began < 13

    run(work)


def test_what_was_created_is_waited_for_to_the_end():
    async def work(loop):
        broker = ScriptedBroker()
        known = broker._metadata

        def late(message, code):
            answer = known(message, code)
            for topic in answer.topics:
                topic.error_code = 3 if loop.time() < 30 else topic.error_code
            return answer

        broker._metadata = late
        async with admin(broker) as a:
            with pytest.raises(errors.UnknownTopicOrPartition):
                await a._cluster.topic("t", timeout_ms=60_000)
            assert loop.time() < 13
            assert (await a._cluster.topic("t", timeout_ms=60_000, was_created=True)).name == "t"
            assert loop.time() >= 30

    run(work)


def test_other_errors_are_waited_for_to_the_end():
    async def work(loop):
        broker = ScriptedBroker()
        async with admin(broker) as a:
            broker.script(ApiKey.LIST_OFFSETS, *[CUT] * 1000)
            began = loop.time()
            with pytest.raises(errors.RequestTimedOut):
                await a.list_offsets({TopicPartition("t", 0): "latest"})
            assert loop.time() - began > 55

    run(work)


def test_what_keeps_it_from_connecting_is_logged_once(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.is_reachable = False
        client = Admin(host=broker.host(), bootstrap_servers=BOOTSTRAP, default_api_timeout_ms=3000)
        with pytest.raises(errors.RequestTimedOut):
            await client.start()

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(work)
    (told,) = [record.getMessage() for record in caplog.records]
    assert "admin: not connected yet, tried for 3000 ms at most: NETWORK_EXCEPTION" in told


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "this is HTTP (the port of a web server), not Kafka's protocol"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "this is TLS (the port wants security_protocol=SSL)"),
        (b"", "was lost before its first answer: is this a Kafka listener, and one without TLS?"),
    ],
)
def test_ports_of_others_are_recognised(answer, says, caplog):
    async def serve(reader, writer):
        await reader.read(1)
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async def main():
        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            client = Admin(bootstrap_servers=f"127.0.0.1:{port}", default_api_timeout_ms=3_000)
            with pytest.raises(errors.RequestTimedOut) as refused:
                await client.start()
            assert says in str(refused.value)

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        asyncio.run(main())
    assert sum(says in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize("kind", [Admin, Consumer])
def test_a_client_is_refused_in_another_loop(kind, oncelog_broker: TestBroker):
    """It waited there for ever, for answers that came to its own."""
    client = kind(bootstrap_servers=oncelog_broker.bootstrap_servers)

    async def elsewhere():
        asks = client.list_topics if kind is Admin else client.topics
        for call in (asks, client.stop):
            with pytest.raises(errors.IllegalState, match="another event loop: make one in each"):
                await call()

    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(client.start())
        asyncio.run(elsewhere())
        loop.run_until_complete(client.stop())
    finally:
        loop.close()


def test_a_closed_client_says_so():
    async def work():
        a = admin(ScriptedBroker())
        await a.start()
        await a.stop()
        await a.stop()
        with pytest.raises(errors.IllegalState, match="was closed"):
            await a.list_topics()

    run(work)


def test_a_name_that_cannot_be_sent_fails_nobody_else():
    """One request asks for the topics of all who want some at that time."""

    async def work(loop):
        async with admin(ScriptedBroker()) as a:
            wrong, right = await asyncio.gather(
                a._cluster.refresh(["\ud800"]), a._cluster.refresh(["t"]), return_exceptions=True
            )
            assert isinstance(wrong, errors.InvalidTopic)
            assert right is None
            assert "t" in a._cluster.view.topics

    run(work)
