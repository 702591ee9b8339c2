"""Byte-rate quotas over the wire: told in the reply, and the connection is not served meanwhile."""

from __future__ import annotations

import asyncio

from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.world import Client, broker_and_client, fetch_request, run

E = ErrorCode


async def quota(client, key, value):
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = EntryData(entity=[EntityData(entity_type="client-id", entity_name="test")], ops=[op])
    reply = await client.call(AlterClientQuotasRequest(entries=[entry]))
    assert reply.entries[0].error_code == E.NONE


def test_a_producer_over_its_quota_waits(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await quota(client, "producer_byte_rate", 10_000.0)
            loop = asyncio.get_running_loop()
            other = await Client.connect(broker)
            reply = await client.call(client.produce_request("t", "x" * 109_000), 9)
            begun = loop.time()
            assert reply.responses[0].partition_responses[0].error_code == E.NONE, "what is over the quota is taken"
            assert 800 <= reply.throttle_time_ms < 1000
            waiting = asyncio.ensure_future(client.call(ApiVersionsRequest(), 0))
            await other.call(ApiVersionsRequest(), 0)
            assert not waiting.done(), "other connections go on"
            await waiting
            assert loop.time() - begun >= reply.throttle_time_ms / 1000 - 0.1
            other.close()

    run(work())


def test_a_reader_over_its_quota_gets_nothing_and_waits(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
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
            await quota(client, "controller_mutation_rate", 100.0)

            async def create(name, count, version=7):
                topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                reply = await client.call(CreateTopicsRequest(topics=[topic]), version)
                return E(reply.topics[0].error_code), reply.throttle_time_ms

            assert await create("a", 1_090) == (E.NONE, 0)
            assert await create("a", 500) == (E.TOPIC_ALREADY_EXISTS, 0), "what is not made does not count"
            assert await create("b", 30) == (E.NONE, 0)
            code, throttle_ms = await create("c", 1)
            assert (code, 100 < throttle_ms <= 200) == (E.THROTTLING_QUOTA_EXCEEDED, True)
            assert "c" not in broker.metadata.topics
            assert (await create("c", 1))[0] is E.NONE, "after the wait there is room again"
            code, throttle_ms = await create("d", 30, version=5)
            assert (code, throttle_ms > 0) == (E.NONE, True), "an older client knows no such error"
            states = [DeleteTopicState(name="d"), DeleteTopicState(name="nosuch")]
            reply = await client.call(DeleteTopicsRequest(topics=states))
            assert {each.name: E(each.error_code) for each in reply.responses} == {
                "d": E.NONE,
                "nosuch": E.UNKNOWN_TOPIC_OR_PARTITION,
            }

    run(work())
