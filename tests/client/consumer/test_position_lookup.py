"""Partitions whose position cannot be looked up now hold up none that can; they are told of once, and asked for again."""

import asyncio
import contextlib
import logging
from functools import partial

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


@pytest.mark.parametrize("timeout_ms", [0, 5, 300, 5_000])
@pytest.mark.parametrize(
    ("api", "code", "error"),
    [
        (ApiKey.OFFSET_FETCH, E.GROUP_AUTHORIZATION_FAILED, errors.GroupAuthorization),
        (ApiKey.LIST_OFFSETS, E.TOPIC_AUTHORIZATION_FAILED, errors.TopicAuthorization),
    ],
)
def test_who_is_refused_asks_again_about_once_a_second_however_he_polls(timeout_ms, api, code, error):
    """Each poll asked: as many requests as the broker had answers for."""

    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        broker.script(api, *[code] * 1000)
        async with consumer(broker, group_id="g", enable_auto_commit=False) as c:
            c.assign([ZERO])
            began, refused_count = loop.time(), 0
            while loop.time() - began < 10:
                try:
                    assert await c.poll(timeout_ms) == []
                except error:
                    refused_count += 1
                await asyncio.sleep(0.001)
            assert 9 <= len(broker.requests(api)) <= 12
            assert refused_count >= 9
            assert timeout_ms < 300 or refused_count < 50
            broker.scripts[api].clear()
            began, found = loop.time(), []
            while not found:
                with contextlib.suppress(error):
                    found = await c.poll(timeout_ms)
                await asyncio.sleep(0.001)
            assert values(found) == list(range(10))
            assert loop.time() - began <= 1.5

    run(work)


@pytest.mark.parametrize("way_out", ["seek", "seek_to_beginning", "assign"])
def test_who_goes_elsewhere_is_not_kept_waiting_by_a_refusal(way_out):
    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        fill(broker, 1)
        async with consumer(broker, group_id="g", auto_offset_reset="none", enable_auto_commit=False) as c:
            c.assign([ZERO])
            with pytest.raises(errors.OffsetOutOfRange):
                await c.poll(5_000)
            began = loop.time()
            if way_out == "seek":
                c.seek(ZERO, 0)
            elif way_out == "seek_to_beginning":
                await c.seek_to_beginning(ZERO)
            else:
                c.assign([ONE])
                with pytest.raises(errors.OffsetOutOfRange, match="t-1"):
                    await c.poll(5_000)
            assert way_out == "assign" or len(await c.poll(5_000)) == 10
            assert loop.time() - began < 0.5

    run(work)


@pytest.mark.parametrize("timeout_ms", [0, 1, 5, 50])
def test_polls_that_are_shorter_than_the_leaders_answer_find_it(caplog, timeout_ms):
    """Each poll began anew, and nothing was ever read."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 0.2
        fill(broker)
        async with consumer(broker, "t") as c:
            found = []
            for _ in range(2000):
                found += values(await c.poll(timeout_ms))
                await asyncio.sleep(0.001)
                if len(found) == 10:
                    break
            assert found == list(range(10))
            assert len(broker.requests(ApiKey.LIST_OFFSETS)) == 1

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        run(work)
    assert [record.getMessage() for record in caplog.records if record.name.startswith("oncelog.client")] == []


def test_a_position_that_is_given_while_it_is_looked_for_stays():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 0.2
        fill(broker)
        async with consumer(broker, "t") as c:
            assert await c.poll(20) == []
            c.seek(ZERO, 7)
            found = []
            while len(found) < 3:
                found += values(await c.poll(500))
            assert found == [7, 8, 9]
            assert await c.poll(1_000) == []

    run(work)


def test_it_is_looked_for_again_by_who_has_it_anew():
    """What was found for an assignment of before is not taken."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 0.2
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            assert await c.poll(20) == []
            c.assign([ONE])
            assert await c.poll(20) == []
            c.assign([ZERO])
            found = []
            while len(found) < 10:
                found += values(await c.poll(500))
            assert found == list(range(10))

    run(work)


def test_a_consumer_that_is_stopped_meanwhile_leaves_nothing():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 20
        fill(broker)
        async with consumer(broker, "t") as c:
            assert await c.poll(20) == []
        await asyncio.sleep(0)
        assert [each.get_name() for each in asyncio.all_tasks() if each.get_name().startswith("oncelog")] == []

    run(work)


@pytest.mark.parametrize("group_id", [None, "g"])
@pytest.mark.parametrize("first", ["poll", "position"])
def test_position_beside_a_look_waits_for_it(first, group_id):
    """Two looks for one partition took each other's place, and `position` met an assertion of its own."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s |= {ApiKey.LIST_OFFSETS: 0.2, ApiKey.OFFSET_FETCH: 0.1}
        fill(broker)
        async with consumer(broker, group_id=group_id, auto_offset_reset="latest", enable_auto_commit=False) as c:
            c.assign([ZERO])
            if first == "poll":
                assert await c.poll(20) == []
            asked = asyncio.create_task(c.position(ZERO))
            await asyncio.sleep(0.05)
            for _ in range(20):
                assert await c.poll(20) == []
            assert await asked == 10
            assert await c.position(ZERO) == 10

    run(work)


def test_position_of_what_is_given_away_meanwhile_says_so():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 0.2
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            assert await c.poll(20) == []
            asked = asyncio.create_task(c.position(ZERO))
            await asyncio.sleep(0.05)
            c.assign([ONE])
            with pytest.raises(errors.IllegalState):
                await asked

    run(work)


def test_position_waits_no_longer_than_it_may():
    async def work(loop):
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.LIST_OFFSETS] = 20
        fill(broker)
        async with consumer(broker, "t", default_api_timeout_ms=1_000) as c:
            assert await c.poll(20) == []
            began = loop.time()
            with pytest.raises(errors.RequestTimedOut):
                await c.position(ZERO)
            assert loop.time() - began < 2.5

    run(work)


def test_what_is_given_away_before_its_place_is_looked_up_is_nobodys_error(caplog):
    async def work(_, turns):
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            waiting = asyncio.ensure_future(c.poll(5_000))
            for _ in range(turns):
                await asyncio.sleep(0)
            c.assign([ONE])
            assert await waiting == []
            c.assign([ZERO])
            assert values(await c.poll(5_000)) == list(range(10))

    with caplog.at_level(logging.WARNING, "oncelog.client"):
        for turns in range(30):
            run(partial(work, turns=turns))
    assert [record.getMessage() for record in caplog.records] == []
