"""Byte-rate quotas over the wire: told in the reply, and the connection is not served meanwhile."""

from __future__ import annotations

import asyncio

from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.world import TIMEOUT_S, Client, broker_and_client, fetch_request, run

E = ErrorCode


def stop_clock(broker):
    """A function that moves the wall clock on; else it stands still, however slow the machine."""
    clock = broker.host.clock
    now_ms = [clock.now_ms()]
    clock.now_ms = lambda: now_ms[0]

    def move(by_ms):
        now_ms[0] += by_ms

    return move


async def quota(client, key, value):
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name="test")], ops=[op])
    reply = await client.call(AlterClientQuotasRequest(entries=[entry]))
    assert reply.entries[0].error_code == E.NONE


def test_a_producer_over_its_quota_waits(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await client.create("t")
            await quota(client, "producer_byte_rate", 10_000.0)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            reply = await client.call(client.produce_request("t", "x" * 109_000), 9)
            assert reply.responses[0].partition_responses[0].error_code == E.NONE, "what is over the quota is taken"
            assert 900 <= reply.throttle_time_ms < 1000
            await client.call(ApiVersionsRequest(), 0)
            assert loop.time() - begun >= reply.throttle_time_ms / 1000

    run(work())


def test_other_connections_go_on_while_one_waits(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await client.create("t")
            await quota(client, "producer_byte_rate", 1.0)
            other = await Client.connect(broker)
            reply = await client.call(client.produce_request("t", "x" * 5_000), 9)
            assert reply.throttle_time_ms > 3_600_000
            waiting = asyncio.ensure_future(client.call(ApiVersionsRequest(), 0))
            for _ in range(10):
                await other.call(ApiVersionsRequest(), 0)
            assert not waiting.done()
            waiting.cancel()
            other.close()

    run(work())


def test_a_wait_ends_though_its_timer_rings_a_little_early(tmp_path):
    """uvloop's timers do, by up to a millisecond: asked the time, such a connection was never read again."""

    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            loop = asyncio.get_running_loop()
            call_at = loop.call_at
            loop.call_at = lambda when, *rest, **more: call_at(when - 0.001, *rest, **more)
            await client.create("t")
            await quota(client, "producer_byte_rate", 10_000.0)
            reply = await client.call(client.produce_request("t", "x" * 101_000), 9)
            assert reply.throttle_time_ms > 0
            async with asyncio.timeout(TIMEOUT_S / 2):
                await client.call(ApiVersionsRequest(), 0)

    run(work())


def test_a_reader_over_its_quota_gets_nothing_and_waits(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await client.create("t")
            await client.produce("t", "x" * 60_000)
            await quota(client, "consumer_byte_rate", 10_000.0)
            first = await client.call(fetch_request("t", 0, committed=False), 12)
            assert first.throttle_time_ms == 0
            assert len(first.responses[0].partitions[0].records) > 60_000
            await quota(client, "consumer_byte_rate", 11_900.0)
            second = await client.call(fetch_request("t", 0, committed=False), 12)
            assert second.throttle_time_ms > 0
            assert second.responses == []
            await quota(client, "consumer_byte_rate", None)
            third = await client.call(fetch_request("t", 0, committed=False), 12)
            assert third.throttle_time_ms == 0
            assert len(third.responses[0].partitions[0].records) > 60_000

    run(work())


def test_without_acks_there_is_no_reply_and_still_a_wait(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await quota(client, "producer_byte_rate", 10_000.0)
            loop = asyncio.get_running_loop()
            begun = loop.time()
            client.send(client.produce_request("t", "x" * 102_000, acks=0), 9)
            sent = client.send(ApiVersionsRequest(), 0)
            correlation_id, _ = await client.receive()
            assert correlation_id == sent
            assert loop.time() - begun > 0.15

    run(work())


def test_mutations_over_their_quota_are_refused_or_wait(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            move = stop_clock(broker)
            await quota(client, "controller_mutation_rate", 100.0)

            async def create(name, count, version=7):
                topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                reply = await client.call(CreateTopicsRequest(topics=[topic]), version)
                return E(reply.topics[0].error_code), reply.throttle_time_ms

            assert await create("a", 1_090) == (E.NONE, 0)
            assert await create("a", 500) == (E.TOPIC_ALREADY_EXISTS, 0), "what is not made does not count"
            assert await create("b", 30) == (E.NONE, 0)
            code, throttle_ms = await create("c", 1)
            assert (code, throttle_ms) == (E.THROTTLING_QUOTA_EXCEEDED, 200)
            assert "c" not in broker.metadata.topics
            move(throttle_ms)
            assert (await create("c", 1))[0] is E.NONE, "after the wait there is room again"
            code, throttle_ms = await create("d", 30, version=5)
            assert (code, throttle_ms > 0) == (E.NONE, True), "an older client knows no such error"
            move(throttle_ms)
            states = [DeleteTopicState(name="d"), DeleteTopicState(name="nosuch")]
            reply = await client.call(DeleteTopicsRequest(topics=states))
            assert {each.name: E(each.error_code) for each in reply.responses} == {
                "d": E.NONE,
                "nosuch": E.UNKNOWN_TOPIC_OR_PARTITION,
            }

    run(work())
