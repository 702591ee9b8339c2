"""Lanes as JSON: whole answers, what changed since a version, joined spans, numbers that JavaScript cannot hold."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from oncelog.cli.command import Settings
from oncelog.client.admin.transaction_listing import ProducerDescription
from oncelog.client.cluster.view import PartitionView, TopicView
from oncelog.console import answers
from oncelog.console.answers import exact, lanes_answer
from oncelog.console.long_look import Progress
from oncelog.console.watch import PARTITIONS_PER_VIEW, View, Watch, view_of
from oncelog.core.lanes.lane import Lane
from oncelog.errors import Network, RequestTimedOut
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition
from tests.core.lanes.test_lane import data, marker

AT = TopicPartition("orders", 0)


def watching(lane: Lane, partitions: int = 1) -> Watch:
    watch = Watch(Settings(), cast("Any", contextlib.nullcontext))
    view = TopicView("orders", bytes(16), False, 0, {n: PartitionView(n, 1, 0) for n in range(partitions)})
    internal = TopicView("__offsets", bytes(16), True, 0, {0: PartitionView(0, 1, 0)})
    watch.topics = {"__offsets": internal, "orders": view}
    watch.reading = cast("Any", SimpleNamespace(lanes={AT: lane}, version=7))
    watch.seen = {AT: 3_600_000}
    return watch


class Away:
    """A broker that nobody reaches, or that is slow: how it fails each time, and how long one was ready to wait."""

    def __init__(self, *errors: Exception | None) -> None:
        self.errors, self.waited_ms = list(errors), list[int | None]()
        self.is_standing_still = False

    async def list_topics(self, *, include_internal: bool, timeout_ms: int | None = None) -> dict[str, Any]:
        self.waited_ms.append(timeout_ms)
        if (error := self.errors.pop(0)) is not None:
            raise error
        return {}

    async def describe_cluster(self) -> None:
        if self.is_standing_still:
            raise RequestTimedOut("describe the cluster: not done")


def test_only_a_broker_that_answers_slowly_is_given_more_time() -> None:
    """One that was away was "being read" for half a minute."""
    away, slow = RequestTimedOut("not done"), RequestTimedOut("not done")
    away.__cause__ = Network("cannot connect")

    async def main() -> None:
        watch = Watch(Settings(), cast("Any", contextlib.nullcontext))
        gone, late = Away(away), Away(slow, None)
        with pytest.raises(RequestTimedOut):
            await watch.known_topics(cast("Any", gone))
        assert gone.waited_ms == [None]
        still = Away(slow)
        still.is_standing_still = True
        with pytest.raises(RequestTimedOut, match="describe the cluster"):
            await watch.known_topics(cast("Any", still))
        assert still.waited_ms == [None]
        assert await watch.known_topics(cast("Any", late)) == {}
        assert late.waited_ms == [None, 30_000]
        await watch.tasks.close()

    asyncio.run(main())


def busy(count: int) -> Lane:
    now_ms = RealClock().now_ms()
    lane = Lane(AT, 0, 0)
    for n in range(count):
        lane.take(data(2 * n, 5, now_ms - 1000 + n), version=n)
        lane.take(marker(2 * n + 1, 5, now_ms - 1000 + n), version=n)
    lane.take(data(2 * count, 6, now_ms), version=count)
    lane.log_start_offset, lane.last_stable_offset, lane.high_watermark = 0, 2 * count, 2 * count + 1
    return lane


def test_a_later_answer_has_only_what_changed_and_all_that_is_open() -> None:
    watch = watching(busy(3))
    whole = lanes_answer(watch, View())
    assert whole["is_whole"] is True
    assert whole["partitions"][0]["spans"]["outcome"] == [1, 1, 1, 0]
    later = lanes_answer(watch, View(), since_version=1)
    assert later["is_whole"] is False
    assert later["partitions"][0]["spans"]["first"] == [4, 6]
    assert (later["version"], later["open"][0]["letter"]) == (7, "A")
    assert msgspec.json.decode(msgspec.json.encode(later)) == later


def test_too_many_spans_are_joined_and_none_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "SPANS_MAX", 10)
    spans = lanes_answer(watching(busy(50)), View())["partitions"][0]["spans"]
    assert len(spans["merged"]) < 10
    assert sum(spans["merged"]) == 51


def test_numbers_beyond_two_to_the_53_are_text() -> None:
    assert [exact(each) for each in (None, 5, 1 << 53, (1 << 53) - 1)] == [None, 5, "9007199254740992", (1 << 53) - 1]


def test_a_view_is_bounded_and_says_what_it_leaves_out() -> None:
    watch = watching(busy(1), partitions=PARTITIONS_PER_VIEW + 5)
    assert len(watch.partitions_of(View())) == PARTITIONS_PER_VIEW
    assert lanes_answer(watch, View())["left_out"] == 5
    assert watch.partitions_of(View(("orders",), (3,))) == [TopicPartition("orders", 3)]
    assert watch.partitions_of(View(("no-such-topic",))) == []
    assert view_of("a,b", "1,2", "30000") == View(("a", "b"), (1, 2), 30_000)


def test_what_is_held_back_is_shown_before_what_comes_first_by_name() -> None:
    """Of 1,303 partitions the first 20 by name were shown, with "Nobody is stopped" beside two that were."""
    watch = watching(busy(1), partitions=PARTITIONS_PER_VIEW + 5)
    last, elsewhere = TopicPartition("orders", PARTITIONS_PER_VIEW + 4), TopicPartition("gone", 0)
    watch.held = (last, elsewhere)
    shown = watch.partitions_of(View())
    assert (len(shown), shown[0], shown[-1]) == (PARTITIONS_PER_VIEW, TopicPartition("orders", 0), last)
    assert last not in watch.partitions_of(View(("orders",), tuple(range(PARTITIONS_PER_VIEW + 2))))
    assert lanes_answer(watch, View())["verdict"].endswith("; 5 more are not shown")


def test_held_back_is_what_was_open_before_or_is_quiet() -> None:
    class Asked:
        async def describe_producers(self, partitions: list[TopicPartition], **_: Any) -> dict[TopicPartition, Any]:
            now_ms = RealClock().now_ms()
            quiet = ProducerDescription(1, 0, 0, now_ms - 60_000, 0, 7)
            young = ProducerDescription(2, 0, 0, now_ms, 0, 9)
            done = ProducerDescription(3, 0, 0, now_ms - 60_000, 0, None)
            return dict(zip(partitions, ([quiet], [young], [done]), strict=True))

    watch = watching(busy(1), partitions=3)
    admin: Any = Asked()
    first = asyncio.run(watch._held_of(admin, [watch.topics["orders"]], Progress()))
    assert first == (TopicPartition("orders", 0),), "a healthy system always has some that are open"
    second = asyncio.run(watch._held_of(admin, [watch.topics["orders"]], Progress()))
    assert second == (TopicPartition("orders", 0), TopicPartition("orders", 1))


def test_what_is_left_out_is_of_the_page_that_asks() -> None:
    """One number was shared: a page said that partitions are not shown that another browser's page leaves out."""
    watch = watching(Lane(AT, 0, 0), partitions=PARTITIONS_PER_VIEW + 3)
    mine, others = View(("orders",), (0,)), View()
    with watch.watched(mine), watch.watched(others):
        assert lanes_answer(watch, mine)["left_out"] == 0
        assert lanes_answer(watch, others)["left_out"] == 3


def test_places_by_offset_and_whose_times_are_wrong() -> None:
    now_ms = RealClock().now_ms()
    lane = Lane(AT, 0, 0)
    for each in (data(0, -1, now_ms - 200_000), data(1, 7, now_ms - 50_000), data(2, -1, now_ms - 40_000)):
        lane.take(each, 1)
    lane.log_start_offset, lane.last_stable_offset, lane.high_watermark = 0, 1, 3
    watch, view = watching(lane), view_of("", "", "90000")
    (row,) = lanes_answer(watch, view)["partitions"]
    assert (row["from_offset"], row["end_offset"], row["plain"]["offset"]) == (1, 3, [0, 2])
    assert (row["clock_off"], row["spans"]["begin_known"]) == (None, [True])
    lane.clock_off = (now_ms, 7, -50_000)
    (row,) = lanes_answer(watch, view)["partitions"]
    assert row["clock_off"] == {"who": "producer 7", "off_ms": -50_000}
    lane.clock_off = (now_ms - 100_000, 7, -50_000)
    assert lanes_answer(watch, view)["partitions"][0]["clock_off"] is None, "it was before the window"
