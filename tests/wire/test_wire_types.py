"""Message classes: constructors, equality, defaults that nobody can change."""

from __future__ import annotations

import pytest

from oncelog.wire.messages.fetch import FetchResponse, PartitionData
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.produce import LeaderIdAndEpoch, PartitionProduceResponse
from oncelog.wire.wire_types import FOREVER, Int32, Struct, field


class Point(Struct):
    x: Int32 = 0
    y: Int32 = field(since=1, default=3)


class OtherPoint(Struct):
    x: Int32 = 0
    y: Int32 = field(since=1, default=3)


def test_fields_have_their_defaults() -> None:
    assert repr(Point()) == "Point(x=0, y=3)"
    assert repr(Point(y=1)) == "Point(x=0, y=1)"


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(TypeError, match="z"):
        Point(z=1)  # type: ignore[call-arg]
    with pytest.raises(AssertionError, match="no such field"):
        Point().replace(z=1)


def test_equality_needs_the_same_class_and_values() -> None:
    assert Point(x=1) == Point(x=1)
    assert Point(x=1) != Point(x=2)
    assert Point() != OtherPoint()
    assert Point() != 1


def test_replace_copies() -> None:
    point = Point(x=1)
    assert point.replace(y=9) == Point(x=1, y=9)
    assert point == Point(x=1)


def test_each_message_has_its_own_lists() -> None:
    first, second = FetchResponse(), FetchResponse()
    first.responses.append(None)  # type: ignore[arg-type]
    assert second.responses == []


def test_a_list_may_be_null_on_purpose() -> None:
    assert MetadataRequest().topics == []
    assert MetadataRequest(topics=None).topics is None


def test_shared_default_structs_cannot_be_changed() -> None:
    partition = PartitionProduceResponse()
    with pytest.raises(AttributeError, match="assign a new LeaderIdAndEpoch"):
        partition.current_leader.leader_id = 1
    assert partition.current_leader == LeaderIdAndEpoch()
    assert LeaderIdAndEpoch() == partition.current_leader
    assert partition.current_leader != LeaderIdAndEpoch(leader_id=1)
    assert PartitionProduceResponse().current_leader is partition.current_leader
    changed = partition.current_leader.replace(leader_id=1)
    assert (changed.leader_id, PartitionProduceResponse().current_leader.leader_id) == (1, -1)


def test_fields_are_not_class_attributes() -> None:
    assert not hasattr(Point, "x")
    assert [bound.name for bound in Point.FIELDS] == ["x", "y"]
    assert (Point.FIELDS[1].since, Point.FIELDS[1].until) == (1, FOREVER)


def test_nullability_follows_the_annotation() -> None:
    by_name = {bound.name: bound for bound in PartitionData.FIELDS}
    assert by_name["aborted_transactions"].nullable_in(4)
    assert not by_name["error_code"].nullable_in(4)
