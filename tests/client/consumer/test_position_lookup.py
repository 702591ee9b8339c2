"""Partitions whose position cannot be looked up now hold up none that can; they are told of once, and asked for again."""

import logging

import pytest
from evidence.world.client import ScriptedBroker, run

from oncelog import TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from tests.client.consumer.test_consumer import ONE, ZERO, consumer, fill, values

E = ErrorCode
BEYOND = TopicPartition("t", 7)


@pytest.mark.parametrize("order", ["offset", "transaction"])
def test_a_partition_that_does_not_exist_holds_up_no_other(order, caplog):
    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker, order=order, isolation_level="read_committed") as c:
            c.assign([ZERO, BEYOND])
            found = values(await c.poll(5_000))
            assert loop.time() < 2, "three looks, not the whole time of the poll"
            while len(found) < 10:
                found += values(await c.poll(5_000))
            assert found == list(range(10))
            before, began = len(broker.requests(ApiKey.METADATA)), loop.time()
            for number in range(20):
                fill(broker, count=2)
                assert len(await c.poll(5_000)) == 2, number
            assert loop.time() - began < 5, "nobody waits for the one that is not there"
            assert await c.poll(10_000) == []
            assert len(broker.requests(ApiKey.METADATA)) - before < 40, "asked for now and then"

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(work)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("oncelog.client")]
    assert told == ["topic 't' has 2 partitions; t-7 is read when it is added"]


def test_a_partition_without_a_leader_holds_up_no_other(caplog):
    async def work():
        broker = ScriptedBroker()
        fill(broker, 0)
        fill(broker, 1)

        def without_a_leader(message):
            reply = broker._list_offsets(message, 0)
            for each in reply.topics[0].partitions:
                each.error_code = E.LEADER_NOT_AVAILABLE if each.partition_index == 1 else 0
            return reply

        broker.script(ApiKey.LIST_OFFSETS, *[without_a_leader] * 6)
        async with consumer(broker, "t") as c:
            found = []
            while len(found) < 10:
                found += values(await c.poll(5_000))
            assert found == list(range(10)), "of the other"
            while len(found) < 20:
                found += values(await c.poll(5_000))

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(work)
    told = [record.getMessage() for record in caplog.records if record.name.startswith("oncelog.client")]
    assert len(told) == 1, told
    assert told[0].startswith("t-1 cannot be read now, and is asked for again: LEADER_NOT_AVAILABLE")


def test_a_lookup_that_fails_for_one_partition_is_repeated_for_that_one():
    async def work():
        broker = ScriptedBroker()
        fill(broker, 0)
        fill(broker, 1)
        broker.script(ApiKey.LIST_OFFSETS, *[E.NOT_LEADER_OR_FOLLOWER] * 3)
        async with consumer(broker) as c:
            c.assign([ZERO, ONE])
            found = []
            while len(found) < 20:
                found += [(record.partition, int(record.value)) for record in await c.poll(5_000)]
        assert sorted(found) == [(partition, number) for partition in (0, 1) for number in range(10)]

    run(work)


def test_what_no_repetition_helps_is_raised():
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        broker.script(ApiKey.LIST_OFFSETS, E.TOPIC_AUTHORIZATION_FAILED)
        async with consumer(broker, "t") as c:
            with pytest.raises(errors.TopicAuthorization):
                await c.poll(5_000)

    run(work)


@pytest.mark.parametrize("timeout_ms", [5, 50])
def test_a_look_that_ends_with_its_poll_says_nothing(caplog, timeout_ms):
    """Polls that are shorter than the leader's answer: nobody is told of a partition that is well."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 0.2
        fill(broker)
        async with consumer(broker, "t") as c:
            found = []
            for _ in range(3):
                found += await c.poll(timeout_ms)
            assert not found
            broker.delay_s.clear()
            while not found:
                found += await c.poll(timeout_ms)

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(work)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("oncelog.client")] == []
