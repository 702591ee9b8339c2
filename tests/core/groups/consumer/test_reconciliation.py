"""One member's next step: give back, take what is free, wait for the rest."""

from __future__ import annotations

import pytest

from oncelog.core.groups.consumer.member import ConsumerGroupMember, MemberState
from oncelog.core.groups.consumer.reconciliation import Reconciliation, Target
from oncelog.wire.messages.consumer_group_heartbeat import TopicPartitions

T, U = b"t" * 16, b"u" * 16


def step(member, target, *, target_epoch=2, taken=(), owned=None, reads=(T, U), changed=False):
    asked = None
    if owned is not None:
        asked = [TopicPartitions(topic_id=topic_id, partitions=list(held)) for topic_id, held in owned.items()]
    mine = {(t, p) for held in (member.assigned, member.pending_revocation) for t, ps in held.items() for p in ps}
    return Reconciliation(
        member=member,
        target=Target(target_epoch, {topic_id: frozenset(held) for topic_id, held in target.items()}),
        subscribed_topic_ids=frozenset(reads),
        is_owned=lambda topic_id, partition: (topic_id, partition) in taken or (topic_id, partition) in mine,
        owned=asked,
        has_subscription_changed=changed,
    ).next()


def member(**fields):
    return ConsumerGroupMember("m", member_epoch=1, previous_member_epoch=0, **fields)


def test_free_partitions_are_taken_at_once_in_the_targets_epoch():
    moved = step(member(), {T: [0, 1]})
    assert moved.state is MemberState.STABLE
    assert (moved.member_epoch, moved.previous_member_epoch) == (2, 1)
    assert moved.assigned == {T: {0: 2, 1: 2}}


def test_what_stays_keeps_the_epoch_in_which_it_was_given():
    assert step(member(assigned={T: {0: 1}}), {T: [0, 1]}).assigned == {T: {0: 1, 1: 2}}


def test_what_others_have_is_waited_for():
    moved = step(member(), {T: [0, 1]}, taken={(T, 1)})
    assert moved.state is MemberState.UNRELEASED_PARTITIONS
    assert moved.assigned == {T: {0: 2}}
    assert step(moved, {T: [0, 1]}).state is MemberState.STABLE


def test_a_member_gives_back_first_and_stays_in_its_epoch():
    moved = step(member(assigned={T: {0: 1, 1: 1}}), {T: [0], U: [0]})
    assert moved.state is MemberState.UNREVOKED_PARTITIONS
    assert moved.member_epoch == 1
    assert (moved.assigned, moved.pending_revocation) == ({T: {0: 1}}, {T: {1: 1}})


@pytest.mark.parametrize("owned", [None, {T: [0, 1]}])
def test_it_goes_on_only_when_it_says_that_it_gave_back(owned):
    waiting = step(member(assigned={T: {0: 1, 1: 1}}), {T: [0], U: [0]})
    assert step(waiting, {T: [0], U: [0]}, owned=owned) == waiting
    moved = step(waiting, {T: [0], U: [0]}, owned={T: [0]})
    assert moved.state is MemberState.STABLE
    assert (moved.assigned, moved.pending_revocation) == ({T: {0: 1}, U: {0: 2}}, {})


def test_what_was_given_back_already_needs_no_step_of_its_own():
    moved = step(member(assigned={T: {0: 1, 1: 1}}), {T: [0]}, owned={T: [0]})
    assert moved.state is MemberState.STABLE
    assert moved.assigned == {T: {0: 1}}


def test_a_partition_on_its_way_back_may_return_to_its_member():
    waiting = member(state=MemberState.UNREVOKED_PARTITIONS, assigned={}, pending_revocation={T: {0: 1}})
    moved = step(waiting, {T: [0]}, owned={})
    assert moved.state is MemberState.STABLE
    assert moved.assigned == {T: {0: 2}}


def test_a_topic_that_is_not_read_any_more_is_no_target():
    moved = step(member(assigned={T: {0: 1}}), {T: [0], U: [0]}, reads=(U,), changed=True)
    assert moved.state is MemberState.UNREVOKED_PARTITIONS
    assert moved.pending_revocation == {T: {0: 1}}


def test_a_new_subscription_takes_away_without_a_new_target():
    stable = ConsumerGroupMember("m", member_epoch=2, assigned={T: {0: 1}, U: {0: 1}})
    moved = step(stable, {T: [0], U: [0]}, reads=(U,), changed=True)
    assert moved.state is MemberState.UNREVOKED_PARTITIONS
    assert (moved.assigned, moved.pending_revocation, moved.member_epoch) == ({U: {0: 1}}, {T: {0: 1}}, 2)
    given_back = step(stable, {T: [0], U: [0]}, reads=(U,), changed=True, owned={U: [0]})
    assert (given_back.state, given_back.assigned) == (MemberState.STABLE, {U: {0: 1}})
    assert step(stable, {T: [0], U: [0]}, reads=(T, U), changed=True) == stable


def test_more_may_be_taken_away_while_it_gives_back():
    waiting = member(state=MemberState.UNREVOKED_PARTITIONS, assigned={U: {0: 1}}, pending_revocation={T: {0: 1}})
    moved = step(waiting, {}, reads=(T,), changed=True)
    assert moved.pending_revocation == {T: {0: 1}, U: {0: 1}}
