"""Lanes of a real broker: what was open before the window, budgets, what was deleted, what cannot be read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from oncelog import Admin, Producer
from oncelog.client.admin import lane_reading
from oncelog.client.admin.lane_reading import LaneReading
from oncelog.core.lanes.lane import ABORTED, COMMITTED
from oncelog.errors import UnknownTopicOrPartition
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


def with_admin(
    broker: TestBroker, topic: str, body: Callable[[Admin, Producer, TopicPartition], Awaitable[None]]
) -> None:
    async def main() -> None:
        async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            await admin.create_topics([(topic, 1)])
            producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"writer-of-{topic}")
            async with producer:
                await body(admin, producer, TopicPartition(topic, 0))

    asyncio.run(main())


async def transaction(producer: Producer, at: TopicPartition, *, commit: bool = True) -> None:
    producer.begin_transaction()
    await producer.send(at.topic, b"x" * 100, partition=at.partition)
    await producer.flush()
    await (producer.commit_transaction() if commit else producer.abort_transaction())


async def readable_up_to(admin: Admin, at: TopicPartition, offset: int) -> None:
    """A commit is answered before its markers are written."""
    while (await admin.list_offsets({at: "latest"}, isolation_level="read_committed"))[at].offset < offset:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def test_spans_of_a_topic_with_names_and_verdicts(broker: TestBroker) -> None:
    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        await transaction(producer, at)
        await transaction(producer, at, commit=False)
        producer.begin_transaction()
        await producer.send(at.topic, b"open", partition=0)
        await producer.flush()
        found = await admin.lanes(at.topic)
        (lane,) = found.lanes
        assert [each.outcome for each in lane.done] == [COMMITTED, ABORTED]
        (opened,) = found.open()
        assert found.name_of(opened.producer_id) == "writer-of-spans"
        assert (opened.judged.kind, opened.judged.deadline_ms is not None) == ("in progress", True)
        assert (lane.last_stable_offset, lane.high_watermark, lane.holder) == (4, 5, lane.open[opened.producer_id])
        assert found.to_arrow().num_rows == 3
        with pytest.raises(UnknownTopicOrPartition):
            await admin.lanes("no-such-topic")
        await producer.abort_transaction()

    with_admin(broker, "spans", body)


def test_what_was_open_before_the_window_begins_where_it_began(broker: TestBroker) -> None:
    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        producer.begin_transaction()
        await producer.send(at.topic, b"first", partition=0, timestamp_ms=1_700_000_000_000)
        await producer.flush()
        reading = LaneReading(admin)
        await reading.open([at], 1_000)
        lane = reading.lanes[at]
        (span,) = lane.open.values()
        assert (span.first_offset, span.begin_ms, span.is_whole) == (0, 1_700_000_000_000, False)
        await producer.commit_transaction()
        await readable_up_to(admin, at, 2)
        assert await reading.read() is True
        assert await reading.read() is False
        assert [(each.outcome, each.first_offset) for each in lane.done] == [(COMMITTED, 0)]
        reading.close([at])
        assert reading.lanes == {}

    with_admin(broker, "earlier", body)


def test_a_window_that_is_too_much_begins_later_and_says_so(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_reading, "FETCH_BYTES", 200)

    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        for _ in range(8):
            await transaction(producer, at)
        await readable_up_to(admin, at, 16)
        reading = LaneReading(admin, bytes_max=300)
        window_ms = 3_600_000
        await reading.open([at], window_ms)
        lane = reading.lanes[at]
        now_ms = admin._host.clock.now_ms()
        assert lane.complete_from_ms > now_ms - window_ms // 8, "it does not claim what it did not read"
        assert lane.next_offset == lane.high_watermark == 16
        await transaction(producer, at)
        await readable_up_to(admin, at, 18)
        while await reading.read():
            pass
        assert [each.first_offset for each in lane.done] == [16]

    with_admin(broker, "budget", body)


def test_deleted_records_and_missing_partitions_are_told(broker: TestBroker) -> None:
    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        await transaction(producer, at)
        reading = LaneReading(admin)
        missing = TopicPartition(at.topic, 7)
        await reading.open([at, missing], 60_000)
        assert reading.lanes[missing].error == "UNKNOWN_TOPIC_OR_PARTITION"
        lane = reading.lanes[at]
        lane.next_offset = 0
        for _ in range(3):
            await transaction(producer, at)
        await readable_up_to(admin, at, 8)
        await admin.delete_records({at: 4})
        await reading.read()
        assert (lane.next_offset, lane.error) == (4, None)
        await reading.read()
        assert lane.next_offset == lane.high_watermark

    with_admin(broker, "deleted", body)


def test_times_are_compared_with_the_arrival_of_what_comes_while_one_looks(broker: TestBroker) -> None:
    """What was there before may be of any time."""

    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        now_ms = admin._host.clock.now_ms()
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
            await plain.send(at.topic, b"x", partition=0, timestamp_ms=now_ms - 600_000)
            await plain.flush()
            reading = LaneReading(admin)
            await reading.open([at], 3_600_000)
            lane = reading.lanes[at]
            assert (lane.next_offset, lane.clock_off) == (1, None)
            await plain.send(at.topic, b"x", partition=0, timestamp_ms=now_ms - 120_000)
            await plain.flush()
            while not await reading.read():
                pass
        assert lane.clock_off is not None
        arrived_ms, producer_id, off_ms = lane.clock_off
        assert (arrived_ms + off_ms, producer_id >= 0) == (now_ms - 120_000, True)

    with_admin(broker, "clocks", body)
