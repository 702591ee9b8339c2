"""What clients count, and when they tell it."""

from __future__ import annotations

import asyncio
import json

import pytest
from evidence.world.client import BOOTSTRAP, CUT, ScriptedBroker, run

from oncelog import Consumer, Producer, TopicPartition, errors
from oncelog.client.traffic import BROKERS_MAX, TrafficByBroker
from oncelog.errors import ErrorCode
from oncelog.types import Node
from oncelog.wire.api import ApiKey
from oncelog.wire.record_batch import build_batch

WHERE = TopicPartition("t", 0)


def producer(broker, **config):
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, **{"linger_ms": 0, **config})


def consumer(broker, **config):
    return Consumer(host=broker.host(), bootstrap_servers=BOOTSTRAP, **config)


def test_a_producer_counts_records_batches_and_transactions():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x", linger_ms=10_000) as p:
            async with p.transaction():
                await p.send("t", b"0", partition=0)
                await p.send("t", b"1", partition=0)
                waiting = p.metrics()
                assert (waiting.incomplete_record_count, waiting.acknowledged_record_count) == (2, 0)
                assert waiting.buffered_bytes > 0
                assert waiting.transaction_state == "IN_TRANSACTION"
            p.begin_transaction()
            await p.send("t", b"2", partition=0)
            await p.abort_transaction()
            found = p.metrics()
        assert (found.acknowledged_record_count, found.acknowledged_batch_count) == (2, 1)
        assert found.acknowledged_bytes == len(broker.log["t", 0][0].data)
        assert (found.failed_record_count, found.incomplete_record_count, found.buffered_bytes) == (1, 0, 0)
        assert (found.committed_transaction_count, found.aborted_transaction_count) == (1, 1)
        assert found.transaction_state == "READY"

    run(work)


def test_retries_purges_and_lost_connections_are_counted():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, ErrorCode.NOT_ENOUGH_REPLICAS, CUT)
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.delay_s[ApiKey.PRODUCE] = 10
            await p.send("t", b"1", partition=0)
            await asyncio.sleep(1)
            assert p.metrics().requests_in_flight_count == 1
            p.purge()
            found = p.metrics()
            assert (found.retry_count, found.failed_record_count, found.acknowledged_record_count) == (2, 1, 1)
            (leader,) = [each for each in found.brokers if each.node_id == 1]
            assert leader.address == "broker:9092"
            assert (leader.connection_count, leader.unanswered_count) == (2, 1)
            assert leader.request_count == leader.response_count + leader.unanswered_count + 1
            assert leader.sent_bytes > 0 < leader.received_bytes
            assert 0 < leader.latency_max_ms <= leader.latency_sum_ms

    run(work)


def test_two_phase_commits_count_as_what_they_became():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x", transaction_two_phase_commit_enable=True) as p:
            p.begin_transaction()
            await p.send("t", b"0", partition=0)
            await p.complete_transaction(await p.prepare_transaction())
            p.begin_transaction()
            await p.send("t", b"0", partition=0)
            await p.prepare_transaction()
            await p.complete_transaction(type(p.prepared_state)())
            found = p.metrics()
        assert (found.committed_transaction_count, found.aborted_transaction_count) == (1, 1)

    run(work)


def test_a_consumer_counts_and_knows_its_lag():
    async def work():
        broker = ScriptedBroker()
        for n in range(3):
            broker.append("t", 0, build_batch([(0, None, b"%d" % n, ())]))
        async with consumer(broker, client_id="me") as c:
            c.assign([WHERE])
            assert c.metrics().partitions[0].readable_lag is None
            c.seek(WHERE, 0)
            assert len(await c.poll(max_records=1)) == 1
            found = c.metrics()
            assert (found.client_id, found.delivered_record_count) == ("me", 1)
            assert found.fetched_bytes == sum(len(batch.data) for batch in broker.log["t", 0])
            (partition,) = found.partitions
            assert (partition.topic, partition.position, partition.high_watermark) == ("t", 1, 3)
            assert (partition.readable_lag, partition.is_paused) == (2, False)
            assert (await c.poll_arrow()).num_rows == 2
            assert c.metrics().delivered_record_count == 3
            assert c.metrics().partitions[0].readable_lag == 0
            json.dumps(c.metrics().as_dict())

    run(work)


@pytest.mark.parametrize("make", [producer, consumer])
def test_statistics_come_when_they_are_due(make):
    async def work(loop):
        broker, told = ScriptedBroker(), []
        async with make(broker, stats_cb=lambda found: told.append((loop.time(), found)), statistics_interval_ms=1000):
            started = loop.time()
            await asyncio.sleep(3.5)
        await asyncio.sleep(10)
        assert [round(at - started) for at, _ in told] == [1, 2, 3]
        assert json.loads(json.dumps(told[0][1].as_dict()))["client_id"] == "oncelog"

    run(work)


def test_a_callback_that_raises_does_not_stop_the_client():
    async def work(loop):
        broker, count = ScriptedBroker(), 0

        def callback(_):
            nonlocal count
            count += 1
            raise ZeroDivisionError

        async with producer(broker, stats_cb=callback, statistics_interval_ms=1000) as p:
            await asyncio.sleep(2.5)
            await p.send_and_wait("t", b"v", partition=0)
        assert count == 2
        assert [type(each["exception"]) for each in loop.errors] == [ZeroDivisionError] * 2
        loop.errors.clear()

    run(work)


def test_without_an_interval_nothing_is_told():
    async def work():
        told = []
        async with producer(ScriptedBroker(), stats_cb=told.append):
            await asyncio.sleep(100)
        assert told == []

    run(work)


def test_options_are_checked():
    with pytest.raises(errors.ConfigurationError, match="stats_cb='x': expected a function"):
        Producer(stats_cb="x")
    with pytest.raises(errors.ConfigurationError, match="statistics_interval_ms=-1"):
        Consumer.from_config({"statistics.interval.ms": "-1"})


def test_brokers_that_come_and_go_are_forgotten():
    traffic = TrafficByBroker()
    for n in range(BROKERS_MAX + 1):
        traffic.of(Node(n, "h", 1)).request_count += 1
    found = traffic.snapshot()
    assert (len(found), found[0].node_id, found[-1].node_id) == (BROKERS_MAX, 1, BROKERS_MAX)
