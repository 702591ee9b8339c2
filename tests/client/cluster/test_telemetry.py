"""Clients push their metrics: to a scripted broker in virtual time, and to a real one that shows them."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, CUT, NO_ANSWER, ScriptedBroker, run

from oncelog import Admin, Broker, Consumer, Producer, errors
from oncelog.client.cluster.telemetry import LAST_PUSH_S
from oncelog.core.exposition import exposition
from oncelog.errors import ErrorCode as E
from oncelog.wire.api import ApiKey
from oncelog.wire.compression import Codec, decompress
from oncelog.wire.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsResponse
from oncelog.wire.messages.push_telemetry import PushTelemetryResponse
from oncelog.wire.metrics_data import MetricKind, decode_metrics

ASK, PUSH = ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY
ID = bytes(range(16))
SENT = "org.apache.kafka.producer.record.send.total"
TAKEN = PushTelemetryResponse()


def subscription(**changes):
    wanted = {
        "client_instance_id": ID,
        "subscription_id": 7,
        "accepted_compression_types": [4, 3],
        "push_interval_ms": 10_000,
        "telemetry_max_bytes": 1_000_000,
        "requested_metrics": ["*"],
    }
    return GetTelemetrySubscriptionsResponse(**(wanted | changes))


def scripted(*pushes, asked=None):
    broker = ScriptedBroker()
    broker.takes_metrics = True
    broker.script(ASK, *(asked or [subscription()]))
    broker.script(PUSH, *(pushes or [TAKEN] * 20))
    return broker


def producer(broker, **config):
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, linger_ms=0, **config)


def points_of(push):
    data = decompress(push.compression_type, push.metrics, 1 << 20)
    return {point.name: point for point in decode_metrics(data, points_max=1_000, fields_max=100_000)}


def sent_of(broker):
    return [points_of(push)[SENT].value for push in broker.requests(PUSH)]


def test_pushes_come_every_interval_and_a_last_one_at_the_end():
    async def work():
        broker = scripted()
        async with producer(broker, transactional_id="x") as p:
            assert await p.client_instance_id() == "AAECAwQFBgcICQoLDA0ODw"
            async with p.transaction():
                await p.send("t", b"0", partition=0)
            await asyncio.sleep(26)
        first, *_, last = broker.requests(PUSH)
        assert (first.client_instance_id, first.subscription_id, first.compression_type) == (ID, 7, Codec.ZSTD)
        assert [push.terminating for push in broker.requests(PUSH)] in ([False] * 2 + [True], [False] * 3 + [True])
        found = points_of(last)[SENT]
        assert (found.value, found.kind) == (1, MetricKind.CUMULATIVE)
        assert found.attributes == (("transactional_id", "x"),)
        assert len(broker.requests(ASK)) == 1
        assert broker.requests(ASK)[0].client_instance_id == bytes(16)

    run(work)


def test_deltas_where_the_broker_wants_them():
    async def work():
        too_large = PushTelemetryResponse(error_code=E.TELEMETRY_TOO_LARGE)
        broker = scripted(TAKEN, too_large, *[TAKEN] * 10, asked=[subscription(delta_temporality=True)] * 2)
        async with producer(broker) as p:
            for _ in range(5):
                await p.send_and_wait("t", b"0", partition=0)
                await asyncio.sleep(15.01)
        values = sent_of(broker)
        assert 1 <= values[1] <= values[2], "what was refused is told again"
        assert points_of(broker.requests(PUSH)[0])[SENT].kind is MetricKind.DELTA
        assert sum(values) - values[1] == 5
        assert broker.requests(ASK)[1].client_instance_id == ID

    run(work)


def test_only_what_is_wanted_and_as_much_as_is_taken():
    async def work():
        wanted = {"requested_metrics": ["org.apache.kafka.producer."], "accepted_compression_types": []}
        broker = scripted(asked=[subscription(telemetry_max_bytes=400, **wanted)])
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            await asyncio.sleep(16)
        push = broker.requests(PUSH)[0]
        assert (push.compression_type, len(push.metrics) <= 400) == (Codec.NONE, True)
        assert next(iter(points_of(push))) == "org.apache.kafka.producer.connection.creation.total"

    run(work)


def test_a_changed_subscription_is_asked_for_at_once_and_the_id_stays():
    async def work():
        changed = PushTelemetryResponse(error_code=E.UNKNOWN_SUBSCRIPTION_ID)
        broker = scripted(changed, asked=[subscription(), subscription(subscription_id=8, requested_metrics=[])])
        async with producer(broker) as p:
            await asyncio.sleep(16)
            assert await p.client_instance_id() == "AAECAwQFBgcICQoLDA0ODw"
        assert [each.client_instance_id for each in broker.requests(ASK)] == [bytes(16), ID]
        assert len(broker.requests(PUSH)) == 1  # and nothing at the end: nothing is wanted any more

    run(work)


@pytest.mark.parametrize(
    "answer",
    [PushTelemetryResponse(error_code=E.INVALID_RECORD), CUT, NO_ANSWER, PushTelemetryResponse(error_code=999)],
    ids=["refused", "cut", "no answer", "unknown error"],
)
def test_a_push_that_fails_disturbs_nobody(answer):
    async def work():
        broker = scripted(answer)
        async with producer(broker, request_timeout_ms=2_000) as p:
            await asyncio.sleep(20)
            await p.send_and_wait("t", b"0", partition=0)
            await asyncio.sleep(40)
            await p.send_and_wait("t", b"1", partition=0)
            assert p.metrics().acknowledged_record_count == 2
        assert len(broker.requests(PUSH)) == 1

    run(work)


def test_the_end_waits_for_a_moment_only():
    async def work(loop):
        broker = scripted(TAKEN, NO_ANSWER)
        async with producer(broker):
            await asyncio.sleep(16)
            began = loop.time()
        assert broker.requests(PUSH)[-1].terminating
        assert loop.time() - began <= LAST_PUSH_S + 0.1

    run(work)


def test_who_takes_no_metrics_is_asked_nothing():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            with pytest.raises(errors.UnsupportedVersion, match="takes no metrics of clients"):
                await p.client_instance_id()
            await asyncio.sleep(400)
        assert broker.requests(ASK) == []

    run(work)


def test_it_can_be_switched_off():
    async def work():
        broker = scripted()
        async with producer(broker, enable_metrics_push=False) as p:
            with pytest.raises(errors.IllegalState, match="enable_metrics_push=True"):
                await p.client_instance_id()
            await asyncio.sleep(30)
        assert broker.requests(ASK) == []

    run(work)


def test_an_id_is_not_waited_for_for_ever():
    async def work():
        broker = scripted(asked=[NO_ANSWER])
        async with producer(broker) as p:
            with pytest.raises(errors.RequestTimedOut, match="within 100 ms"):
                await p.client_instance_id(timeout_ms=100)

    run(work)


def test_who_waits_for_an_id_hears_of_the_end():
    async def work():
        broker = scripted(asked=[NO_ANSWER])
        p = producer(broker)
        await p.start()
        waiting = asyncio.gather(p.client_instance_id(), return_exceptions=True)
        await asyncio.sleep(1)
        await p.stop()
        (found,) = await waiting
        assert isinstance(found, errors.IllegalState)

    run(work)


def test_a_cancelled_end_still_closes():
    async def work(loop):
        broker = scripted(TAKEN, NO_ANSWER)
        p = producer(broker)
        await p.start()
        await asyncio.sleep(16)
        stopping = asyncio.gather(p.stop())
        await asyncio.sleep(0.1)
        assert broker.requests(PUSH)[-1].terminating
        stopping.cancel()
        began = loop.time()
        await asyncio.gather(stopping, return_exceptions=True)
        assert p._cluster.is_closed
        assert loop.time() - began < LAST_PUSH_S

    run(work)


def test_no_connection_is_made_to_a_broker_that_takes_no_metrics():
    async def work():
        broker = scripted()
        broker.takes_metrics = False
        async with producer(broker) as p:
            before = sum(each.connection_count for each in p.metrics().brokers)
            with pytest.raises(errors.UnsupportedVersion):
                await p.client_instance_id()
            assert sum(each.connection_count for each in p.metrics().brokers) == before

    run(work)


def test_a_real_broker_shows_what_three_clients_push(tmp_path):
    async def work(broker):
        where = {"bootstrap_servers": broker.bootstrap_servers}
        async with Admin(**where, client_id="boss") as admin:
            change = {"metrics": "*", "interval.ms": "100"}
            await admin.alter_configs({("client-metrics", "all"): change})
            async with Producer(**where, client_id="p") as p, Consumer("t", **where, client_id="c", group_id="g") as c:
                await p.send_and_wait("t", b"0")
                ids = {await p.client_instance_id(), await c.client_instance_id()}
                assert len(ids | {await admin.client_instance_id()}) == 3
        return ids

    async def served():
        async with Broker(str(tmp_path), {"metrics.listen": "127.0.0.1:0"}) as broker:
            ids = await work(broker)
            text = exposition(broker.metrics.families())
            assert all(each in text for each in ids)
            assert f'{{metric="{SENT}",client_id="p",' in text

    asyncio.run(served())
