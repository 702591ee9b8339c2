"""A wall clock that a test steps: seen at once by a running broker, and kept over its restart."""

from __future__ import annotations

import asyncio
import time

import pytest

from evidence.chaos.stepped_broker import SteppedClock, step_to
from evidence.crash.broker_process import BrokerProcess
from evidence.crash.run import create_topics
from oncelog import Consumer, Producer, TopicPartition

HOUR_MS = 3_600_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.mark.parametrize("offset_ms", [0, 7 * HOUR_MS, -7 * HOUR_MS, 1])
def test_a_step_is_seen_at_once(tmp_path, offset_ms):
    path = tmp_path / "clock"
    step_to(path, 12)
    clock = SteppedClock(path)
    step_to(path, offset_ms)
    earliest = now_ms() + offset_ms
    assert earliest <= clock.now_ms() <= now_ms() + offset_ms


async def append_time_ms(bootstrap: str) -> int:
    """The time that the broker gives a record."""
    place = TopicPartition("crash.probe", 0)
    async with Producer(bootstrap_servers=bootstrap) as producer, Consumer(bootstrap_servers=bootstrap) as consumer:
        told = await (await producer.send("crash.probe", b"1", partition=0))
        consumer.assign([place])
        consumer.seek(place, told.offset)
        while True:
            for record in await consumer.poll(timeout_ms=1000):
                return record.timestamp_ms


@pytest.mark.slow
def test_a_broker_believes_its_clock(tmp_path):
    path = tmp_path / "clock"
    step_to(path, HOUR_MS)
    config = ("log.message.timestamp.type=LogAppendTime",)
    broker = BrokerProcess(tmp_path, ("evidence.chaos.stepped_broker", str(path)), config)
    try:
        broker.launch()
        broker.wait_ready()
        asyncio.run(create_topics(broker.bootstrap))
        begun_ms = now_ms()
        assert asyncio.run(append_time_ms(broker.bootstrap)) >= begun_ms + HOUR_MS
        step_to(path, -HOUR_MS)
        assert asyncio.run(append_time_ms(broker.bootstrap)) <= now_ms() - HOUR_MS
        broker.kill()
        broker.launch()
        broker.wait_ready()
        assert asyncio.run(append_time_ms(broker.bootstrap)) <= now_ms() - HOUR_MS
    finally:
        broker.kill()
