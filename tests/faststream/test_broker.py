"""The broker's life: start, stop, ping, publications outside of handlers, an application around it."""

from __future__ import annotations

import asyncio
import os
import signal

import httpx
import pytest
from faststream import BaseMiddleware, FastStream, TestApp
from faststream.asgi import AsgiFastStream, make_ping_asgi
from faststream.exceptions import FeatureNotSupportedException, IncorrectState, SetupError

from oncelog import Broker
from oncelog.errors import ConfigurationError, RequestTimedOut, TransactionalIdAuthorization
from oncelog.faststream import OncelogBroker, OncelogResponse
from oncelog.faststream.annotations import OncelogBroker as Injected
from oncelog.faststream.message import OncelogMessage as NotInjected
from oncelog.testing import FaultyProxy, TestBroker
from tests.faststream.world import QUICK, fill, new_broker, position, read, run, running, until, values

NOBODY = "127.0.0.1:1"


# -- start


def test_a_start_without_a_broker_ends_in_time_and_says_what_to_do():
    app = FastStream(new_broker(NOBODY, start_timeout_ms=100), logger=None)

    async def work():
        async with asyncio.timeout(10):
            await app.run()

    with pytest.raises(
        RequestTimedOut, match=r"127\.0\.0\.1:1.*; start a broker there \(`oncelog serve`\), or mend the address"
    ):
        asyncio.run(work())


def test_a_subscriber_that_may_not_write_is_told_at_the_start_and_nothing_is_left():
    with TestBroker() as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
        proxy.refuse("InitProducerId", 53)

        async def work():
            mine = new_broker(proxy.bootstrap_servers)

            @mine.subscriber("in", group_id="g", transactional_id="t")
            async def handle(_: int) -> None:
                pass

            with pytest.raises(TransactionalIdAuthorization):
                await mine.start()
            (subscriber,) = mine.subscribers
            assert not subscriber.running
            await mine.stop()

        asyncio.run(work())


def test_it_can_be_started_again():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            return number

        async with running(broker):
            await broker.start()  # it is already
            await read(bootstrap, "out", 1)
        async with running(broker):
            await fill(bootstrap, b"2")
            assert await values(bootstrap, "out", 2) == [b"1", b"2"]

    run(work)


# -- ping


def test_ping_tells_whether_brokers_answer():
    async def work():
        async with Broker() as server:
            broker = new_broker(server.bootstrap_servers, start_timeout_ms=5000)
            assert not await broker.ping()
            await broker.connect()
            assert await broker.ping(10)
        assert not await broker.ping(0.05)
        await broker.stop()
        assert not await broker.ping(0.05)

    asyncio.run(work())


# -- publications outside of handlers


def test_what_is_published_elsewhere_is_written_at_once():
    async def work(bootstrap):
        await fill(bootstrap)
        broker = new_broker(bootstrap)
        publisher = broker.publisher("side", key="k", headers={"a": "1"}, reply_to="answers")
        with pytest.raises(IncorrectState, match="not connected"):
            await broker.publish("early", "out")
        async with broker:
            first = await broker.publish({"a": 1}, "out", key="k", headers={"b": b"\xff"}, correlation_id="c")
            assert (first.topic, first.partition, first.offset) == ("out", 0, 0)
            await broker.publish(None, topic="out", partition=0, timestamp_ms=5)
            await broker.publish_batch("1", OncelogResponse("2", key=b"own"), topic="out", key="all")
            await publisher.publish("x")
            await publisher.publish("y", "out", key="other")
            with pytest.raises(FeatureNotSupportedException, match="a log has no answers"):
                await broker.request("x", "out")
            with pytest.raises(FeatureNotSupportedException, match="reply_to"):
                await publisher.request("x")
        found = await read(bootstrap, "out", 5)
        assert [(each.key, each.value) for each in found] == [
            (b"k", b'{"a":1}'),
            (None, None),
            (b"all", b"1"),
            (b"own", b"2"),
            (b"other", b"y"),
        ]
        assert found[1].timestamp_ms == 5
        assert dict(found[0].headers) == {"content-type": b"application/json", "correlation_id": b"c", "b": b"\xff"}
        (side,) = await read(bootstrap, "side", 1)
        assert (side.key, dict(side.headers)["a"], dict(side.headers)["reply_to"]) == (b"k", b"1", b"answers")

    run(work)


def test_middlewares_are_around_messages_and_publications():
    class Middleware(BaseMiddleware):
        async def consume_scope(self, call_next, msg):
            lines.append(f"consume {msg.raw_message.offset}")
            return await call_next(msg)

        async def publish_scope(self, call_next, cmd):
            lines.append(f"publish {cmd.destination}")
            cmd.headers["seen"] = "yes"
            return await call_next(cmd)

    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker = new_broker(bootstrap, middlewares=[Middleware])

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int, broker: Injected) -> int:
            await broker.publish(number, "side")
            return number

        async with running(broker):
            (out,), (side,) = await read(bootstrap, "out", 1), await read(bootstrap, "side", 1)
        assert dict(out.headers)["seen"] == dict(side.headers)["seen"] == b"yes"

    lines = []
    run(work)
    assert lines == ["consume 0", "publish side", "publish out"]


# -- an application around it


def test_a_signal_ends_the_application_when_what_is_begun_has_ended():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(0)
            return number

        await FastStream(broker, logger=None).run(sleep_time=0.01)
        assert await values(bootstrap, "out", 1) == [b"1"]
        assert await position(bootstrap) == 1

    run(work)


def test_hooks_may_publish_and_test_app_runs_it_in_a_test(oncelog_broker, oncelog_topic, oncelog_consumer):
    broker = new_broker(oncelog_broker.bootstrap_servers)
    app = FastStream(broker, logger=None)

    @broker.subscriber(oncelog_topic, group_id=oncelog_topic, **QUICK)
    @broker.publisher(f"{oncelog_topic}-out")
    async def handle(number: int) -> int:
        return number + 1

    @app.after_startup
    async def begin() -> None:
        await broker.publish(1, oncelog_topic)

    consumer = oncelog_consumer(f"{oncelog_topic}-out")
    with TestApp(app):
        found = []
        while not found:
            found = consumer.poll(timeout_ms=10_000)
    assert [record.value for record in found] == [b"2"]


def test_an_asgi_application_runs_it_and_answers_for_its_health():
    async def work(bootstrap):
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        async def handle(number: int) -> None:
            pass

        health = make_ping_asgi(broker, timeout=10, include_in_schema=False)
        app = AsgiFastStream(broker, asgi_routes=[("/health", health)], asyncapi_path="/docs", logger=None)
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            assert (await client.get("/health")).status_code == 500
            async with app.start_lifespan_context():
                (subscriber,) = broker.subscribers
                await until(lambda: subscriber.running)
                assert (await client.get("/health")).status_code == 204
                document = (await client.get("/docs.json")).json()
                assert document["channels"]["in:Handle"]["address"] == "in"
                form = {"channelName": "in:Handle", "message": {"message": 1}}
                dry = await client.post("/docs/try", json=form)
                assert (dry.status_code, "oncelog has a real broker for tests" in dry.text) == (500, True)
                sent = await client.post("/docs/try", json={**form, "options": {"sendToRealBroker": True}})
                assert sent.status_code == 200
                assert await values(bootstrap, "in", 1) == [b"1"]

    run(work)


# -- what is told where it is made


def test_addresses_in_any_form():
    assert OncelogBroker("a:1").specification.url == ["a:1"]
    assert OncelogBroker(["a:1", "b:2"]).specification.url == ["a:1", "b:2"]
    assert OncelogBroker(bootstrap_servers="a:1,b:2").specification.url == ["a:1", "b:2"]
    assert OncelogBroker().specification.url == ["127.0.0.1:9092"]
    secure = OncelogBroker(
        "a:1", security_protocol="SASL_SSL", sasl_mechanism="PLAIN", sasl_username="u", sasl_password="p"
    )
    assert (secure.specification.protocol, OncelogBroker().specification.protocol) == ("kafka-secure", "kafka")


def test_a_wrong_option_is_told_at_once():
    with pytest.raises(ConfigurationError, match="unknown option 'group_id'"):
        OncelogBroker("a:1", group_id="g")


def test_a_class_where_an_annotation_belongs_is_told_with_the_import():
    broker = new_broker(NOBODY)

    @broker.subscriber("in", group_id="g")
    async def handle(number: int, message: NotInjected) -> None:
        pass

    (subscriber,) = broker.subscribers
    with pytest.raises(SetupError, match=r"from oncelog\.faststream\.annotations import OncelogMessage"):
        subscriber.schema()
