"""One member: what the records make of it."""

from __future__ import annotations

import pytest

from oncelog.core.groups.consumer.member import (
    ConsumerGroupMember,
    MemberState,
    partitions_of,
    to_consumer_protocol,
    to_wire,
)
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import assignment_from_bytes
from oncelog.wire.log_records.consumer_groups import ClassicMember, CurrentMember

A, B = b"a" * 16, b"b" * 16
MEMBER = ConsumerGroupMember(
    "m",
    member_epoch=3,
    previous_member_epoch=2,
    state=MemberState.UNREVOKED_PARTITIONS,
    instance_id="i",
    rack_id="r",
    client_id="c",
    client_host="/h",
    rebalance_timeout_ms=5,
    topic_names=frozenset({"t", "u"}),
    topic_regex="x.*",
    server_assignor="range",
    assigned={A: {1: 3}},
    pending_revocation={B: {0: 2}},
    classic=ClassicMember(9, (("range", b"m"),)),
)


def test_its_two_records_make_the_same_member():
    again = ConsumerGroupMember("m").with_metadata(MEMBER.metadata_record("g")).with_current(MEMBER.current_record("g"))
    assert again == MEMBER


def test_a_state_of_a_newer_broker_is_unknown():
    record = CurrentMember("g", "m", 1, 0, 9)
    assert ConsumerGroupMember("m").with_current(record).state is MemberState.UNKNOWN


@pytest.mark.parametrize(
    ("number", "pending", "state"),
    [
        (0, {}, MemberState.STABLE),
        (1, {A: {0: 1}}, MemberState.UNREVOKED_PARTITIONS),
        (2, {}, MemberState.UNRELEASED_PARTITIONS),
        # as oncelog wrote them once
        (1, {}, MemberState.STABLE),
        (2, {A: {0: 1}}, MemberState.UNREVOKED_PARTITIONS),
        (3, {}, MemberState.UNRELEASED_PARTITIONS),
    ],
)
def test_states_have_apache_kafkas_numbers_and_earlier_ones_are_understood(number, pending, state):
    record = CurrentMember("g", "m", 2, 1, number, {}, pending)
    member = ConsumerGroupMember("m").with_current(record)
    assert member.state is state
    assert (
        member.current_record("g").state
        == {"STABLE": 0, "UNREVOKED_PARTITIONS": 1, "UNRELEASED_PARTITIONS": 2}[state.name]
    )


def test_moving_keeps_the_former_epoch():
    moved = MEMBER.moved_to(4)
    assert (moved.member_epoch, moved.previous_member_epoch) == (4, 3)


def test_only_a_stable_member_in_the_targets_epoch_is_reconciled():
    stable = ConsumerGroupMember("m", member_epoch=3)
    assert stable.is_reconciled_to(3)
    assert not stable.is_reconciled_to(4)
    assert not MEMBER.is_reconciled_to(3)


def test_the_same_partitions_are_the_same_assignment_in_any_epoch():
    assert MEMBER.has_same_assignment(ConsumerGroupMember("m", assigned={A: {1: 9}, B: {}}))
    assert not MEMBER.has_same_assignment(ConsumerGroupMember("m", assigned={A: {2: 3}}))


def test_partitions_go_out_sorted():
    assert partitions_of({A: {2: 1, 1: 1}, B: {}}) == {A: frozenset({1, 2})}
    assert [(each.topic_id, each.partitions) for each in to_wire({B: {1: 0}, A: {2: 0, 0: 0}})] == [
        (A, [0, 2]),
        (B, [1]),
    ]


def test_a_classic_member_hears_names_and_nothing_of_topics_that_are_gone():
    data = to_consumer_protocol({A: {1: 0, 0: 0}, B: {0: 0}}, {A: "t"}, version=1)
    assert data[:2] == b"\x00\x01"
    assert assignment_from_bytes(data).partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
