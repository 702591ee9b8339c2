"""Requests in order, replies in the same order, and what ends a connection."""

import asyncio
import struct

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, eventually, fetch_request, run

from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.schema import decode_message


def test_pipelined_replies_leave_in_request_order(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            sent = []
            for index in range(40):
                sent.append(client.send(client.produce_request("t", f"v{index}"), 12))
                sent.append(client.send(MetadataRequest(topics=[]), 12))
            received = [await client.receive() for _ in sent]
            assert [correlation_id for correlation_id, _ in received] == sent
            offsets = [reply.responses[0].partition_responses[0].base_offset for _, reply in received[::2]]
            assert offsets == list(range(40))

    run(work())


def test_many_syncs_are_shared(tmp_path):
    """Pipelined requests wait for one sync together: group commit."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "first")
            before = broker.flusher.sync_count
            for index in range(60):
                client.send(client.produce_request("t", f"v{index}"), 12)
            for _ in range(60):
                await client.receive()
            assert broker.flusher.sync_count - before < 20

    run(work())


def test_unknown_api_versions_version_is_answered_in_version_0(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            frame = b"".join(encode_request(ApiKey.API_VERSIONS, 3, 77, "c", ApiVersionsRequest()))
            client.send_bytes(frame[:6] + struct.pack(">h", 99) + frame[8:])
            answer = await client.frame()
            assert bytes(answer[:4]) == struct.pack(">i", 77)
            body = decode_message(ApiVersionsResponse, 0, answer[4:])
            assert body.error_code == ErrorCode.UNSUPPORTED_VERSION
            assert [(each.api_key, each.min_version, each.max_version) for each in body.api_keys] == [(18, 0, 4)]
            assert (await client.call(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE

    run(work())


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", -1),
        struct.pack(">i", 0),
        struct.pack(">i", 200_000_000),
        struct.pack(">ihhih", 10, 3, 99, 1, -1),  # Metadata version 99
        struct.pack(">ihhih", 10, 999, 0, 1, -1),  # no such API
        struct.pack(">ihhih", 10, 0, 2, 1, -1),  # Produce 2 is advertised for librdkafka's sake and not served
        struct.pack(">ihh", 4, 3, 12),  # ends within the header
        struct.pack(">ihhih", 10, 3, 0, 1, -1),  # ends within the body
    ],
    ids=["negative", "zero", "huge", "version", "key", "produce-2", "short-header", "short-body"],
)
def test_bad_bytes_end_only_their_own_connection(tmp_path, data):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            other = await Client.connect(broker)
            client.send_bytes(data)
            with pytest.raises(ConnectionClosed):
                await client.frame()
            assert (await other.call(ApiVersionsRequest(), 0)).error_code == ErrorCode.NONE
            other.close()

    run(work())


def test_bytes_after_a_request_are_ignored(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            frame = b"".join(encode_request(ApiKey.API_VERSIONS, 0, 5, "c", ApiVersionsRequest()))
            client.send_bytes(struct.pack(">i", len(frame) - 4 + 3) + frame[4:] + b"xyz")
            assert bytes((await client.frame())[:4]) == struct.pack(">i", 5)

    run(work())


def test_a_client_that_does_not_read_is_not_read_either(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            for _ in range(5000):
                client.send(MetadataRequest(topics=None), 12)
            (connection,) = [each for each in broker.server._connections if each.connection_id == 1]
            for _ in range(5000):
                await client.receive()
                assert len(connection._slots) <= 100

    run(work())


def test_connections_above_the_maximum_are_refused(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, max_connections=2) as (broker, client):
            await client.call(ApiVersionsRequest(), 0)
            second = await Client.connect(broker)
            await second.call(ApiVersionsRequest(), 0)
            third = await Client.connect(broker)
            with pytest.raises(ConnectionClosed):
                await third.frame()
            second.close()
            await client.call(ApiVersionsRequest(), 0)

    run(work())


def test_a_silent_connection_is_closed(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, connections_max_idle_ms=60) as (_, client):
            with pytest.raises(ConnectionClosed):
                await client.frame()

    run(work())


def test_acks_0_is_never_answered_and_an_error_closes(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            client.send(client.produce_request("t", "quiet", acks=0), 12)
            assert (await client.produce("t", "loud")).base_offset == 1
            client.send(client.produce_request("missing", "x", acks=0), 12)
            with pytest.raises(ConnectionClosed):
                await client.frame()

    run(work())


def test_stopping_answers_what_is_in_flight_and_ends_parked_fetches(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            parked = await Client.connect(broker)
            parked.send(fetch_request("t", 0, committed=True, wait_ms=60_000), 12)
            await eventually(lambda: is_parked(broker))
            client.send(client.produce_request("t", "last"), 12)
            _, reply = await client.receive()
            stopping = asyncio.ensure_future(broker.stop())
            assert reply.responses[0].partition_responses[0].error_code == ErrorCode.NONE
            await stopping

    async def is_parked(broker):
        await asyncio.sleep(0)
        return len(broker.server.tasks) == 1

    run(work())
