"""Each limit of docs/limits.md, met over a socket: what happens there, what is counted, and that others go on."""

from __future__ import annotations

import asyncio
import pathlib
import socket
import struct
import zlib

import pytest
from evidence.world.broker import TIMEOUT_S, Client, broker_and_client, fetch_request, run, until

from oncelog.broker.config.config import ConfigInvalid, addresses_with_counts, config_from
from oncelog.broker.metrics.limits import LIMITS, table
from oncelog.broker.network.connection import Connection
from oncelog.broker.network.connection_limits import CreationRate
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request, response_correlation_id
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.share_fetch import ShareFetchRequest
from oncelog.wire.record_batch import Codec, build_batch
from tests.broker.admission import test_population
from tests.broker.metadata import test_turns
from tests.broker.metrics import test_client_metrics
from tests.broker.metrics.limits_world import (
    commit_request,
    committed,
    is_closed,
    is_served,
    join_request,
    shown,
    shows,
)
from tests.broker.network import test_delegation_tokens, test_log_budget, test_secured_connection

E = ErrorCode
DOCUMENT = pathlib.Path(__file__).parents[3] / "docs" / "limits.md"
BESIDE = (
    test_client_metrics,
    test_delegation_tokens,
    test_log_budget,
    test_population,
    test_secured_connection,
    test_turns,
)  # which meet the others


def test_every_limit_is_met_by_a_test_and_stands_in_the_document():
    assert {limit.key for limit in LIMITS} == shown, f"here and in {BESIDE}"
    assert table() in DOCUMENT.read_text(), "docs/limits.md: run python -m tools.tables"


# connections


@shows("max.connections")
def test_max_connections(tmp_path, caplog):
    async def work():
        async with broker_and_client(tmp_path, max_connections=2) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            second = await Client.connect(broker)
            await second.call(ApiVersionsRequest(), 0)
            third = await Client.connect(broker)
            assert await is_closed(third)
            assert broker.metrics.limit_hits("max.connections") == 1
            assert "was closed: max.connections" in caplog.text
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


def test_many_readers_that_read_nothing_stay_within_the_bound_of_all_replies(tmp_path):
    """Each was given a batch more, whatever the others held: fifty of them were 100 MiB beyond the bound."""
    bound, readers = 4 << 20, 12

    async def work():
        async with broker_and_client(tmp_path, oncelog_replies_max_unsent_bytes=bound) as (broker, client):
            await client.create("t")
            for _ in range(3):
                await client.produce("t", "x" * 300_000)
            stuck = [await Client.connect(broker) for _ in range(readers)]
            for each in stuck:
                each._protocol.transport.pause_reading()
                each._protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                for _ in range(60):
                    each.send(fetch_request("t", 0, committed=False), 12)
            await until(lambda: len(broker.server.stalled) == len(broker.server._connections) - 1)
            assert broker.server.unsent_bytes() <= bound
            assert 1 < len(broker.server.stalled) < readers, "those who have read nothing for longest made room"
            assert len(await client.read("t", committed=False)) >= 1, "who reads is served"
            for each in stuck:
                each.close()
            await until(lambda: broker.server.unsent_bytes() == 0)

    run(work())


def test_replies_that_wait_for_the_one_before_them_are_bounded_too(tmp_path, monkeypatch):
    """Fetches behind a produce that waits for its sync: all of them were read at once, a hundred replies in memory."""
    held = []
    hold_back = Connection._hold_back

    def noted(self, slot, reply):
        hold_back(self, slot, reply)
        if self._slots[0] is not slot:
            held.append(self.reply_bytes)
            assert self._server.unsent_bytes() >= slot.held_bytes > 0

    monkeypatch.setattr(Connection, "_hold_back", noted)

    async def work():
        async with broker_and_client(tmp_path, oncelog_connection_max_unsent_bytes=500_000) as (broker, client):
            await client.create("t")
            await client.produce("t", "x" * 300_000)
            requests = [(client.produce_request("t", "y"), 12)] + [(fetch_request("t", 0, committed=False), 12)] * 50
            frames = [
                b"".join(encode_request(request.KEY, version, 1000 + index, "c", request))
                for index, (request, version) in enumerate(requests)
            ]
            client.send_bytes(b"".join(frames))
            for index in range(len(frames)):
                frame = await client.frame()
                assert response_correlation_id(frame) == 1000 + index
                assert index == 0 or len(frame) > 300_000
            assert held, "the produce waited"
            assert max(held) < 500_000 + 2 * 310_000
            await until(lambda: broker.server.unsent_bytes() == 0)

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


@shows("group.share.max.share.sessions")
def test_a_share_session_too_many_is_refused(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, group_share_max_share_sessions=1) as (broker, client):
            fields = {"group_id": "g", "share_session_epoch": 0, "max_wait_ms": 0, "max_records": 1}
            assert (await client.call(ShareFetchRequest(member_id="m", **fields))).error_code == E.NONE
            assert (await client.call(ShareFetchRequest(member_id="m", **fields))).error_code == E.NONE, "in its place"
            refused = await client.call(ShareFetchRequest(member_id="n", **fields))
            assert refused.error_code == E.SHARE_SESSION_LIMIT_REACHED
            assert broker.metrics.limit_hits("group.share.max.share.sessions") == 1

    run(work())


@shows("oncelog.journal.max.bytes")
def test_commits_wait_for_a_data_sync_where_the_journal_is_nearly_full(tmp_path, monkeypatch):
    monkeypatch.setattr("oncelog.log.journal.SEGMENT_SIZE_BYTES", 4096)
    monkeypatch.setattr("oncelog.log.journal.FILL_SIZE_BYTES", 4096)

    async def work():
        async with broker_and_client(tmp_path, oncelog_journal_max_bytes=1) as (broker, client):
            await client.create("t")
            number = 0
            while not broker.metrics.limit_hits("oncelog.journal.max.bytes"):
                assert (await client.produce("t", "x" * 3000)).error_code == E.NONE
                number += 1
                assert number < 1000
            assert (await client.produce("t", "y")).error_code == E.NONE
            assert broker.flusher.journal.segment_count <= 5
            assert await is_served(broker)

    run(work())


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
    monkeypatch.setattr("oncelog.broker.broker.DRAIN_TIMEOUT_S", 10 * TIMEOUT_S)  # who waits for it hangs

    async def work():
        async with broker_and_client(tmp_path, oncelog_connection_max_unsent_bytes=1000) as (broker, client):
            await client.create("t")
            await client.produce("t", "x" * 900_000)
            stuck = await Client.connect(broker)
            stuck._protocol.transport.pause_reading()
            for _ in range(40):
                stuck.send(fetch_request("t", 0, committed=False), 12)
            await until(lambda: len(broker.server.stalled) == 1)
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
