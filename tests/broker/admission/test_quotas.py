"""Quotas over the wire: told in the reply, and the connection is not served meanwhile."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, fetch_request, run

from oncelog.broker.admission.handling_time import HandlingTime
from oncelog.broker.requests.request import NO_REPLY, Request
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.fetch import FetchRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch
from tests.broker.share.share_world import Reader, started

E = ErrorCode


def stop_clock(broker):
    """A function that moves the wall clock on; else it stands still, however slow the machine."""
    clock = broker.host.clock
    now_ms = [clock.now_ms()]
    clock.now_ms = lambda: now_ms[0]

    def move(by_ms):
        now_ms[0] += by_ms

    return move


async def quota(client, key, value, entity=("client-id", "test")):
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = EntryData(entity=[EntityData(entity_type=entity[0], entity_name=entity[1])], ops=[op])
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
            bytes_out = broker.metrics.topic("t").bytes_out
            assert bytes_out == len(first.responses[0].partitions[0].records), "what was held back was not sent"
            await quota(client, "consumer_byte_rate", None)
            third = await client.call(fetch_request("t", 0, committed=False), 12)
            assert third.throttle_time_ms == 0
            assert len(third.responses[0].partitions[0].records) > 60_000

    run(work())


@pytest.mark.parametrize("batch", [1_000, 50_000, 300_000])  # the last is more than all windows together
def test_a_reader_under_a_quota_goes_on_at_its_rate(tmp_path, batch):
    """However large the batches, and what it asks for at once: also `min_bytes` that are more than it may have."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            move = stop_clock(broker)
            loop = asyncio.get_running_loop()
            call_at = loop.call_at
            # The waits of connections pass at once: the clock of the quotas is moved by what the reader is told.
            loop.call_at = lambda when, act, *rest, **more: call_at(
                0.0 if act.__name__ == "_delay_is_over" else when, act, *rest, **more
            )
            await client.create("t")
            count = 600_000 // batch
            for _ in range(count):
                await client.produce("t", "x" * batch)
            await quota(client, "consumer_byte_rate", 10_000.0)
            begun, offset, waited_ms, sizes = loop.time(), 0, 0, []
            while offset < count:
                wait_ms = 10_000 if (count - offset) * batch > 100_000 else 0
                request = fetch_request("t", offset, committed=False, wait_ms=wait_ms, min_bytes=1 << 20)
                reply = await client.call(request, 12)
                if reply.throttle_time_ms:
                    assert reply.responses == []
                    assert reply.throttle_time_ms <= 11_000
                    waited_ms += reply.throttle_time_ms
                    move(reply.throttle_time_ms)
                else:
                    sizes.append(len(reply.responses[0].partitions[0].records))
                    offset += sizes[-1] // batch
            assert loop.time() - begun < 10, "it does not wait for more than it may have"
            assert max(sizes) <= max(100_000, batch + 100)
            most_at_once_ms = 30_000 + 1_000
            assert 60_000 - most_at_once_ms <= waited_ms <= 75_000, "600 kB at 10 kB a second"

    run(work())


def test_a_reader_over_its_quota_keeps_its_session(tmp_path):
    """From version 7, the first with sessions: a 0 would tell it that the session is gone."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await client.create("t")
            await client.produce("t", "x" * 60_000)
            await quota(client, "consumer_byte_rate", 10_000.0)
            first = await client.call(fetch_request("t", 0, committed=False).replace(session_epoch=0), 7)
            await client.produce("t", "x" * 60_000)
            again = FetchRequest(session_id=first.session_id, session_epoch=1, max_bytes=1 << 20)
            second = await client.call(again, 7)
            assert second.throttle_time_ms > 0
            assert second.responses == []
            assert second.session_id == first.session_id > 0
            await quota(client, "consumer_byte_rate", None)
            third = await client.call(again.replace(session_epoch=2, max_bytes=0), 7)
            assert third.responses[0].partitions[0].high_watermark == 2, "it was not told yet"

    run(work())


@pytest.mark.parametrize("is_of_another", [False, True])
def test_a_session_that_its_reader_never_heard_of_is_given_up(tmp_path, is_of_another):
    """A full Fetch that is held back: as in Apache Kafka, which makes the session with the records' reply."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await client.create("t")
            await client.produce("t", "x" * 60_000)
            await quota(client, "consumer_byte_rate", 10_000.0)
            full = fetch_request("t", 0, committed=False).replace(session_epoch=0)
            first = await client.call(full.replace(session_epoch=0 if is_of_another else -1), 12)
            assert first.throttle_time_ms == 0
            second = await client.call(full.replace(session_id=first.session_id), 12)
            assert second.throttle_time_ms > 0
            assert (second.session_id, len(broker.fetch_sessions)) == (0, 0)
            assert broker.fetch_sessions.partition_count == 0

    run(work())


def test_a_member_of_a_share_group_is_told_to_wait_and_keeps_what_is_its_own(tmp_path):
    """What it acquired is sent, and no more of it at once than a reader's; its next request waits."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            topic_id = await started(client)
            for _ in range(12):
                await client.produce("t", "x" * 1_000)
            await quota(client, "consumer_byte_rate", 1_000.0)
            reader = Reader(client, topic_id)
            first = await client.call(reader.request())
            assert first.throttle_time_ms == 0
            assert 8_000 < len(first.responses[0].partitions[0].records) <= 10_000
            await quota(client, "consumer_byte_rate", 1_100.0)
            second = await client.call(reader.request())
            assert second.throttle_time_ms > 900
            assert len(second.responses[0].partitions[0].records) > 1_000
            begun = asyncio.get_running_loop().time()
            await client.call(ApiVersionsRequest(), 0)
            assert asyncio.get_running_loop().time() - begun > 0.5

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
            reply = await client.call(DeleteTopicsRequest(topics=states, timeout_ms=5_000))
            assert {each.name: E(each.error_code) for each in reply.responses} == {
                "d": E.NONE,
                "nosuch": E.UNKNOWN_TOPIC_OR_PARTITION,
            }

    run(work())


def test_an_address_over_its_quota_of_connections_is_not_read_and_then_closed(tmp_path):
    """KIP-612, as Apache Kafka 4.3.0 does it: the wait is at most a second, and what is refused does not count."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await quota(client, "connection_creation_rate", 1.0, ("ip", None))

            async def is_served():
                other = await Client.connect(broker)
                try:
                    other.send(ApiVersionsRequest(), 0)
                    await other.receive()
                except ConnectionClosed:
                    return False
                finally:
                    other.close()
                return True

            begun = asyncio.get_running_loop().time()
            assert [await is_served() for _ in range(12)] == [True] * 10 + [False] * 2
            assert asyncio.get_running_loop().time() - begun > 1.9
            assert broker.metrics.limit_hits("connection_creation_rate") == 2
            await quota(client, "connection_creation_rate", 2.0, ("ip", "127.0.0.1"))
            assert await is_served(), "the address's own quota holds"
            await quota(client, "connection_creation_rate", None, ("ip", "127.0.0.1"))
            await quota(client, "connection_creation_rate", None, ("ip", None))
            assert all([await is_served() for _ in range(20)])

    run(work())


@pytest.mark.parametrize("api", ["metadata", "join", "produce"])
def test_a_client_that_takes_too_much_of_the_brokers_time_waits(tmp_path, api):
    """KIP-124: whatever it asks, and at most a second for each request."""

    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await quota(client, "request_percentage", 1e-9)
            request = {
                "metadata": lambda: MetadataRequest(),
                "join": lambda: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
                "produce": lambda: client.produce_request("t", "v"),
            }[api]()
            begun = asyncio.get_running_loop().time()
            assert (await client.call(request)).throttle_time_ms == 1000
            await client.call(ApiVersionsRequest(), 0)
            assert asyncio.get_running_loop().time() - begun > 0.9

    run(work())


def test_a_client_that_takes_less_than_its_share_does_not_wait(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await quota(client, "request_percentage", 1e9)
            assert (await client.call(MetadataRequest())).throttle_time_ms == 0
            assert broker.metadata.has_request_quotas
            await quota(client, "request_percentage", None)
            assert not broker.metadata.has_request_quotas

    run(work())


def test_a_handlers_steps_are_measured_and_not_what_it_waits_for():
    now = 0.0

    async def handler():
        nonlocal now
        now += 1.0
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            now += 4.0
            raise
        now += 2.0
        return "done"

    async def work():
        nonlocal now

        def begun(spent):
            request = Request(ApiKey.HEARTBEAT, 0, 0, "", None, None)
            assert spent.measured(request, lambda _: NO_REPLY) is NO_REPLY
            return asyncio.ensure_future(request.measured(handler()))

        spent = HandlingTime(lambda: now)
        task = begun(spent)
        await asyncio.sleep(0)
        now += 100.0
        assert await task == "done"
        assert spent.used_s == 3.0
        cancelled = HandlingTime(lambda: now)
        task = begun(cancelled)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert cancelled.used_s == 5.0

    asyncio.run(work())


def test_what_is_refused_counts_as_what_is_done(tmp_path):
    """The bytes of a Produce to a topic that is not there, and of a Fetch's answer that says so: as Apache Kafka 4.3."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            stop_clock(broker)
            await quota(client, "producer_byte_rate", 10_000.0)
            reply = await client.call(client.produce_request("nosuch", "x" * 101_000), 9)
            assert reply.responses[0].partition_responses[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            assert 100 <= reply.throttle_time_ms < 200
            await quota(client, "producer_byte_rate", None)
            await quota(client, "consumer_byte_rate", 100.0)
            told = [await client.call(fetch_request("nosuch" * 20, 0, False), 11) for _ in range(6)]
            assert [len(each.responses) for each in told] == [1] * 5 + [0], "the sixth would be over the bound"
            assert [each.throttle_time_ms > 0 for each in told] == [False] * 5 + [True]

    run(work())


@pytest.mark.parametrize("authorizes", [False, True])
def test_a_produce_refused_for_its_transactional_id_does_not_count(tmp_path, authorizes):
    """Apache Kafka 4.3 looks at the transactional id before it looks at quotas: a stranger's bytes are not the client's."""
    rules = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}

    async def work():
        async with broker_and_client(tmp_path, **(rules if authorizes else {})) as (broker, client):
            stop_clock(broker)
            await client.create("t")
            if authorizes:
                denied = AclCreation(
                    resource_type=5,
                    resource_name="x",
                    principal="User:ANONYMOUS",
                    host="*",
                    operation=4,
                    permission_type=2,
                )
                await client.call(CreateAclsRequest(creations=[denied]))
            await quota(client, "producer_byte_rate", 10_000.0)
            batch = build_batch(
                [(1, None, b"x" * 101_000, ())], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
            )
            data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
            request = ProduceRequest(
                transactional_id="x" if authorizes else None, acks=-1, timeout_ms=30_000, topic_data=[data]
            )
            for _ in range(2):
                reply = await client.call(request, 9)
                part = reply.responses[0].partition_responses[0]
                assert part.error_code == E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
                assert reply.throttle_time_ms == 0
            reply = await client.call(client.produce_request("t", "x" * 101_000), 9)
            assert 100 <= reply.throttle_time_ms < 200, "what is stored counts, and only that"

    run(work())
