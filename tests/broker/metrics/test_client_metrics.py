"""Clients push metrics over a socket: subscriptions from configs, refusals, bounds, and what /metrics shows (KIP-714)."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, run

from oncelog.broker.metrics.client_metrics import FIELDS_MAX
from oncelog.core.exposition import exposition
from oncelog.errors import ErrorCode as E
from oncelog.wire.api import ApiKey
from oncelog.wire.compression import Codec, compress
from oncelog.wire.frame import decode_response, encode_request
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.push_telemetry import PushTelemetryRequest
from oncelog.wire.metrics_data import DataPoint, MetricKind, encode_metrics
from tests.broker.metrics.held_worker import held
from tests.broker.metrics.limits_world import shows

CLIENT_METRICS = 16
SET, DELETE = 0, 1
SENT = "org.apache.kafka.producer.record.send.total"
POINTS = [
    DataPoint(SENT, 41, MetricKind.CUMULATIVE),
    DataPoint("org.apache.kafka.producer.node.request.latency.avg", 1.5, MetricKind.GAUGE, (("node_id", 'a"b'),)),
]


async def subscribe(client, name="all", **configs):
    changes = [
        AlterableConfig(name=key.replace("_", "."), value=value, config_operation=DELETE if value is None else SET)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=changes)
    reply = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    return E(reply.responses[0].error_code)


def push_of(asked, points=POINTS, codec=Codec.ZSTD, **changes):
    data = compress(codec, encode_metrics(points, (("group_id", "g"),), 0, 1))
    sent = {
        "client_instance_id": asked.client_instance_id,
        "subscription_id": asked.subscription_id,
        "compression_type": codec,
        "metrics": data,
    }
    return PushTelemetryRequest(**(sent | changes))


async def ask(client, instance_id=bytes(16)):
    return await client.call(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id))


async def push(client, asked, **changes):
    return E((await client.call(push_of(asked, **changes))).error_code)


NEW = GetTelemetrySubscriptionsRequest()
NAN = DataPoint("n", float("nan"))


def lines(broker):
    shown = exposition(broker.metrics.families())
    return [line for line in shown.splitlines() if line.startswith(("oncelog_client_counter", "oncelog_client_gauge"))]


def test_from_the_subscription_to_the_page(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            nothing = await ask(client)
            assert (nothing.error_code, nothing.requested_metrics, nothing.push_interval_ms) == (E.NONE, [], 300_000)
            assert (await ask(client, nothing.client_instance_id)).error_code == E.THROTTLING_QUOTA_EXCEEDED
            wanted = {"metrics": "org.apache.kafka.producer.", "interval_ms": "60000"}
            assert await subscribe(client, **wanted, match="client_software_name=me,client_id=test") is E.NONE
            other = await ask(client, nothing.client_instance_id)
            assert (other.error_code, other.requested_metrics) == (E.NONE, [])  # it has not told its software
            await client.call(ApiVersionsRequest(client_software_name="me", client_software_version="1"))
            asked = await ask(client)
            assert asked.requested_metrics == ["org.apache.kafka.producer."]
            assert (asked.push_interval_ms, asked.telemetry_max_bytes) == (60_000, 1_048_576)
            assert (asked.accepted_compression_types, asked.delta_temporality) == ([4, 3, 1, 2], False)
            assert lines(broker) == []
            assert await push(client, asked) is E.NONE
            found = {line.partition("{")[0] + " " + line.rpartition(" ")[2] for line in lines(broker)}
            assert found == {"oncelog_client_counter_total 41", "oncelog_client_gauge 1.5"}
            (gauge,) = [line for line in lines(broker) if "gauge" in line]
            assert 'attributes="group_id=g,node_id=a\\"b"' in gauge
            assert 'client_id="test"' in gauge
            assert await push(client, asked) is E.THROTTLING_QUOTA_EXCEEDED
            assert await push(client, asked, terminating=True, points=[DataPoint(SENT, 50)]) is E.NONE
            assert await push(client, asked) is E.INVALID_REQUEST
            assert broker.metrics.count("client_pushes") == 2
            assert broker.metrics.count("client_metrics_throttled") == 2

    run(work())


@pytest.mark.parametrize(("listen", "is_told"), [("", set()), ("127.0.0.1:0", {71, 72})])
def test_clients_are_told_where_the_numbers_can_be_seen(tmp_path, listen, is_told):
    """Else librdkafka prints a line about its instance id for each client, for nothing."""

    async def work():
        async with broker_and_client(tmp_path, metrics_listen=listen) as (_, client):
            answer = await client.call(ApiVersionsRequest(client_software_name="me", client_software_version="1"))
            assert {each.api_key for each in answer.api_keys} & {71, 72} == is_told

    run(work())


def test_a_page_is_served_whatever_clients_say(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            request = b"".join(encode_request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 1, "????", NEW))
            other = await Client.connect(broker)
            other.send_bytes(request.replace(b"????", b"\xff\xed\xa0\x80"))
            header, asked = decode_response(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, await other.frame())
            assert (header, asked.error_code) == (1, E.NONE)
            request = b"".join(encode_request(ApiKey.PUSH_TELEMETRY, 0, 2, "????", push_of(asked, [NAN])))
            other.send_bytes(request.replace(b"????", b"\xff\xed\xa0\x80"))
            await other.frame()
            (line,) = lines(broker)
            assert line.endswith(" NaN")
            assert line.encode()
            other.close()

    run(work())


def test_subscriptions_outlive_a_restart_and_their_removal_is_heard(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await subscribe(client, metrics="*", interval_ms="1000")
        async with broker_and_client(tmp_path) as (broker, client):
            asked = await ask(client)
            assert asked.requested_metrics == ["*"]
            assert await push(client, asked) is E.NONE
            await subscribe(client, metrics=None, interval_ms=None)
            assert await push(client, asked) is E.UNKNOWN_SUBSCRIPTION_ID
            assert (await ask(client, asked.client_instance_id)).requested_metrics == []
            assert broker.metrics.count("client_subscriptions_unknown") == 1

    run(work())


def test_a_pattern_that_cannot_be_read_is_refused(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            unreadable = "client_id=(", "client_id", "client_id=", "who=a", "client_id=a=b", "client_id=(?=a)"
            for match in (*unreadable, "client_id=a==,"):
                assert await subscribe(client, match=match) is E.INVALID_CONFIG, match
            assert await subscribe(client, match="client_id=a==") is E.NONE

    run(work())


def test_what_cannot_be_read(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, metrics_listen="") as (broker, client):
            for changes, error in (
                ({"client_instance_id": bytes(16)}, E.INVALID_REQUEST),
                ({"client_instance_id": bytes(15) + b"\x01"}, E.INVALID_REQUEST),
                ({"metrics": b"\x0b"}, E.INVALID_RECORD),
                ({"compression_type": 0, "metrics": b"\x0b"}, E.INVALID_RECORD),
                ({"compression_type": 7}, E.UNSUPPORTED_COMPRESSION_TYPE),
                ({"metrics": b""}, E.NONE),
            ):
                assert await push(client, await ask(client), **changes) is error, changes
            assert broker.metrics.count("client_push_failures") == 2
            asked = await ask(client)
            other = await Client.connect(broker)
            assert await push(other, asked) is E.NONE  # by another connection
            other.close()

    run(work())


@shows("telemetry.max.bytes", "oncelog.telemetry.max.decompressed.bytes")
def test_pushes_are_bounded(tmp_path):
    async def work():
        config = {"telemetry_max_bytes": 200, "oncelog_telemetry_max_decompressed_bytes": 1_000}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            assert (await ask(client)).telemetry_max_bytes == 200
            assert await push(client, await ask(client), metrics=bytes(201)) is E.TELEMETRY_TOO_LARGE
            assert broker.metrics.limit_hits("telemetry.max.bytes") == 1
            many = [DataPoint("a", 1)] * 50
            assert await push(client, await ask(client), points=many) is E.TELEMETRY_TOO_LARGE
            assert broker.metrics.limit_hits("oncelog.telemetry.max.decompressed.bytes") == 1
            assert await push(client, await ask(client)) is E.NONE

    run(work())


def test_fields_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            empty = compress(Codec.ZSTD, b"\x10\x00" * (FIELDS_MAX + 1))
            assert await push(client, await ask(client), metrics=empty) is E.TELEMETRY_TOO_LARGE
            assert broker.metrics.limit_hits("oncelog.telemetry.max.decompressed.bytes") == 1

    run(work())


MANY = [DataPoint(f"number.{index}", index) for index in range(100)]


@pytest.fixture
def reading(monkeypatch):
    """What is read beside the loop waits until this is set."""
    return held(monkeypatch)


def test_nobody_waits_while_a_push_of_many_numbers_is_read(tmp_path, reading):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            large = [await Client.connect(broker) for _ in range(2)]
            waiting = [asyncio.ensure_future(push(each, await ask(each), points=MANY)) for each in large]
            assert await push(client, await ask(client)) is E.NONE
            assert await push(client, await ask(client), metrics=bytes(3000)) is E.INVALID_RECORD
            assert not any(each.done() for each in waiting)
            assert len(lines(broker)) == 2
            reading.set()
            assert await asyncio.gather(*waiting) == [E.NONE, E.NONE]
            assert len(lines(broker)) == 202
            for each in large:
                each.close()

    run(work())


def test_a_client_that_is_forgotten_or_goes_while_its_push_is_read_leaves_nothing(tmp_path, reading):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_client_instances=1) as (broker, client):
            forgotten, gone = [await Client.connect(broker) for _ in range(2)]
            waiting = asyncio.ensure_future(push(forgotten, await ask(forgotten), points=MANY))
            await ask(client)  # in its place
            asked = await ask(gone)
            gone.send(push_of(asked, MANY))
            await ask(client)
            gone.close()
            reading.set()
            assert await waiting is E.NONE
            assert await push(client, await ask(client)) is E.NONE
            assert len(lines(broker)) == 2
            forgotten.close()

    run(work())


@shows("oncelog.max.client.metrics.series", "oncelog.max.client.instances")
def test_what_is_shown_is_bounded(tmp_path):
    async def work():
        config = {"oncelog_max_client_metrics_series": 3, "oncelog_max_client_instances": 2}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            assert await push(client, await ask(client)) is E.NONE
            assert await push(client, await ask(client)) is E.NONE
            assert len(lines(broker)) == 3
            assert broker.metrics.limit_hits("oncelog.max.client.metrics.series") == 1
            assert await push(client, await ask(client)) is E.NONE  # the first one is forgotten
            assert len(lines(broker)) == 3
            four = [DataPoint(str(index), 1) for index in range(4)]
            assert await push(client, await ask(client), points=four) is E.TELEMETRY_TOO_LARGE

    run(work())
