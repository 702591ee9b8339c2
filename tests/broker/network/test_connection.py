"""Requests in order, replies in the same order, and what ends a connection."""

import asyncio
import struct

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, eventually, fetch_request, run
from evidence.world.network import feed

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.connection import Connection, new_stage
from oncelog.broker.network.connection_limits import Admission, limits_of
from oncelog.broker.requests.request import CloseConnection, Later
from oncelog.errors import ErrorCode
from oncelog.host.tasks import Tasks
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
        async with broker_and_client(tmp_path, connections_max_idle_ms=60) as (broker, client):
            with pytest.raises(ConnectionClosed):
                await client.frame()
            assert broker.metrics.count("connections_closed_idle") == 1

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


class Owner:
    """A server with one connection; every request is answered later, by the test."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.tasks = Tasks()
        self.stalled, self.unsent = {}, {}
        self.queued_count = 0
        self.stage = new_stage()
        self.begun: list[Later] = []
        self.lines = 0

    def serves(self, _key, _version):
        return True

    def handle(self, request):
        self.begun.append(Later(keeps_turn=request.api_key is ApiKey.METADATA))
        return self.begun[-1]

    def accepted(self, _connection):
        return Admission()

    def lost(self, _connection):
        return None

    def note_for_log(self):
        self.lines += 1
        return ""


class Transport(asyncio.Transport):
    """The system takes everything at once; an abort is told to the connection later, as by a loop."""

    is_aborted = False

    def set_write_buffer_limits(self, high=None, low=None):
        return None

    def write(self, data):
        assert not self.is_aborted

    def abort(self):
        self.is_aborted = True


def connected(owner: Owner) -> Connection:
    connection = Connection(owner, 1, limits_of(BrokerConfig()))
    connection.connection_made(Transport())
    return connection


def frames(*messages) -> bytes:
    return b"".join(b"".join(encode_request(ApiKey(each.KEY), 0, 1, "c", each)) for each in messages)


def test_what_a_lost_client_had_queued_takes_no_room_of_others():
    """queued.max.requests is for all connections: were it counted on, nobody would be read any more in the end."""

    async def work():
        owner = Owner()
        connection = connected(owner)
        feed(connection, frames(MetadataRequest(topics=[]), ApiVersionsRequest(), ApiVersionsRequest()))
        assert (len(owner.begun), owner.queued_count) == (1, 2)
        connection.connection_lost(None)
        assert owner.queued_count == 0

    run(work())


def test_what_is_behind_a_refusal_is_neither_answered_nor_refused_again():
    async def work():
        owner = Owner()
        connection = connected(owner)
        feed(connection, frames(*[ApiVersionsRequest()] * 4))
        first, second, third, last = owner.begun
        second.give(CloseConnection("the first reason"))
        third.give(CloseConnection("another"))
        last.give(ApiVersionsResponse())
        first.give(ApiVersionsResponse())
        await asyncio.sleep(0)
        assert (owner.metrics.count("malformed_requests"), owner.lines) == (1, 1)
        connection.refuse("a third one")
        assert owner.lines == 1

    run(work())
