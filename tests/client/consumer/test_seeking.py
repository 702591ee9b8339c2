"""Seeking by time, and beginning at a time that lies a duration back (KIP-1106), against a real broker."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import run
from evidence.world.client import NO_ANSWER, ScriptedBroker
from evidence.world.client import run as run_scripted

from oncelog import Admin, Broker, Consumer, Producer, TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.host.clock import RealClock
from oncelog.wire.api import ApiKey
from tests.client.consumer import test_consumer

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
HOUR_MS = 3_600_000


def served(work):
    """Runs `work` with a broker and a consumer of two partitions: one with records of 3, 2 and 1 hours ago, one empty."""

    async def main():
        now_ms = RealClock().now_ms()
        async with Broker() as broker:
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Admin(**servers) as admin, Producer(**servers) as producer:
                await admin.create_topics({"t": 2})
                for hours in (3, 2, 1):
                    timestamp_ms = now_ms - hours * HOUR_MS
                    await producer.send_and_wait("t", b"%d" % hours, partition=0, timestamp_ms=timestamp_ms)
                await work(servers, producer, now_ms)

    run(main())


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        found += [record.value for record in await consumer.poll(5_000)]
    return found


def test_one_call_seeks_every_partition_to_a_time():
    async def work(servers, producer, now_ms):
        async with Consumer(**servers) as consumer:
            consumer.assign([ZERO, ONE])
            half_past = now_ms - HOUR_MS * 5 // 2
            assert await consumer.seek_to_timestamp(half_past) == {ZERO: 1, ONE: 0}
            assert await read(consumer, 2) == [b"2", b"1"]
            assert await consumer.seek_to_timestamp(now_ms - HOUR_MS, ZERO) == {ZERO: 2}, "at, not only after"
            assert await read(consumer, 1) == [b"1"]
            assert await consumer.seek_to_timestamp(0, ZERO) == {ZERO: 0}

    served(work)


def test_where_no_record_is_that_late_it_goes_to_the_end():
    async def work(servers, producer, now_ms):
        async with Consumer(**servers) as consumer:
            consumer.assign([ZERO, ONE])
            consumer.seek(ZERO, 0)
            assert await consumer.seek_to_timestamp(now_ms) == {ZERO: 3, ONE: 0}
            await producer.send_and_wait("t", b"older, and after", partition=0, timestamp_ms=now_ms - HOUR_MS)
            assert await read(consumer, 1) == [b"older, and after"]

    served(work)


def test_the_end_of_a_read_committed_reader_is_the_last_stable_offset():
    async def work(servers, producer, now_ms):
        async with Producer(transactional_id="x", **servers) as open_one:
            open_one.begin_transaction()
            await open_one.send_and_wait("t", b"open", partition=0, timestamp_ms=now_ms - 2 * HOUR_MS)
            await producer.send_and_wait("t", b"behind", partition=0, timestamp_ms=now_ms - 2 * HOUR_MS)
            async with Consumer(isolation_level="read_committed", **servers) as consumer:
                consumer.assign([ZERO])
                assert await consumer.seek_to_timestamp(now_ms) == {ZERO: 3}
            async with Consumer(**servers) as consumer:
                consumer.assign([ZERO])
                assert await consumer.seek_to_timestamp(now_ms) == {ZERO: 5}
            await open_one.abort_transaction()

    served(work)


def test_wrong_calls_are_told_and_move_nothing():
    async def work(servers, producer, now_ms):
        async with Consumer(**servers) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 1)
            for wrong in (-1, "0", 1.5, None, 2**63):
                with pytest.raises(errors.InvalidArgument, match="timestamp_ms"):
                    await consumer.seek_to_timestamp(wrong)
            with pytest.raises(errors.IllegalState, match="not assigned"):
                await consumer.seek_to_timestamp(0, ZERO, ONE)
            assert await consumer.position(ZERO) == 1

    served(work)


def test_a_seek_meanwhile_is_later():
    async def work():
        broker = ScriptedBroker()
        test_consumer.fill(broker)
        broker.delay_s[ApiKey.LIST_OFFSETS] = 1
        async with test_consumer.consumer(broker) as consumer:
            consumer.assign([ZERO])
            seeking = asyncio.ensure_future(consumer.seek_to_timestamp(0))
            await asyncio.sleep(0.5)
            consumer.seek(ZERO, 7)
            assert await seeking == {}
            assert await consumer.position(ZERO) == 7

    run_scripted(work)


def test_a_group_without_a_position_begins_a_duration_back():
    async def work(servers, producer, now_ms):
        options = {"auto_offset_reset": "by_duration:PT1H30M", "group_id": "g", "enable_auto_commit": False, **servers}
        async with Consumer("t", **options) as consumer:
            assert await read(consumer, 1) == [b"1"]
            await consumer.seek_to_beginning()
            assert await read(consumer, 3) == [b"3", b"2", b"1"]
            await consumer.commit({ZERO: 1})
        async with Consumer("t", **options) as consumer:
            assert await read(consumer, 2) == [b"2", b"1"], "it has one now"

    served(work)


def test_a_place_that_is_not_in_the_log_is_reset_by_duration_too():
    async def work(servers, producer, now_ms):
        async with Consumer(auto_offset_reset="by_duration:PT2H30M", **servers) as consumer:
            consumer.assign([ZERO])
            consumer.seek(ZERO, 99)
            assert await read(consumer, 2) == [b"2", b"1"]

    served(work)


def test_a_time_that_was_chosen_stays_while_nobody_answers():
    async def work():
        broker = ScriptedBroker()
        test_consumer.fill(broker)
        broker.script(ApiKey.LIST_OFFSETS, NO_ANSWER)
        async with test_consumer.consumer(broker, auto_offset_reset="by_duration:PT1H") as consumer:
            consumer.assign([ZERO])
            began_ms = broker.host().clock.now_ms()
            assert await consumer.poll(1_000) == []
            times = [each.topics[0].partitions[0].timestamp for each in broker.requests(ApiKey.LIST_OFFSETS)]
            assert set(times) == {-1}, "the end first"
            broker.script(ApiKey.LIST_OFFSETS, 0, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            await consumer.poll(120_000)
            times = [each.topics[0].partitions[0].timestamp for each in broker.requests(ApiKey.LIST_OFFSETS)]
            assert len(set(times)) == 2, times
            assert began_ms - HOUR_MS <= max(times) < began_ms - HOUR_MS + 100, "an hour before the first look"

    run_scripted(work)


@pytest.mark.parametrize(
    "strategy", ["by_duration:", "by_duration:1h", "by_duration:-PT1H", "by-duration:PT1H", "soon"]
)
def test_what_is_no_duration_is_refused_at_the_start(strategy):
    with pytest.raises(errors.ConfigurationError, match=r"auto_offset_reset=.*(expected|less than nothing)"):
        Consumer("t", auto_offset_reset=strategy)
