"""A topic that somebody deletes does not come back because a client once used it, and what is not used is forgotten."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import run
from evidence.world.client import BOOTSTRAP, ScriptedBroker
from evidence.world.client import run as run_scripted

from oncelog import Admin, Broker, Consumer, Producer, TopicPartition, errors
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.metadata import MetadataRequest

IDLE_MS = 60_000


def made(broker: ScriptedBroker, **config: object) -> Producer:
    options = {"linger_ms": 0, "metadata_max_idle_ms": IDLE_MS, "metadata_max_age_ms": 10_000, **config}
    return Producer(bootstrap_servers=BOOTSTRAP, host=broker.host(), **options)


def asked(broker: ScriptedBroker) -> list[tuple[list[str | None], bool]]:
    """Topics and whether they may be created, of each Metadata request."""
    requests: list[MetadataRequest] = broker.requests(ApiKey.METADATA)
    return [([topic.name for topic in each.topics or ()], each.allow_auto_topic_creation) for each in requests]


def topics_of(broker: Broker) -> list[str]:
    return sorted(name for name in broker.metadata.topics if not name.startswith("__"))


def test_a_topic_that_was_deleted_stays_deleted_while_its_producer_sends_to_others() -> None:
    async def work() -> None:
        async with Broker() as broker:
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Admin(**servers) as admin, Producer(**servers) as producer:
                await producer.send_and_wait("a", b"once")
                await admin.delete_topics(["a"])
                await producer.send_and_wait("b", b"v")
                await admin.create_topics({"c": 1})
                await producer.send_and_wait("c", b"v")
                await producer.partitions_for("b")
                await producer._cluster.refresh(())
                await producer._cluster.refresh(("b",))
                assert topics_of(broker) == ["b", "c"]
                await producer.send_and_wait("a", b"who sends to it makes it")
                assert topics_of(broker) == ["a", "b", "c"]

    run(work())


def test_what_a_consumer_read_before_does_not_come_back() -> None:
    async def work() -> None:
        async with Broker() as broker:
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Admin(**servers) as admin, Consumer(**servers) as consumer:
                consumer.subscribe(["a"])
                while not consumer.assignment():
                    await consumer.poll(100)
                consumer.subscribe(["b"])
                await admin.delete_topics(["a"])
                while consumer.assignment() != {TopicPartition("b", 0)}:
                    await consumer.poll(100)
                await consumer._cluster.refresh(())
                assert topics_of(broker) == ["b"]

    run(work())


def test_only_what_is_waited_for_may_be_created_and_is_asked_for_alone() -> None:
    async def work() -> None:
        broker = ScriptedBroker()
        async with made(broker, max_block_ms=1_000) as producer:
            await producer.send_and_wait("t", b"v")
            with pytest.raises(errors.RequestTimedOut):
                await producer.send("new", b"v")
            assert {(*names, may_create) for names, may_create in asked(broker) if names} == {
                ("t", True),
                ("new", True),
            }
            count = len(asked(broker))
            await asyncio.sleep(20)
            assert {(*names, may_create) for names, may_create in asked(broker)[count:]} <= {("new", "t", False)}

    run_scripted(work)


def test_a_topic_to_which_nothing_is_sent_is_forgotten() -> None:
    async def work() -> None:
        broker = ScriptedBroker()
        async with made(broker) as producer:
            await producer.send_and_wait("t", b"v")
            await producer.send_and_wait("t", b"v", partition=1)
            await asyncio.sleep(IDLE_MS / 1000 - 1)
            assert asked(broker)[-1] == (["t"], False), "it was sent to a moment ago"
            await asyncio.sleep(20)
            assert asked(broker)[-1] == ([], False)
            cluster, accumulator = producer._cluster, producer._accumulator
            assert cluster.view.topics == {}
            assert cluster.topics.tracked == set()
            assert cluster.topics._asked_ms == {}
            assert accumulator._queues == {}
            assert accumulator._begun_ms == {}
            assert producer._appender.lanes == {}
            assert producer._appender.sticky._current == {}
            assert producer._manager.sequences._partitions == {}

    run_scripted(work)


def test_who_sends_again_begins_under_another_epoch() -> None:
    """Leaders remember the sequences of the former one: numbered anew, a record would count as a duplicate."""

    async def work() -> None:
        broker = ScriptedBroker()
        async with made(broker) as producer:
            await producer.send_and_wait("t", b"1", partition=0)
            await producer.send_and_wait("t", b"2", partition=0)
            await asyncio.sleep(IDLE_MS / 1000 + 20)
            await producer.send_and_wait("t", b"3", partition=0)
            assert broker.produced() == [(0, 0, 0, [b"1"]), (0, 0, 1, [b"2"]), (0, 1, 0, [b"3"])]

    run_scripted(work)


def test_a_real_broker_stores_what_is_sent_again() -> None:
    async def work() -> None:
        async with Broker() as broker:
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Producer(**servers) as producer:
                await producer.send_and_wait("a", b"1")
                await producer.send_and_wait("b", b"1")
                for number in range(2, 5):
                    producer._cluster.topics._idle_ms = -1  # whatever was sent before now is long ago
                    await producer._cluster.refresh(())
                    assert producer._manager.sequences._partitions == {}
                    producer._cluster.topics._idle_ms = IDLE_MS
                    await producer.send_and_wait("a", b"%d" % number)
                    await producer.send_and_wait("b", b"%d" % number)
            async with Consumer("a", "b", **servers, auto_offset_reset="earliest") as consumer:
                found = []
                while len(found) < 8:
                    found += [(record.topic, record.value) for record in await consumer.poll()]
                assert sorted(found) == [(topic, b"%d" % number) for topic in "ab" for number in range(1, 5)]

    run(work())


def test_it_is_not_forgotten_while_records_of_it_wait() -> None:
    async def work() -> None:
        broker = ScriptedBroker()
        async with made(broker, delivery_timeout_ms=600_000, request_timeout_ms=300_000) as producer:
            await producer.send_and_wait("t", b"first")
            broker.delay_s[ApiKey.PRODUCE] = 3 * IDLE_MS / 1000
            delivery = await producer.send("t", b"slow")
            await asyncio.sleep(2 * IDLE_MS / 1000)
            assert "t" in producer._cluster.topics.tracked
            assert asked(broker)[-1] == (["t"], False)
            await delivery

    run_scripted(work)


def test_a_topic_for_which_records_wait_may_be_created_again() -> None:
    async def work() -> None:
        broker = ScriptedBroker()
        async with made(broker) as producer:
            await producer.send_and_wait("t", b"v")
            await producer.partitions_for("t")
            broker.script(ApiKey.METADATA, 3, 3)  # deleted, and known to be
            await producer._cluster.refresh(())
            assert asked(broker)[-1] == (["t"], False)
            await producer.send_and_wait("t", b"v")
            assert (["t"], True) in asked(broker)[2:]

    run_scripted(work)


def test_what_a_consumer_reads_is_never_forgotten() -> None:
    async def work() -> None:
        broker = ScriptedBroker()
        options = {"bootstrap_servers": BOOTSTRAP, "host": broker.host(), "auto_offset_reset": "earliest"}
        async with Consumer("t", metadata_max_age_ms=10_000, **options) as consumer:
            while not consumer.assignment():
                await consumer.poll(100)
            await asyncio.sleep(2_000)
            assert asked(broker)[-1][0] == ["t"]
            consumer.assign([])
            await asyncio.sleep(400)
            assert asked(broker)[-1][0] == []
            assert consumer._cluster.view.topics == {}

    run_scripted(work)


def test_records_keep_their_order_over_a_topic_that_was_forgotten() -> None:
    async def work() -> None:
        broker = ScriptedBroker()
        async with made(broker, batch_size=200) as producer:
            for round_ in range(3):
                for number in range(10):
                    await producer.send("t", b"%d" % (10 * round_ + number), partition=0)
                await producer.flush()
                await asyncio.sleep(IDLE_MS / 1000 + 20)
        stored = [record.value for batch in broker.log["t", 0] for record in batch.records()]
        assert stored == [b"%d" % number for number in range(30)]

    run_scripted(work)
