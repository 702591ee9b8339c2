"""The phases of a rebalance in time: delays, sessions, who is waited for and for how long."""

from __future__ import annotations

import pytest

from oncelog.core.groups.classic.group import GroupState
from oncelog.core.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS, REJOIN_CHECK_INTERVAL_MS, GroupConfig
from oncelog.errors import ErrorCode
from tests.core.groups.performed_groups import GroupShell

E = ErrorCode
DELAY = GroupConfig(group_initial_rebalance_delay_ms=3_000)


def state(shell: GroupShell) -> GroupState:
    return shell.coordinator.groups["g"].state


# -- the initial delay (KIP-134) ---------------------------------------------------------------------------------------


def test_the_first_join_of_a_group_waits_for_others():
    shell = GroupShell(DELAY)
    token = shell.join_with_id()
    shell.advance(2_999)
    assert token not in shell.answers
    shell.advance(1)
    assert shell.answers[token].generation_id == 1


def test_each_new_member_extends_the_initial_delay():
    shell = GroupShell(DELAY)
    first = shell.join_with_id()
    shell.advance(2_000)
    second = shell.join_with_id()
    shell.advance(3_999)
    assert first not in shell.answers
    shell.advance(1)
    assert shell.answers[first].generation_id == shell.answers[second].generation_id == 1


def test_the_initial_delay_never_exceeds_the_rebalance_timeout():
    shell = GroupShell(DELAY)
    tokens = [shell.join_with_id(rebalance_timeout_ms=7_000)]
    for _ in range(6):
        shell.advance(1_000)
        tokens.append(shell.join_with_id(rebalance_timeout_ms=7_000))
    shell.advance(999)
    assert tokens[0] not in shell.answers
    shell.advance(1)
    assert {shell.answers[each].generation_id for each in tokens} == {1}


def test_a_group_that_is_left_during_the_initial_delay_is_empty_afterwards():
    shell = GroupShell(DELAY)
    pending = shell.join()
    token = shell.join(pending.member_id)
    shell.leave((pending.member_id, None))
    assert shell.answers[token].error_code == E.UNKNOWN_MEMBER_ID
    shell.advance(3_000)
    assert state(shell) is GroupState.EMPTY


# -- sessions ----------------------------------------------------------------------------------------------------------


def test_a_silent_member_is_out_after_its_session_and_the_others_join_again():
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    shell.advance(9_999)
    assert shell.heartbeat(leader, generation_id) == E.NONE
    shell.advance(1)
    assert shell.heartbeat(follower, generation_id) == E.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(leader, generation_id) == E.REBALANCE_IN_PROGRESS
    assert shell.join(leader).generation_id == generation_id + 1


def test_a_commit_is_a_sign_of_life():
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    shell.advance(9_000)
    assert shell.commit_offset(1, generation_id=generation_id, member_id=leader) == E.NONE
    shell.advance(9_000)
    assert shell.heartbeat(leader, generation_id) == E.REBALANCE_IN_PROGRESS  # the other one is out
    assert shell.heartbeat(follower, generation_id) == E.UNKNOWN_MEMBER_ID


def test_when_all_are_silent_the_group_is_empty():
    shell = GroupShell()
    _, _, generation_id = shell.stable_pair()
    shell.advance(10_000)
    group = shell.coordinator.groups["g"]
    assert (group.state, group.generation_id) == (GroupState.EMPTY, generation_id + 1)
    assert group.metadata is not None
    assert group.metadata.members == ()


def test_a_given_out_id_expires():
    shell = GroupShell()
    pending = shell.join(session_timeout_ms=6_000).member_id
    shell.advance(6_000)
    assert shell.join(pending).error_code == E.UNKNOWN_MEMBER_ID


def test_a_join_phase_waits_for_a_given_out_id_no_longer_than_its_session():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    shell.join(session_timeout_ms=6_000)
    shell.join(leader)
    token = shell.join(follower)
    shell.advance(5_999)
    assert token not in shell.answers
    shell.advance(1)
    assert shell.answers[token].generation_id == 3


def test_a_member_that_does_not_come_is_out_after_the_rebalance_timeout():
    shell = GroupShell()
    how = {"session_timeout_ms": 100_000, "rebalance_timeout_ms": 60_000}
    leader, follower, generation_id = shell.stable_pair(**how)
    token = shell.join(leader, **how)
    shell.advance(59_999)
    assert token not in shell.answers
    assert shell.heartbeat(follower, generation_id) == E.REBALANCE_IN_PROGRESS
    shell.advance(1)
    assert [each.member_id for each in shell.answers[token].members] == [leader]
    assert shell.heartbeat(follower, generation_id) == E.UNKNOWN_MEMBER_ID


def test_a_follower_leads_when_the_leader_does_not_come():
    shell = GroupShell()
    how = {"session_timeout_ms": 100_000, "rebalance_timeout_ms": 6_000}
    leader, follower, _ = shell.stable_pair(**how)
    token = shell.join(follower, protocols=(("range", b"changed"),), **how)
    shell.advance(6_000)
    assert shell.answers[token].leader == follower != leader


def test_who_waits_in_the_join_phase_needs_no_heartbeat():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair(rebalance_timeout_ms=300_000)
    token = shell.join(leader, rebalance_timeout_ms=300_000)
    for _ in range(20):
        shell.advance(9_000)
        shell.heartbeat(follower, 2)
    shell.join(follower, rebalance_timeout_ms=300_000)
    assert shell.answers[token].error_code == E.NONE


def test_a_new_member_without_an_id_is_dropped_when_its_join_waits_too_long():
    shell = GroupShell()
    how = {"session_timeout_ms": 1_800_000, "rebalance_timeout_ms": 900_000}
    shell.stable_pair(**how)
    token = shell.join(version=3, **how)
    shell.advance(NEW_MEMBER_JOIN_TIMEOUT_MS - 1)
    assert token not in shell.answers
    shell.advance(1)
    assert shell.answers[token].error_code == E.UNKNOWN_MEMBER_ID


def test_who_never_syncs_is_out_after_the_rebalance_timeout():
    shell = GroupShell()
    how = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 20_000}
    first = shell.join_with_id(**how)
    shell.sync(first.member_id, 1, {})
    token = shell.join_with_id(**how)
    shell.join(first.member_id, **how)
    lazy = shell.answers[token].member_id
    shell.sync(first.member_id, 2, {})
    for _ in range(19):
        shell.advance(1_000)
        assert shell.heartbeat(first.member_id, 2) == E.NONE
        assert shell.heartbeat(lazy, 2) == E.NONE
    shell.advance(1_000)
    assert shell.heartbeat(lazy, 2) == E.UNKNOWN_MEMBER_ID
    assert shell.heartbeat(first.member_id, 2) == E.REBALANCE_IN_PROGRESS


def test_a_leader_that_never_assigns_is_out_and_the_waiting_sync_is_answered():
    shell = GroupShell()
    how = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 6_000}
    first = shell.join_with_id(**how)
    shell.sync(first.member_id, 1, {})
    token = shell.join_with_id(**how)
    shell.join(first.member_id, **how)
    waiting = shell.sync(shell.answers[token].member_id, 2)
    shell.advance(6_000)
    assert shell.answers[waiting].error_code == E.REBALANCE_IN_PROGRESS


@pytest.mark.timeout(20)
@pytest.mark.parametrize("rebalance_timeout_ms", [0, -1, -2_147_483_648])
def test_a_join_phase_without_patience_looks_again_until_the_sessions_of_static_members_end(rebalance_timeout_ms):
    shell = GroupShell()
    patient = shell.join(instance_id="patient")
    shell.sync(patient.member_id, 1, {}, instance_id="patient")
    token = shell.join(instance_id="hasty", rebalance_timeout_ms=rebalance_timeout_ms)
    shell.join(patient.member_id, instance_id="patient")
    hasty = shell.answers[token].member_id
    shell.sync(patient.member_id, 2, {}, instance_id="patient")
    shell.sync(hasty, 2, instance_id="hasty")
    shell.leave((patient.member_id, None))
    assert list(shell.coordinator.groups["g"].members) == [hasty]
    shell.advance(9_999)
    assert state(shell) is GroupState.PREPARING_REBALANCE
    shell.advance(REJOIN_CHECK_INTERVAL_MS)
    assert state(shell) is GroupState.EMPTY


# -- connections and restarts ------------------------------------------------------------------------------------------


def test_a_new_member_whose_connection_drops_is_forgotten():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    token = shell.join(version=3)
    shell.join(leader)
    shell.perform(shell.coordinator.cancel(token, shell.now_ms))
    assert token not in shell.answers
    assert [each.member_id for each in shell.join(follower).members] == []
    assert set(shell.coordinator.groups["g"].members) == {leader, follower}


def test_a_known_member_whose_connection_drops_keeps_its_place():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    token = shell.join(leader)
    shell.perform(shell.coordinator.cancel(token, shell.now_ms))
    assert shell.join(follower).generation_id == 3
    assert token not in shell.answers
    assert shell.join(leader).generation_id == 3


def test_a_sync_whose_connection_drops_can_be_repeated():
    shell = GroupShell()
    leader = shell.join_with_id()
    shell.sync(leader.member_id, 1, {})
    token = shell.join_with_id()
    shell.join(leader.member_id)
    waiting = shell.sync(shell.answers[token].member_id, 2)
    shell.perform(shell.coordinator.cancel(waiting, shell.now_ms))
    shell.sync(leader.member_id, 2, {shell.answers[token].member_id: b"x"})
    assert waiting not in shell.answers
    assert shell.sync(shell.answers[token].member_id, 2).assignment == b"x"


def test_nobody_is_there_to_cancel():
    shell = GroupShell()
    shell.stable_pair()
    assert shell.perform(shell.coordinator.cancel(999, 0)) is None


def test_a_stable_group_goes_on_after_a_restart_with_fresh_sessions():
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    shell.advance(9_000)
    shell.restart()
    assert state(shell) is GroupState.STABLE
    shell.advance(9_999)
    assert shell.heartbeat(leader, generation_id) == E.NONE
    assert shell.sync(follower, generation_id).assignment == b"second"
    shell.advance(9_999)
    assert shell.heartbeat(leader, generation_id) == E.NONE
    shell.advance(1)
    assert shell.heartbeat(follower, generation_id) == E.UNKNOWN_MEMBER_ID


def test_a_rebalance_that_a_restart_interrupts_is_begun_again():
    shell = GroupShell()
    leader, follower, generation_id = shell.stable_pair()
    shell.join(follower, protocols=(("range", b"changed"),))
    shell.restart()
    assert state(shell) is GroupState.STABLE
    assert shell.heartbeat(leader, generation_id) == E.NONE
    waiting = shell.join(follower, protocols=(("range", b"changed"),))
    shell.join(leader)
    assert shell.answers[waiting].generation_id == generation_id + 1


def test_a_coordinator_that_resigns_sends_everybody_away():
    shell = GroupShell()
    leader, _, _ = shell.stable_pair()
    join = shell.join(leader)
    shell.perform(shell.coordinator.resigned())
    assert shell.answers[join].error_code == E.NOT_COORDINATOR


def test_next_timer_is_the_earliest_of_all_groups():
    shell = GroupShell()
    assert shell.coordinator.next_timer() == 600_000  # the retention sweep
    shell.join(group_id="a", session_timeout_ms=9_000)
    shell.join(group_id="b", session_timeout_ms=7_000)
    assert shell.coordinator.next_timer() == 7_000
