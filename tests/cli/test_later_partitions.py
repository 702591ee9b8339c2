"""Which partitions came while topics are read."""

from __future__ import annotations

from oncelog.cli.later_partitions import Change, LaterPartitions
from oncelog.client.cluster.view import PartitionView, TopicView
from oncelog.types import TopicPartition
from oncelog.wire.schema import ZERO_UUID

ONE, OTHER = b"1" * 16, b"2" * 16


def topic(count: int, topic_id: bytes = ONE) -> TopicView:
    partitions = {number: PartitionView(number, 1, 0) for number in range(count)}
    return TopicView("t", topic_id, is_internal=False, error_code=0, partitions=partitions)


def change(*views: TopicView | None, grows: bool = True) -> Change | None:
    """What the last of these views is, beside those before."""
    told = iter(views[1:])
    assert views[0] is not None
    later = LaterPartitions([views[0]], {"t"} if grows else set(), lambda _: next(told))
    return [later.look() for _ in views[1:]][-1]


def test_added_ones_come_once() -> None:
    added = [TopicPartition("t", 1), TopicPartition("t", 2)]
    assert change(topic(1), topic(3)) == Change(added, [], [])
    assert change(topic(1), topic(3), topic(3)) is None


def test_what_was_named_by_its_number_does_not_grow() -> None:
    assert change(topic(1), topic(3), grows=False) is None
    assert change(topic(1), topic(3, OTHER), grows=False) == Change([], [], ["t"])


def test_a_broker_that_knows_less_takes_nothing_away() -> None:
    assert change(topic(3), topic(2)) is None
    assert change(topic(3), topic(2), topic(3)) is None
    assert change(topic(3), topic(2, ZERO_UUID)) is None


def test_a_topic_that_is_made_again() -> None:
    assert change(topic(1), None) is None
    assert change(topic(1), None, topic(2, OTHER)) == Change([TopicPartition("t", 1)], [], ["t"])
    assert change(topic(3), topic(2, OTHER)) == Change([], [TopicPartition("t", 2)], ["t"])
