"""The tables of a consumer group, as records make them."""

from __future__ import annotations

from oncelog.core.groups.consumer.group import ConsumerGroup, ConsumerGroupState, metadata_hash
from oncelog.core.groups.consumer.member import ConsumerGroupMember
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.metadata.cluster import Topic
from oncelog.wire.log_records.consumer_groups import (
    ConsumerGroupKey,
    CurrentMember,
    GroupEpoch,
    MemberMetadata,
    ResolvedRegex,
    TargetEpoch,
    TargetMember,
    Tombstone,
)

T = b"t" * 16


def group_of(*records):
    group = ConsumerGroup("g")
    for record in records:
        group.replay(record)
    return group


def stable_member(member_id="m", **metadata):
    return [MemberMetadata("g", member_id, **metadata), CurrentMember("g", member_id, 2, 1, 1, {T: {0: 2}}, {})]


def test_the_state_tells_what_it_is_busy_with():
    group = group_of()
    assert group.state is ConsumerGroupState.EMPTY
    group.replay(GroupEpoch("g", 2))
    for record in stable_member():
        group.replay(record)
    assert group.state is ConsumerGroupState.ASSIGNING
    group.replay(TargetEpoch("g", 2))
    assert group.state is ConsumerGroupState.STABLE
    group.replay(CurrentMember("g", "m", 1, 1, 1))
    assert group.state is ConsumerGroupState.RECONCILING


def test_a_partition_is_owned_until_it_is_given_back():
    group = group_of(*stable_member())
    assert group.is_owned(T, 0)
    group.replay(CurrentMember("g", "m", 2, 2, 2, {}, {T: {0: 2}}))
    assert group.is_owned(T, 0)
    group.replay(CurrentMember("g", "m", 3, 2, 1, {}, {}))
    assert not group.is_owned(T, 0)


def test_its_own_tombstones_leave_nothing():
    group = group_of(
        GroupEpoch("g", 2, 5),
        *stable_member(instance_id="i", topic_regex="t.*"),
        TargetMember("g", "m", {T: frozenset({0})}),
        TargetEpoch("g", 2),
        ResolvedRegex("g", "t.*", ("t",), 1, 1),
    )
    group.set_timer("m", MemberTimer.SESSION, 5)
    for record in group.tombstones():
        group.replay(record)
    assert group.is_bare
    assert (group.targets, group.static_members, group.regexes, group.timers) == ({}, {}, {}, {})
    assert not group.is_owned(T, 0)
    assert group.assignment_epoch == -1


def test_a_static_member_is_found_and_its_successor_has_its_target():
    group = group_of(*stable_member(instance_id="i"), TargetMember("g", "m", {T: frozenset({0})}))
    known = group.static_member("i")
    assert known is not None
    assert known.member_id == "m"
    successor = ConsumerGroupMember("n", instance_id="i")
    assert group.target_of(successor) == {T: frozenset({0})}
    assert list(group.with_member(successor)) == ["n"]
    assert group.static_member(None) is None
    assert group.static_member("j") is None


def test_a_pattern_counts_with_the_topics_it_matched():
    group = group_of(*stable_member(topic_names=("a",), topic_regex="t.*"))
    assert group.subscribed_topics() == {"a"}
    group.replay(ResolvedRegex("g", "t.*", ("t", "u"), 1, 1))
    assert group.subscribed_topics() == {"a", "t", "u"}
    assert group.subscribers_of_regex("t.*") == 1
    assert group.subscribers_of_regex("t.*", without="m") == 0


def test_only_who_is_late_is_overdue():
    group = group_of(*stable_member("m"), *stable_member("n"))
    group.set_timer("m", MemberTimer.SESSION, 10)
    group.set_timer("n", MemberTimer.REBALANCE, 10)
    group.revoking_epochs["n"] = 1  # it has left that epoch since
    group.set_timer("gone", MemberTimer.SESSION, 10)
    assert group.next_deadline() == 10
    assert group.take_overdue(9) == []
    assert group.take_overdue(10) == ["m"]
    assert group.next_deadline() is None


def test_a_late_revocation_in_the_same_epoch_counts():
    group = group_of(*stable_member("n"))
    group.set_timer("n", MemberTimer.REBALANCE, 10)
    group.revoking_epochs["n"] = 2
    assert group.take_overdue(10) == ["n"]


def test_tombstones_of_what_is_not_there_change_nothing():
    group = group_of()
    for key in ConsumerGroupKey:
        if key is not ConsumerGroupKey.TARGET_EPOCH:
            group.replay(Tombstone(key, "g", "x"))
    assert group.is_bare


def test_the_hash_tells_topics_apart():
    topics = {name: Topic(name, name.encode() * 16, 1) for name in ("a", "b")}
    assert metadata_hash(["c"], topics) == 0
    assert metadata_hash(["a"], topics) == metadata_hash(["a", "c"], topics)
    seen = {metadata_hash(names, topics) for names in (["a"], ["b"], ["a", "b"])}
    more = dict(topics, a=Topic("a", b"a" * 16, 2))
    other = dict(topics, a=Topic("a", b"x" * 16, 1))
    assert len(seen | {metadata_hash(["a"], more), metadata_hash(["a"], other)}) == 5
