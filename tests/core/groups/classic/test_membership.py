"""Joins, syncs, heartbeats and leaves: what each is answered in each state of the group."""

from __future__ import annotations

import pytest

from oncelog.core.groups.classic.group import GroupState
from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import Assignment, Subscription, assignment_to_bytes, subscription_to_bytes
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.core.groups.performed_groups import RANGE, GroupShell

E = ErrorCode


def state(shell: GroupShell) -> GroupState:
    return shell.coordinator.groups["g"].state


def test_a_new_member_is_told_its_id_before_it_joins():
    shell = GroupShell()
    first = shell.join()
    assert (first.error_code, first.member_id) == (E.MEMBER_ID_REQUIRED, "c-1")
    second = shell.join(first.member_id)
    assert (second.error_code, second.generation_id, second.leader) == (E.NONE, 1, "c-1")
    assert [each.member_id for each in second.members] == ["c-1"]
    assert (second.protocol_type, second.protocol_name) == ("consumer", "range")


def test_an_old_client_joins_without_an_id():
    joined = GroupShell().join(version=3)
    assert (joined.error_code, joined.member_id, joined.generation_id) == (E.NONE, "c-1", 1)


def test_version_0_takes_the_session_timeout_for_the_rebalance_timeout():
    shell = GroupShell()
    shell.join(version=0, session_timeout_ms=7_000, rebalance_timeout_ms=99)
    assert shell.coordinator.groups["g"].members["c-1"].rebalance_timeout_ms == 7_000


@pytest.mark.parametrize(
    ("how", "error_code"),
    [
        ({"group_id": ""}, E.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, E.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, E.INVALID_SESSION_TIMEOUT),
        ({"protocols": ()}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": ""}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost", "instance_id": "i"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_first_join_that_is_refused_leaves_no_group(how, error_code):
    shell = GroupShell()
    assert shell.join(**how).error_code == error_code
    assert shell.coordinator.groups == {}


@pytest.mark.parametrize(
    ("how", "error_code"),
    [
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"protocols": (("sticky", b""),)}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, E.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "i", "member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_join_that_a_stable_group_refuses_does_not_disturb_it(how, error_code):
    shell = GroupShell()
    shell.stable_pair()
    assert shell.join(**how).error_code == error_code
    assert state(shell) is GroupState.STABLE


def test_two_members_get_one_generation_and_their_own_assignments():
    shell = GroupShell()
    leader = shell.join_with_id()
    assert shell.sync(leader.member_id, 1, {leader.member_id: b"all"}).assignment == b"all"
    waiting = shell.join_with_id()
    assert isinstance(waiting, int)
    assert shell.heartbeat(leader.member_id, 1) == E.REBALANCE_IN_PROGRESS
    led = shell.join(leader.member_id)
    followed = shell.answers[waiting]
    assert (led.generation_id, followed.generation_id) == (2, 2)
    assert led.leader == followed.leader == leader.member_id
    assert [each.member_id for each in led.members] == ["c-1", "c-3"]
    assert followed.members == []
    parked = shell.sync(followed.member_id, 2)
    assert isinstance(parked, int)
    done = shell.sync(led.member_id, 2, {led.member_id: b"one", followed.member_id: b"two"})
    assert (done.assignment, shell.answers[parked].assignment) == (b"one", b"two")
    assert (done.protocol_type, done.protocol_name) == ("consumer", "range")
    assert state(shell) is GroupState.STABLE


def test_the_assignment_is_told_only_when_the_log_has_it():
    shell = GroupShell()
    leader = shell.join_with_id()
    shell.holds_commits = True
    parked = shell.sync(leader.member_id, 1, {leader.member_id: b"all"})
    assert isinstance(parked, int)
    assert state(shell) is GroupState.COMPLETING_REBALANCE
    shell.commit()
    assert shell.answers[parked].assignment == b"all"


def test_a_join_between_assignment_and_commit_sends_the_syncs_away():
    shell = GroupShell()
    leader = shell.join_with_id()
    shell.holds_commits = True
    parked = shell.sync(leader.member_id, 1, {leader.member_id: b"all"})
    waiting = shell.join_with_id()
    assert shell.answers[parked].error_code == E.REBALANCE_IN_PROGRESS
    shell.commit()
    assert state(shell) is GroupState.PREPARING_REBALANCE
    shell.join(leader.member_id)
    assert shell.answers[waiting].generation_id == 2


def test_an_assignment_that_the_log_refuses_makes_members_join_again():
    shell = GroupShell()
    leader = shell.join_with_id()
    decision = shell.coordinator.sync_group(
        _sync_request(leader.member_id, 1, {leader.member_id: b"all"}), 4, token=99, now_ms=0
    )
    shell.coordinator.appended(decision.records)
    shell.coordinator.failed(decision.records)
    shell.run_due()
    assert shell.answers[99].error_code == E.COORDINATOR_NOT_AVAILABLE
    assert state(shell) is GroupState.PREPARING_REBALANCE
    assert shell.join(leader.member_id).generation_id == 2


def _sync_request(member_id, generation_id, assignments):
    return SyncGroupRequest(
        group_id="g",
        generation_id=generation_id,
        member_id=member_id,
        assignments=[SyncGroupRequestAssignment(member_id=k, assignment=v) for k, v in assignments.items()],
    )


def test_members_vote_for_the_protocol_that_all_of_them_speak():
    shell = GroupShell()
    first = shell.join_with_id(protocols=(("sticky", b"s"), ("range", b"r"), ("own", b"")))
    assert first.protocol_name == "sticky"
    token = shell.join_with_id(protocols=(("range", b"r2"), ("sticky", b"s2")))
    third_token = shell.join_with_id(protocols=(("range", b"r3"), ("sticky", b"s3")))
    again = shell.join(first.member_id, protocols=(("sticky", b"s"), ("range", b"r"), ("own", b"")))
    assert again.protocol_name == "range"  # two votes to one; "own" is not spoken by all
    assert [each.metadata for each in again.members] == [b"r", b"r2", b"r3"]
    assert shell.answers[token].protocol_name == shell.answers[third_token].protocol_name == "range"


@pytest.mark.parametrize(
    ("generation_id", "member", "error_code"),
    [(1, "leader", E.ILLEGAL_GENERATION), (3, "leader", E.ILLEGAL_GENERATION), (2, "ghost", E.UNKNOWN_MEMBER_ID)],
)
def test_sync_and_heartbeat_check_member_and_generation(generation_id, member, error_code):
    shell = GroupShell()
    leader, _, _ = shell.stable_pair()
    member_id = leader if member == "leader" else member
    assert shell.heartbeat(member_id, generation_id) == error_code
    assert shell.sync(member_id, generation_id).error_code == error_code


def test_sync_names_the_protocol_of_the_group_or_none():
    shell = GroupShell()
    leader, _, generation_id = shell.stable_pair()
    assert shell.sync(leader, generation_id, protocol_type="connect").error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert shell.sync(leader, generation_id, protocol_name="sticky").error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert shell.sync(leader, generation_id, protocol_type="consumer", protocol_name="range").assignment == b"first"


@pytest.mark.parametrize("named", [{}, {"protocol_type": "consumer"}, {"protocol_name": "range"}])
def test_sync_version_5_must_name_both(named):
    shell = GroupShell()
    leader, _, generation_id = shell.stable_pair()
    assert shell.sync(leader, generation_id, version=5, **named).error_code == E.INCONSISTENT_GROUP_PROTOCOL


def test_requests_to_no_group():
    shell = GroupShell()
    assert shell.heartbeat("m", 1) == E.UNKNOWN_MEMBER_ID
    assert shell.heartbeat("m", 1, group_id="") == E.INVALID_GROUP_ID
    assert shell.sync("m", 1).error_code == E.UNKNOWN_MEMBER_ID
    assert shell.sync("m", 1, group_id="").error_code == E.INVALID_GROUP_ID
    assert shell.leave(("m", None), version=2).error_code == E.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in shell.leave(("m", None)).members] == [E.UNKNOWN_MEMBER_ID]
    assert shell.leave(("m", None), group_id="").error_code == E.INVALID_GROUP_ID


def test_sync_during_a_join_phase_is_27_and_heartbeat_before_sync_is_0():
    shell = GroupShell()
    leader = shell.join_with_id()
    assert shell.heartbeat(leader.member_id, 1) == E.NONE
    shell.sync(leader.member_id, 1, {})
    shell.join_with_id()
    assert shell.sync(leader.member_id, 1).error_code == E.REBALANCE_IN_PROGRESS


def test_a_follower_that_joins_again_unchanged_gets_the_current_generation():
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    again = shell.join(follower)
    assert (again.generation_id, again.leader, again.members) == (generation_id, leader, [])
    assert state(shell) is GroupState.STABLE


@pytest.mark.parametrize("who", ["leader", "changed follower"])
def test_a_leader_or_a_changed_follower_that_joins_starts_a_rebalance(who):
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    waiting = shell.join(leader) if who == "leader" else shell.join(follower, protocols=(("range", b"other"),))
    assert isinstance(waiting, int)
    assert state(shell) is GroupState.PREPARING_REBALANCE
    shell.join(follower if who == "leader" else leader)
    assert shell.answers[waiting].generation_id == generation_id + 1


def test_who_lost_the_answer_of_a_join_gets_it_again_before_the_sync():
    shell = GroupShell()
    leader = shell.join_with_id()
    again = shell.join(leader.member_id)
    assert (again.generation_id, [each.member_id for each in again.members]) == (1, [leader.member_id])
    assert state(shell) is GroupState.COMPLETING_REBALANCE


def test_a_member_that_can_do_something_else_now_is_not_answered_with_the_old_generation():
    """Between join and sync too: the leader would assign by a subscription that the member no longer has."""
    shell = GroupShell()
    leader = shell.join_with_id()
    again = shell.join(leader.member_id, protocols=(("range", b"other"),))
    assert (again.generation_id, again.members[0].metadata) == (2, b"other")


def test_a_join_sent_twice_is_answered_twice():
    """Kafka forgets the first of the two; a client that still waits for it is told to join again."""
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    first = shell.join(leader)
    second = shell.join(leader)
    assert shell.answers[first].error_code == E.REBALANCE_IN_PROGRESS
    shell.join(follower)
    assert shell.answers[second].error_code == E.NONE


def test_the_group_takes_no_more_members_than_its_size():
    shell = GroupShell(GroupConfig(group_initial_rebalance_delay_ms=0, group_max_size=1))
    leader = shell.join_with_id()
    assert shell.join().error_code == E.GROUP_MAX_SIZE_REACHED
    shell.sync(leader.member_id, 1, {})
    refused = shell.join(version=3)
    assert (refused.error_code, refused.member_id) == (E.GROUP_MAX_SIZE_REACHED, "")
    waiting = shell.join(leader.member_id)
    assert waiting.generation_id == 2  # a member may come again


# -- leave -------------------------------------------------------------------------------------------------------------


def test_a_leave_makes_the_others_join_again():
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    reply = shell.leave((leader, None))
    assert [(each.member_id, each.error_code) for each in reply.members] == [(leader, E.NONE)]
    assert shell.heartbeat(leader, generation_id) == E.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(follower, generation_id) == E.REBALANCE_IN_PROGRESS
    joined = shell.join(follower)
    assert (joined.leader, joined.generation_id) == (follower, generation_id + 1)


def test_the_last_leave_empties_the_group_in_a_new_generation():
    shell = GroupShell()
    leader = shell.join_with_id()
    shell.sync(leader.member_id, 1, {})
    assert shell.leave((leader.member_id, None), version=1).error_code == E.NONE
    group = shell.coordinator.groups["g"]
    assert (group.state, group.generation_id) == (GroupState.EMPTY, 2)
    assert group.metadata is not None
    assert (group.metadata.members, group.metadata.generation_id) == ((), 2)


def test_leaves_are_answered_one_by_one():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    pending = shell.join().member_id
    reply = shell.leave((leader, None), ("ghost", None), ("", "nobody"), ("", None), (pending, None), (follower, "x"))
    assert [each.error_code for each in reply.members] == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
    ]


def test_a_given_out_id_that_leaves_lets_the_join_phase_end():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    pending = shell.join().member_id
    shell.join(leader)
    token = shell.join(follower)
    assert isinstance(token, int)
    shell.leave((pending, None))
    assert shell.answers[token].generation_id == 3


def test_a_given_out_id_that_leaves_a_stable_group_changes_nothing():
    shell = GroupShell()
    shell.stable_pair()
    shell.leave((shell.join().member_id, None))
    assert state(shell) is GroupState.STABLE


def test_a_waiting_member_that_leaves_is_answered():
    shell = GroupShell()
    _, follower, _ = shell.stable_pair()
    token = shell.join(follower, protocols=(("range", b"other"),))
    shell.leave((follower, None))
    assert shell.answers[token].error_code == E.UNKNOWN_MEMBER_ID


# -- static members ----------------------------------------------------------------------------------------------------


def static_group(**how) -> tuple[GroupShell, str, str]:
    shell = GroupShell()
    leader = shell.join(instance_id="one", **how)
    shell.sync(leader.member_id, 1, {leader.member_id: b"all"}, instance_id="one")
    token = shell.join(instance_id="two", **how)
    shell.join(leader.member_id, instance_id="one", **how)
    follower = shell.answers[token]
    shell.sync(leader.member_id, 2, {leader.member_id: b"1", follower.member_id: b"2"}, instance_id="one")
    shell.sync(follower.member_id, 2, instance_id="two")
    return shell, leader.member_id, follower.member_id


def test_a_static_member_needs_no_second_join():
    joined = GroupShell().join(instance_id="one")
    assert (joined.error_code, joined.member_id) == (E.NONE, "one-1")
    assert joined.members[0].group_instance_id == "one"


def test_a_static_follower_comes_back_without_a_rebalance():
    """kafka-notes G8: same generation, new id, the old id is fenced."""
    shell, leader, old_id = static_group()
    back = shell.join(instance_id="two")
    assert (back.error_code, back.generation_id, back.leader) == (E.NONE, 2, leader)
    assert back.member_id not in (old_id, "")
    assert (back.skip_assignment, back.members) == (False, [])
    assert state(shell) is GroupState.STABLE
    assert shell.sync(back.member_id, 2, instance_id="two").assignment == b"2"
    assert shell.heartbeat(old_id, 2, instance_id="two") == E.FENCED_INSTANCE_ID
    assert shell.sync(old_id, 2, instance_id="two").error_code == E.FENCED_INSTANCE_ID
    assert shell.join(old_id, instance_id="two").error_code == E.FENCED_INSTANCE_ID
    assert shell.heartbeat(old_id, 2) == E.UNKNOWN_MEMBER_ID
    assert shell.leave((old_id, "two")).members[0].error_code == E.FENCED_INSTANCE_ID


def test_a_static_leader_comes_back_and_skips_the_assignment():
    shell, old_id, _ = static_group()
    back = shell.join(instance_id="one")
    assert (back.generation_id, back.leader, back.skip_assignment) == (2, back.member_id, True)
    assert len(back.members) == 2
    assert shell.heartbeat(old_id, 2, instance_id="one") == E.FENCED_INSTANCE_ID


def test_an_old_static_leader_is_not_told_that_it_leads():
    shell, old_id, _ = static_group()
    back = shell.join(instance_id="one", version=8)
    assert (back.leader, back.skip_assignment, back.members) == (old_id, False, [])


def test_a_static_member_hears_of_its_new_id_when_the_log_has_it():
    shell, _, _ = static_group()
    shell.holds_commits = True
    token = shell.join(instance_id="two")
    assert isinstance(token, int)
    shell.commit()
    assert shell.answers[token].generation_id == 2
    shell.restart()
    assert shell.heartbeat(shell.answers[token].member_id, 2, instance_id="two") == E.NONE


def test_a_static_member_with_another_protocol_starts_a_rebalance():
    shell = GroupShell()
    both = (("range", b""), ("sticky", b""))
    joined = shell.join(instance_id="one", protocols=both)
    shell.sync(joined.member_id, 1, {}, instance_id="one")
    back = shell.join(instance_id="one", protocols=both[::-1])
    assert (back.generation_id, back.protocol_name) == (2, "sticky")


def test_a_static_member_that_comes_back_during_the_sync_phase_starts_a_rebalance():
    shell = GroupShell()
    joined = shell.join(instance_id="one")
    back = shell.join(instance_id="one")
    assert (back.generation_id, back.leader) == (2, back.member_id)
    assert shell.sync(joined.member_id, 1, instance_id="one").error_code == E.FENCED_INSTANCE_ID


def test_the_old_incarnation_that_still_waits_is_fenced():
    shell, leader, follower = static_group()
    waiting = shell.join(leader, instance_id="one")
    assert state(shell) is GroupState.PREPARING_REBALANCE
    shell.join(instance_id="one")
    assert shell.answers[waiting].error_code == E.FENCED_INSTANCE_ID
    assert shell.answers[waiting].member_id == leader
    assert shell.join(follower, instance_id="two").generation_id == 3


def test_a_static_member_survives_its_absence_from_a_join_phase():
    how = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 8_000}
    shell, leader, follower = static_group(**how)
    token = shell.join(leader, instance_id="one", **how)
    shell.advance(7_999)
    assert token not in shell.answers
    shell.advance(1)
    assert {each.member_id for each in shell.answers[token].members} == {leader, follower}


def test_an_administrator_removes_a_static_member_by_its_instance_id():
    shell, _, follower = static_group()
    reply = shell.leave(("", "two"))
    assert [(each.member_id, each.group_instance_id, each.error_code) for each in reply.members] == [("", "two", 0)]
    assert shell.heartbeat(follower, 2, instance_id="two") == E.UNKNOWN_MEMBER_ID


def test_members_of_another_protocol_type_may_follow_an_empty_group():
    shell = GroupShell()
    first = shell.join_with_id()
    shell.sync(first.member_id, 1, {})
    shell.leave((first.member_id, None))
    assert shell.join_with_id(protocol_type="connect", protocols=RANGE).protocol_type == "connect"


def cooperative(*owned: int) -> tuple[tuple[str, bytes], ...]:
    """What a member of a cooperative group joins with: it has these partitions of `t`."""
    subscription = Subscription(("t",), owned_partitions=tuple(TopicPartition("t", each) for each in owned))
    return (("cooperative-sticky", subscription_to_bytes(subscription)),)


def assigned(*partitions: int) -> bytes:
    return assignment_to_bytes(Assignment(tuple(TopicPartition("t", each) for each in partitions)))


@pytest.mark.parametrize(("left", "generation_id"), [((0,), 3), ((0, 1), 2)])
def test_a_static_member_that_was_to_give_partitions_back_starts_a_rebalance(left, generation_id):
    """KIP-429: killed between the sync and the join that gives them back, it does not know of them in its next life; as in
    Apache Kafka they were nobody's until something else began a rebalance (simulator, groups, seed 9)."""
    shell = GroupShell()
    one = shell.join(instance_id="one", protocols=cooperative()).member_id
    shell.sync(one, 1, {one: assigned(0, 1)}, instance_id="one")
    token = shell.join(instance_id="two", protocols=cooperative())
    shell.join(one, instance_id="one", protocols=cooperative(0, 1))
    two = shell.answers[token].member_id
    shell.sync(one, 2, {one: assigned(*left), two: assigned()}, instance_id="one")
    shell.sync(two, 2, instance_id="two")
    back = shell.join(instance_id="one", protocols=cooperative())
    if generation_id == 3:
        shell.join(two, instance_id="two", protocols=cooperative())
        back = shell.answers[back]
    assert (back.error_code, back.generation_id) == (E.NONE, generation_id)
