"""Each limit of docs/limits.md, met over a socket: what happens there, what is counted, and that others go on."""

from __future__ import annotations

import asyncio
import pathlib
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest

from oncelog.broker.config import ConfigInvalid, addresses_with_counts, config_from
from oncelog.broker.connection_limits import CreationRate
from oncelog.broker.limits import LIMITS, table
from oncelog.broker.log_budget import LogBudget
from oncelog.broker.population import Population
from oncelog.core.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.record_batch import Codec, build_batch
from tests.broker.world import TIMEOUT_S, Client, ConnectionClosed, broker_and_client, fetch_request, run, until

E = ErrorCode
DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "limits.md"
shown: set[str] = set()


def shows(*keys: str) -> Callable[[Any], Any]:
    """Say which limits a test meets."""
    shown.update(keys)
    return lambda test: test


def test_every_limit_is_met_by_a_test_and_stands_in_the_document():
    assert {limit.key for limit in LIMITS} == shown
    assert table() in DOCUMENT.read_text(), "docs/limits.md: run python -m tools.tables"


async def is_served(broker: Any) -> bool:
    other = await Client.connect(broker)
    answered = (await other.call(ApiVersionsRequest(), 0)).error_code == E.NONE
    other.close()
    return answered


async def is_closed(client: Client) -> bool:
    with pytest.raises(ConnectionClosed):
        await client.frame()
    return True


# connections


@shows("max.connections")
def test_max_connections(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, max_connections=2) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            second = await Client.connect(broker)
            await second.call(ApiVersionsRequest(), 0)
            third = await Client.connect(broker)
            assert await is_closed(third)
            assert broker.metrics.limit_hits("max.connections") == 1
            assert (await second.call(ApiVersionsRequest(), 0)).error_code == E.NONE
            second.close()
            await until(lambda: len(broker.server._connections) == 1)
            assert await is_served(broker)

    run(work())


@shows("max.connections.per.ip")
def test_max_connections_per_ip(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, max_connections_per_ip=1) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            assert await is_closed(await Client.connect(broker))
            assert broker.metrics.limit_hits("max.connections.per.ip") == 1

    run(work())


@shows("max.connections.per.ip.overrides")
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_overrides_for_addresses(tmp_path, name):
    async def work():
        overrides = f"10.1.1.1:5, {name}:2"
        config = {"max_connections_per_ip": 1, "max_connections_per_ip_overrides": overrides}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            second = await Client.connect(broker)
            await second.call(ApiVersionsRequest(), 0)
            assert await is_closed(await Client.connect(broker))
            assert broker.metrics.limit_hits("max.connections.per.ip.overrides") == 1
            second.close()

    run(work())


def test_overrides_are_checked():
    assert addresses_with_counts("127.0.0.1:10,[::1]:20,a:0") == {"127.0.0.1": 10, "::1": 20, "a": 0}
    for text in ("127.0.0.1", ":1", "a:b", "a:-1", "a:99999999999"):
        with pytest.raises(ConfigInvalid):
            config_from({"max.connections.per.ip.overrides": text})


@shows("max.connection.creation.rate")
def test_connections_that_come_too_fast_are_read_later(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, max_connection_creation_rate=20) as (broker, _):
            rate, delays_s = broker.server._creation_rate, []
            moment = asyncio.get_running_loop().time()

            def at_one_moment(per_second: int, _: float) -> float:
                delays_s.append(CreationRate.delay_s(rate, per_second, moment))
                return delays_s[-1]

            rate.delay_s = at_one_moment
            clients = [await Client.connect(broker) for _ in range(23)]
            for each in clients:
                each.send(ApiVersionsRequest(), 0)
            loop = asyncio.get_running_loop()
            for each in clients:
                await each.receive()
                each.close()
            late = [delay_s for delay_s in delays_s if delay_s > 0]
            assert len(delays_s) == 23
            assert (
                2 <= len(late) == broker.metrics.limit_hits("max.connection.creation.rate") <= 4
            )  # a second's worth is not
            assert loop.time() - moment >= max(late) > 0.1

    run(work())


def test_the_rate_is_kept_over_time():
    rate, taken = CreationRate(), 0.0
    for _ in range(100):
        taken = rate.delay_s(10, 50.0)
    assert 8.9 < taken < 9.2  # a hundred at ten a second, ten of them at once
    assert CreationRate().delay_s(10, 50.0) == 0
    assert rate.delay_s(10, 70.0) == 0  # what was not used is not kept for longer than a second
    assert [rate.delay_s(10, 70.0) > 0 for _ in range(11)].count(True) == 2


@shows("connections.max.idle.ms")
def test_silent_connections_end_and_those_that_read_nothing_too(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await client.produce("t", "x" * 900_000)
        config = {"connections_max_idle_ms": 80, "oncelog_connection_max_unsent_bytes": 1000}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            stuck = await Client.connect(broker)
            stuck._protocol.transport.pause_reading()
            for _ in range(40):
                stuck.send(fetch_request("t", 0, committed=False), 12)
            assert await is_closed(client)
            await until(lambda: broker.metrics.limit_hits("connections.max.idle.ms") == 2)
            assert not [each for each in broker.server._connections if each.unsent_bytes]
            stuck.close()

    run(work())


# requests


@shows("socket.request.max.bytes")
def test_a_request_that_is_too_large_is_not_read(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, socket_request_max_bytes=50_000) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            client.send_bytes(struct.pack(">i", 50_001))
            assert await is_closed(client)
            assert broker.metrics.limit_hits("socket.request.max.bytes") == 1
            assert await is_served(broker)

    run(work())


@shows("oncelog.first.request.max.bytes")
def test_the_first_request_has_a_smaller_limit(tmp_path):
    async def work():
        config = {"oncelog_first_request_max_bytes": 10_000, "message_max_bytes": 1_000}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            large = b"".join(encode_request(ApiKey.API_VERSIONS, 0, 5, "c" * 20_000, ApiVersionsRequest()))
            client.send_bytes(large)
            assert await is_closed(client)
            assert broker.metrics.limit_hits("oncelog.first.request.max.bytes") == 1
            later = await Client.connect(broker)
            await later.call(ApiVersionsRequest(), 0)
            later.send_bytes(large)
            assert bytes((await later.frame())[:4]) == struct.pack(">i", 5)
            later.close()

    run(work())


@shows("oncelog.request.max.items")
def test_a_request_with_too_many_items_is_not_made_into_objects(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_request_max_items=50) as (broker, client):
            await client.create("t")
            few = [MetadataRequestTopic(name="t")] * 50
            assert len((await client.call(MetadataRequest(topics=few), 12)).topics) == 1
            client.send(MetadataRequest(topics=[*few, few[0]]), 12)
            assert await is_closed(client)
            assert broker.metrics.limit_hits("oncelog.request.max.items") == 1

    run(work())


@shows("oncelog.request.receive.timeout.ms")
def test_a_request_that_trickles_is_cut_off(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_request_receive_timeout_ms=100) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            client.send_bytes(struct.pack(">i", 1000) + b"x")
            assert await is_closed(client)
            assert broker.metrics.limit_hits("oncelog.request.receive.timeout.ms") == 1

    run(work())


@shows("oncelog.connection.max.in.flight")
def test_so_many_requests_wait_and_the_rest_is_not_read(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_connection_max_in_flight=5) as (broker, client):
            await client.create("t")
            for _ in range(50):
                client.send(fetch_request("t", 0, committed=True, wait_ms=5), 12)
            (connection,) = [each for each in broker.server._connections if each.connection_id == 1]
            for _ in range(50):
                await client.receive()
                assert len(connection._slots) <= 5
            assert broker.metrics.limit_hits("oncelog.connection.max.in.flight") >= 1
            assert broker.server._connections  # and it is still there

    run(work())


@shows("queued.max.requests")
def test_so_many_requests_wait_for_the_ones_before_them(tmp_path):
    async def work():
        config = {"queued_max_requests": 10, "group_initial_rebalance_delay_ms": 300}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            (connection,) = broker.server._connections
            client.send(join_request("g"), 3)  # waits, and with it what is behind it
            for _ in range(20):
                client.send(ApiVersionsRequest(), 0)
            await until(lambda: broker.metrics.limit_hits("queued.max.requests") == 1)
            assert broker.server.queued_count >= 10
            assert not connection._is_reading
            assert await is_served(broker), "a connection on which nothing waits is read"
            for _ in range(21):
                await client.receive()
            assert broker.server.queued_count == 0
            assert connection._is_reading
            client.send(join_request("h"), 3)
            for _ in range(20):
                client.send(ApiVersionsRequest(), 0)
            await until(lambda: broker.metrics.limit_hits("queued.max.requests") == 2)
            client.close()
            await until(lambda: broker.server.queued_count == 0)

    run(work())


@shows("oncelog.connection.max.unsent.bytes", "oncelog.replies.max.unsent.bytes")
def test_replies_that_nobody_reads_do_not_pile_up(tmp_path):
    async def work():
        config = {"oncelog_connection_max_unsent_bytes": 1000, "oncelog_replies_max_unsent_bytes": 100_000}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("t")
            for _ in range(10):
                await client.produce("t", "x" * 100_000)
            stuck = await Client.connect(broker)
            stuck._protocol.transport.pause_reading()
            for _ in range(40):
                stuck.send(fetch_request("t", 0, committed=False), 12)
            now = asyncio.get_running_loop().time
            await until(lambda: any(each.stalled_s(now()) > 0.1 for each in tuple(broker.server.stalled)))
            assert broker.metrics.limit_hits("oncelog.connection.max.unsent.bytes") >= 1
            (connection,) = broker.server.stalled
            assert connection.unsent_bytes < 1_100_000  # one reply, not forty
            other = await Client.connect(broker)
            before = broker.metrics.limit_hits("oncelog.replies.max.unsent.bytes")
            reply = await other.call(fetch_request("t", 0, committed=False), 12)
            hits = broker.metrics.limit_hits("oncelog.replies.max.unsent.bytes") - before
            size_bytes = len(reply.responses[0].partitions[0].records)
            assert hits == 1, connection.unsent_bytes
            assert 100_000 <= size_bytes <= 250_000  # fewer batches than there are, and never none
            stuck._protocol.transport.resume_reading()
            for _ in range(40):
                assert (await stuck.receive())[1].error_code == E.NONE
            assert not broker.server.stalled
            other.close()
            stuck.close()

    run(work())


@shows("max.request.partition.size.limit")
def test_partitions_are_described_in_pages(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, max_request_partition_size_limit=3) as (_, client):
            await client.create("t", 5)
            reply = await client.call(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=2000))
            assert [len(topic.partitions) for topic in reply.topics] == [3]
            assert (reply.next_cursor.topic_name, reply.next_cursor.partition_index) == ("t", 3)

    run(work())


# records


@shows("message.max.bytes")
def test_a_batch_that_is_too_large(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, message_max_bytes=1000) as (broker, client):
            await client.create("t")
            assert (await client.produce("t", "x" * 2000)).error_code == E.MESSAGE_TOO_LARGE
            assert broker.metrics.limit_hits("message.max.bytes") == 1
            assert (await client.produce("t", "x")).error_code == E.NONE

    run(work())


@shows("oncelog.message.max.decompressed.bytes")
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_batch_that_grows_too_large(tmp_path, codec):
    async def work():
        async with broker_and_client(tmp_path, oncelog_message_max_decompressed_bytes=100_000) as (broker, client):
            await client.create("t")
            for size_bytes, code in ((90_000, E.NONE), (10_000_000, E.MESSAGE_TOO_LARGE)):
                batch = build_batch([(1, None, bytes(size_bytes), ())], codec=codec)
                data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
                reply = await client.call(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data]), 12)
                assert reply.responses[0].partition_responses[0].error_code == code
            assert broker.metrics.limit_hits("oncelog.message.max.decompressed.bytes") == 1

    run(work())


def test_nothing_is_decompressed_beyond_the_limit():
    """The limit is met while decompressing: a bomb costs what the limit allows, not what it claims."""
    from oncelog.wire.compression import DecompressedTooLarge, decompress

    bomb = zlib.compress(bytes(50_000_000), level=9, wbits=31)
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.GZIP, bomb, 1000)


@shows("fetch.max.bytes")
def test_a_fetch_is_cut_at_the_brokers_limit(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, fetch_max_bytes=2500) as (_, client):
            await client.create("t")
            for _ in range(6):
                await client.produce("t", "x" * 1000)
            request = fetch_request("t", 0, committed=False)
            request.max_bytes = 1 << 30
            reply = await client.call(request, 12)
            assert 1000 < len(reply.responses[0].partitions[0].records) <= 2500

    run(work())


@shows("max.incremental.fetch.session.cache.slots")
def test_a_fetch_without_a_session_is_answered_all_the_same(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, max_incremental_fetch_session_cache_slots=1) as (broker, client):
            await client.create("t")
            await client.produce("t", "a")
            wanted = [FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])]
            request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1000, session_epoch=0, topics=wanted)
            first, second = await client.call(request, 12), await client.call(request, 12)
            assert first.session_id != 0
            assert second.session_id == 0
            assert second.responses[0].partitions[0].records
            assert broker.metrics.limit_hits("max.incremental.fetch.session.cache.slots") == 1

    run(work())


# what is remembered


@shows("oncelog.max.topics", "oncelog.max.partitions")
def test_topics_and_partitions_are_bounded(tmp_path):
    async def work():
        config = {"oncelog_max_topics": 2, "oncelog_max_partitions": 5}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("a", 2)

            async def create(name: str, count: int) -> ErrorCode:
                asked = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                return E((await client.call(CreateTopicsRequest(topics=[asked]))).topics[0].error_code)

            assert await create("b", 4) == E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.partitions") == 1
            assert await create("b", 3) == E.NONE
            assert await create("c", 1) == E.POLICY_VIOLATION
            grown = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)])
            assert (await client.call(grown)).results[0].error_code == E.POLICY_VIOLATION
            reply = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="automatic")]), 12)
            assert reply.topics[0].error_code != E.NONE
            assert broker.metrics.limit_hits("oncelog.max.topics") == 2
            await client.init("tx")  # the coordinators' own topic is made all the same

    run(work())


@shows("oncelog.max.transactional.ids")
def test_transactional_ids_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_transactional_ids=2) as (broker, client):
            await client.init("a")
            await client.init("b")
            third = InitProducerIdRequest(transactional_id="c", transaction_timeout_ms=60_000)
            assert (await client.call(third)).error_code == E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.transactional.ids") == 1
            await client.init("a")
            await client.init(None)

    run(work())


@shows("oncelog.max.producer.ids.per.partition")
def test_producer_ids_of_a_partition_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_producer_ids_per_partition=1) as (broker, client):
            await client.create("t")
            first, second = await client.init(), await client.init()
            assert (await client.produce("t", "a", producer=first, sequence=0)).error_code == E.NONE
            assert (await client.produce("t", "a", producer=second, sequence=0)).error_code == E.POLICY_VIOLATION
            assert (await client.produce("t", "b", producer=first, sequence=1)).error_code == E.NONE
            assert broker.metrics.limit_hits("oncelog.max.producer.ids.per.partition") == 1

    run(work())


def join_request(group_id: str, **fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    values = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000} | fields
    return JoinGroupRequest(group_id=group_id, protocol_type="consumer", protocols=protocols, **values)


def commit_request(group_id: str, metadata: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    return OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics)


async def committed(client: Client, request: OffsetCommitRequest) -> ErrorCode:
    return E((await client.call(request, 8)).topics[0].partitions[0].error_code)


@shows("oncelog.max.groups")
def test_groups_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_groups=2) as (broker, client):
            await client.create("t")
            assert (await client.call(join_request("a"), 3)).error_code == E.NONE
            assert await committed(client, commit_request("b")) == E.NONE
            assert (await client.call(join_request("c"), 3)).error_code == E.GROUP_MAX_SIZE_REACHED
            assert await committed(client, commit_request("d")) == E.GROUP_MAX_SIZE_REACHED
            assert await committed(client, commit_request("b")) == E.NONE
            assert broker.metrics.limit_hits("oncelog.max.groups") == 2

    run(work())


@shows("oncelog.max.group.members")
def test_members_of_all_groups_are_bounded_and_so_are_ids_that_nobody_uses(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_group_members=2) as (broker, client):
            given = await client.call(join_request("a"), 4)
            assert given.error_code == E.MEMBER_ID_REQUIRED
            assert (await client.call(join_request("b"), 3)).error_code == E.NONE
            assert (await client.call(join_request("c"), 4)).error_code == E.GROUP_MAX_SIZE_REACHED
            joining = heartbeat_request("d")
            assert (await client.call(joining, 1)).error_code == E.GROUP_MAX_SIZE_REACHED
            back = join_request("a", member_id=given.member_id)
            assert (await client.call(back, 4)).error_code == E.NONE, "who has an id is no new member"
            assert broker.metrics.limit_hits("oncelog.max.group.members") == 2

    run(work())


def heartbeat_request(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def test_a_member_of_a_full_house_may_join_again(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_group_members=1) as (_, client):
            for _ in range(3):
                assert (await client.call(heartbeat_request("g"), 1)).error_code == E.NONE
            static = join_request("h", group_instance_id="i")
            assert (await client.call(static, 5)).error_code == E.GROUP_MAX_SIZE_REACHED

    run(work())


@shows("oncelog.max.committed.offsets")
def test_offsets_are_bounded_and_those_that_are_there_go_on(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_committed_offsets=2) as (broker, client):
            await client.create("t")
            for group_id in ("a", "b", "a", "b", "a"):
                assert await committed(client, commit_request(group_id)) == E.NONE
            assert await committed(client, commit_request("c")) == E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.committed.offsets") == 1
            producer = await client.init("tx")
            partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
            request = TxnOffsetCommitRequest(
                transactional_id="tx",
                group_id="c",
                producer_id=producer[0],
                producer_epoch=producer[1],
                topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
            )
            reply = await client.call(request, 5)
            assert reply.topics[0].partitions[0].error_code == E.POLICY_VIOLATION

    run(work())


@shows("oncelog.max.fetch.session.partitions")
def test_partitions_of_fetch_sessions_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_fetch_session_partitions=3) as (broker, client):

            def fetch(session_id: int, session_epoch: int, *names: str) -> FetchRequest:
                topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in names]
                return FetchRequest(
                    max_wait_ms=0, max_bytes=100, session_id=session_id, session_epoch=session_epoch, topics=topics
                )

            first = await client.call(fetch(0, 0, "a", "b"), 12)
            assert first.session_id != 0
            grown = await client.call(fetch(first.session_id, 1, "c", "d"), 12)
            assert grown.error_code == E.FETCH_SESSION_ID_NOT_FOUND
            assert (await client.call(fetch(0, 0, "a", "b", "c", "d"), 12)).session_id == 0
            assert broker.metrics.limit_hits("oncelog.max.fetch.session.partitions") == 2
            assert (await client.call(fetch(0, 0, "a", "b", "c"), 12)).session_id != 0
            assert broker.fetch_sessions.partition_count == 3

    run(work())


@shows("oncelog.max.acls")
def test_access_rules_are_bounded(tmp_path):
    async def work():
        config = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}
        async with broker_and_client(tmp_path, oncelog_max_acls=2, **config) as (broker, client):
            rules = [
                AclCreation(
                    resource_type=2, resource_name=name, principal="User:x", host="*", operation=3, permission_type=3
                )
                for name in "aabcd"
            ]
            reply = await client.call(CreateAclsRequest(creations=rules))
            assert [each.error_code for each in reply.results] == [0, 0, 0, E.POLICY_VIOLATION, E.POLICY_VIOLATION]
            assert "oncelog.max.acls" in reply.results[3].error_message
            assert len(broker.metadata.acls) == 2
            assert broker.metrics.limit_hits("oncelog.max.acls") == 2

    run(work())


@shows("oncelog.max.scram.credentials")
def test_credentials_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_scram_credentials=1) as (broker, client):

            async def alter(deleted: str, *names: str, salt: bytes = b"s") -> list[int]:
                request = AlterUserScramCredentialsRequest(
                    deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in deleted],
                    upsertions=[
                        ScramCredentialUpsertion(
                            name=name, mechanism=1, iterations=4096, salt=salt, salted_password=b"p"
                        )
                        for name in names
                    ],
                )
                return [each.error_code for each in (await client.call(request)).results]

            assert await alter("", "a", "b") == [0, E.POLICY_VIOLATION]
            assert await alter("", "a") == [0], "one that is there is changed"
            assert await alter("a", "b") == [0, 0]
            assert await alter("", "b", salt=bytes(2000)) == [E.UNACCEPTABLE_CREDENTIAL]
            assert broker.metrics.limit_hits("oncelog.max.scram.credentials") == 1

    run(work())


@shows("oncelog.max.client.quotas", "oncelog.max.clients.under.quota")
def test_quotas_and_whom_they_hold_for_are_bounded(tmp_path):
    async def work():
        config = {"oncelog_max_client_quotas": 1, "oncelog_max_clients_under_quota": 1}
        async with broker_and_client(tmp_path, **config) as (broker, client):

            async def alter(*names: str | None, remove: bool = False) -> list[int]:
                op = OpData(key="producer_byte_rate", value=1e9, remove=remove)
                entries = [
                    EntryData(entity=[EntityData(entity_type="client-id", entity_name=name)], ops=[op])
                    for name in names
                ]
                return [
                    each.error_code for each in (await client.call(AlterClientQuotasRequest(entries=entries))).entries
                ]

            assert await alter("a", "b", "a") == [0, E.POLICY_VIOLATION, 0]
            assert broker.metrics.limit_hits("oncelog.max.client.quotas") == 1
            assert await alter("a", remove=True) == [0]
            assert await alter(None) == [0]
            await client.create("t")
            for client_id in ("x", "y"):
                request = client.produce_request("t", "v")
                client.send_bytes(b"".join(encode_request(ApiKey.PRODUCE, 9, 77, client_id, request)))
                await client.frame()
            assert broker.metrics.limit_hits("oncelog.max.clients.under.quota") == 1

    run(work())


@shows("oncelog.max.config.resources")
def test_groups_with_configs_of_their_own_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_config_resources=1) as (broker, client):

            async def alter(kind: int, resource: str, name: str, value: str) -> ErrorCode:
                changed = AlterConfigsResource(
                    resource_type=kind,
                    resource_name=resource,
                    configs=[AlterableConfig(name=name, config_operation=0, value=value)],
                )
                reply = await client.call(IncrementalAlterConfigsRequest(resources=[changed]))
                return E(reply.responses[0].error_code)

            group, metrics = 32, 16
            assert await alter(group, "a", "consumer.heartbeat.interval.ms", "6000") is E.NONE
            assert await alter(group, "a", "consumer.heartbeat.interval.ms", "7000") is E.NONE
            assert await alter(group, "b", "consumer.heartbeat.interval.ms", "6000") is E.POLICY_VIOLATION
            assert await alter(metrics, "m", "interval.ms", "6000") is E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.config.resources") == 2

    run(work())


def test_a_list_does_not_grow_beyond_what_can_be_described(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):

            async def append(value: str) -> ErrorCode:
                name = "leader.replication.throttled.replicas"
                changed = AlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[AlterableConfig(name=name, config_operation=2, value=value)],
                )
                reply = await client.call(IncrementalAlterConfigsRequest(resources=[changed]))
                return E(reply.responses[0].error_code)

            await client.create("t")
            first, second = (",".join(f"{index}:1" for index in range(at, at + 4000)) for at in (0, 4000))
            assert await append(first) is E.NONE
            assert await append(second) is E.INVALID_CONFIG, "as Apache Kafka answers"
            assert await append("9000:1") is E.NONE

    run(work())


@shows("oncelog.log.max.lines.per.minute")
def test_lines_in_the_log_are_bounded(tmp_path, caplog):
    async def work():
        async with broker_and_client(tmp_path, oncelog_log_max_lines_per_minute=2) as (broker, _):
            for _ in range(5):
                other = await Client.connect(broker)
                other.send_bytes(struct.pack(">i", -5))
                assert await is_closed(other)
            assert broker.metrics.limit_hits("oncelog.log.max.lines.per.minute") == 3
            assert sum("closing connection" in line for line in caplog.messages) == 2

    run(work())


def test_what_was_left_out_of_the_log_is_told():
    budget = LogBudget(lambda: 2)
    assert [budget.take(now_s) for now_s in (0.0, 1.0, 2.0, 3.0, 60.0, 61.0, 61.0)] == [0, 0, None, None, 2, 0, None]


def test_a_population_is_counted_only_near_its_bound():
    counted: list[int] = []
    there = 0

    def count() -> int:
        counted.append(there)
        return there

    population = Population(count)
    assert all(population.has_room(1, 10, 0.0) for _ in range(10))
    assert counted == [0]
    there = 9  # one of the ten has gone
    assert population.has_room(1, 10, 1.0)
    assert counted == [0, 9]
    there = 10
    assert not population.has_room(1, 10, 1.0), "not counted again so soon"
    assert not population.has_room(1, 10, 2.0)
    assert counted == [0, 9, 10]
    there = 3
    assert population.has_room(7, 10, 4.0)


@shows("group.max.size", "group.max.session.timeout.ms", "offset.metadata.max.bytes", "transaction.max.timeout.ms")
def test_limits_that_are_told_by_an_error_are_counted_by_it(tmp_path):
    async def work():
        config = {"group_max_size": 1, "offset_metadata_max_bytes": 5, "transaction_max_timeout_ms": 1000}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("t")
            first = await client.call(join_request("g"), 3)
            assert first.error_code == E.NONE
            other = await Client.connect(broker)
            assert (await other.call(join_request("g"), 3)).error_code == E.GROUP_MAX_SIZE_REACHED
            late = join_request("h", session_timeout_ms=2_000_000)
            assert (await other.call(late, 3)).error_code == E.INVALID_SESSION_TIMEOUT
            assert await committed(client, commit_request("i", "123456")) == E.OFFSET_METADATA_TOO_LARGE
            long = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=1001)
            assert (await client.call(long)).error_code == E.INVALID_TRANSACTION_TIMEOUT
            counted = {
                (labels["request"], labels["error"]): value
                for family, samples in broker.metrics.families()
                for _, labels, value in samples
                if family.name == "kafka_network_requestmetrics_errors_total"
            }
            assert counted == {
                ("JoinGroup", "GROUP_MAX_SIZE_REACHED"): 1,
                ("JoinGroup", "INVALID_SESSION_TIMEOUT"): 1,
                ("OffsetCommit", "OFFSET_METADATA_TOO_LARGE"): 1,
                ("InitProducerId", "INVALID_TRANSACTION_TIMEOUT"): 1,
            }
            other.close()

    run(work())


def test_a_client_that_does_not_read_does_not_hold_up_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr("oncelog.broker.broker.DRAIN_TIMEOUT_S", 10 * TIMEOUT_S)

    async def work():
        async with broker_and_client(tmp_path, oncelog_connection_max_unsent_bytes=1000) as (broker, client):
            await client.create("t")
            await client.produce("t", "x" * 900_000)
            stuck = await Client.connect(broker)
            stuck._protocol.transport.pause_reading()
            for _ in range(40):
                stuck.send(fetch_request("t", 0, committed=False), 12)
            await until(lambda: len(broker.server.stalled) == 1)
            async with asyncio.timeout(TIMEOUT_S / 2):
                await broker.stop()
            stuck.close()

    run(work())


def test_transactions_need_no_connections_of_the_brokers_own(tmp_path):
    """A broker whose connections are all taken still asks its coordinator and writes its markers."""

    async def work():
        async with broker_and_client(tmp_path, max_connections=1) as (_, client):
            await client.create("t")
            producer = await client.init("tx")
            assert (
                await client.produce("t", "v", producer=producer, sequence=0, transactional_id="tx")
            ).error_code == 0
            assert (await client.end("tx", producer, commit=True)).error_code == E.NONE
            while await client.read("t") != ["v"]:  # noqa: ASYNC110 - the marker comes without an event
                await asyncio.sleep(0)

    run(work())
