"""A window of the past on a real broker: what was open then, what is found beside the window, budgets, what was deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog import Admin, Producer
from oncelog.client.admin import lane_reading
from oncelog.client.admin.past_reading import PastReading
from oncelog.core.lanes.lane import ABORTED, COMMITTED, OPEN
from oncelog.core.lanes.past import PastLane, Window
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from tests.client.admin.test_lane_reading import readable_up_to, with_admin

MINUTE = 60_000


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


async def written(producer: Producer, at: TopicPartition, ms: int) -> None:
    await producer.send(at.topic, b"x" * 50, partition=0, timestamp_ms=ms)
    await producer.flush()


async def every_minute(producer: Producer, at: TopicPartition, from_ms: int, count: int) -> None:
    for number in range(count):
        await written(producer, at, from_ms + number * MINUTE)


def test_what_was_aborted_is_known_before_its_marker_is_read(
    broker: TestBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lane_reading, "FETCH_BYTES", 200)

    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        now_ms = admin._host.clock.now_ms()
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
            producer.begin_transaction()
            await written(producer, at, now_ms - 40 * MINUTE)
            await every_minute(plain, at, now_ms - 20 * MINUTE, 20)
            await producer.abort_transaction()
        await readable_up_to(admin, at, 22)
        lane = await look(admin, at, now_ms - 18 * MINUTE, bytes_max=400)
        assert [lane.became(each) for each in lane.open_then] == ["aborted later than was read"]
        assert (lane.last_stable_offset, lane.is_read_to_end) == (0, False)

    with_admin(broker, "aborted-later", body)


def test_a_lane_is_read_by_one_at_a_time(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """On to the window's end, and only then behind it: both go on from where the lane is."""
    reading = PastReading.read
    busy: set[PastReading] = set()
    overlaps: list[list[TopicPartition]] = []

    async def watched(self: PastReading, left: list[TopicPartition]) -> bool:
        if self in busy:
            overlaps.append(left)
        busy.add(self)
        try:
            return await reading(self, left)
        finally:
            busy.discard(self)

    monkeypatch.setattr(PastReading, "read", watched)
    monkeypatch.setattr(lane_reading, "FETCH_BYTES", 200)

    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        now_ms = admin._host.clock.now_ms()
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
            await every_minute(plain, at, now_ms - 20 * MINUTE, 20)
        lane = await look(admin, at, now_ms - 10 * MINUTE)
        assert lane.is_read_to_end
        assert not overlaps, "nobody else reads meanwhile"

    with_admin(broker, "one-at-a-time", body)


async def look(
    admin: Admin, at: TopicPartition, at_ms: int, width_ms: int = 4 * MINUTE, bytes_max: int = 64 << 20
) -> PastLane:
    reading = PastReading(admin, bytes_max=bytes_max)
    window = Window(at_ms - width_ms // 2, at_ms, at_ms + width_ms // 2)
    return (await reading.open_past([at], window))[at]


def test_what_was_open_then_and_what_became_of_it(broker: TestBroker) -> None:
    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        now_ms = admin._host.clock.now_ms()
        producer.begin_transaction()
        await written(producer, at, now_ms - 30 * MINUTE)
        options = {"bootstrap_servers": broker.bootstrap_servers, "transactional_id": "other"}
        async with Producer(**options) as other, Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
            other.begin_transaction()
            await written(plain, at, now_ms - 25 * MINUTE)
            await written(other, at, now_ms - 20 * MINUTE)
            await written(plain, at, now_ms - 15 * MINUTE)
            await other.commit_transaction()
            begin = await look(admin, at, now_ms - 29 * MINUTE)
            (span,) = begin.open_then
            assert (begin.at_offset, begin.end_offset, begin.last_stable_offset, span.outcome) == (1, 1, 0, OPEN)
            assert begin.became(span) == "open to this day"
            middle = await look(admin, at, now_ms - 19 * MINUTE)
            assert [(each.first_offset, each.outcome) for each in middle.open_then] == [(0, OPEN), (2, COMMITTED)]
            assert (middle.last_stable_offset, middle.blocked, middle.is_read_to_end) == (0, 3, True)
            assert middle.open_then[0].begin_ms == now_ms - 30 * MINUTE
            await producer.abort_transaction()
            await readable_up_to(admin, at, 6)
            after = await look(admin, at, now_ms - 19 * MINUTE)
            assert [(each.first_offset, each.outcome) for each in after.open_then] == [(0, ABORTED), (2, COMMITTED)]
            assert (after.last_stable_offset, after.blocked, after.open_then[0].producer_epoch >= 0) == (0, 3, True)

    with_admin(broker, "then", body)


def test_the_way_to_the_moment_is_too_much(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lane begins nearer to the moment, and what was not read behind it is said."""
    monkeypatch.setattr(lane_reading, "FETCH_BYTES", 200)

    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        now_ms = admin._host.clock.now_ms()
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
            await every_minute(plain, at, now_ms - 40 * MINUTE, 20)
            producer.begin_transaction()
            await written(producer, at, now_ms - 15 * MINUTE)
            await every_minute(plain, at, now_ms - 10 * MINUTE, 10)
            await producer.commit_transaction()
        await readable_up_to(admin, at, 32)
        lane = await look(admin, at, now_ms - 14 * MINUTE, 52 * MINUTE, bytes_max=400)
        assert now_ms - 40 * MINUTE < lane.complete_from_ms < now_ms - 14 * MINUTE
        assert (lane.error, lane.at_offset, lane.is_read_to_end) == (None, 21, False)
        assert [each.first_offset for each in lane.open_then] == [20]
        assert lane.became(lane.open_then[0]) == "open as far as was read"
        whole = await look(admin, at, now_ms - 14 * MINUTE, 52 * MINUTE)
        assert (whole.complete_from_ms, whole.is_read_to_end) == (now_ms - 40 * MINUTE, True)
        assert [each.outcome for each in whole.open_then] == [COMMITTED]

    with_admin(broker, "much", body)


def test_what_was_deleted_and_what_is_not_there(broker: TestBroker) -> None:
    async def body(admin: Admin, producer: Producer, at: TopicPartition) -> None:
        now_ms = admin._host.clock.now_ms()
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as plain:
            await every_minute(plain, at, now_ms - 40 * MINUTE, 4)
        whole = await look(admin, at, now_ms - 39 * MINUTE)
        assert (whole.error, whole.deleted_text) == (None, ""), "a log that begins there has lost nothing"
        await admin.delete_records({at: 2})
        part = await look(admin, at, now_ms - 37 * MINUTE)
        assert (part.error, part.complete_from_ms) == (None, now_ms - 38 * MINUTE)
        gone = await look(admin, at, now_ms - 39 * MINUTE)
        assert gone.error == "OFFSET_OUT_OF_RANGE"
        assert gone.error_text.startswith("what lay before offset 2 was deleted; the first that is left is of ")
        await admin.delete_records({at: 4})
        assert (await look(admin, at, now_ms - 39 * MINUTE)).error_text == "what lay before offset 4 was deleted"
        missing = TopicPartition(at.topic, 7)
        assert (await look(admin, missing, now_ms)).error == "UNKNOWN_TOPIC_OR_PARTITION"

    with_admin(broker, "gone", body)
