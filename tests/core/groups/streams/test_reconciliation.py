"""One step of a member to its target: give back, take what is free, wait for the rest."""

from __future__ import annotations

import pytest

from oncelog.core.groups.refused import Refused
from oncelog.core.groups.streams.group import TaskOwners
from oncelog.core.groups.streams.member import MemberState, StreamsGroupMember
from oncelog.core.groups.streams.reconciliation import Reconciliation, Target
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.streams_groups import AssignedTasks, TargetTasks


def tasks(*partitions):
    return {"0": frozenset(partitions)} if partitions else {}


def since(**epochs):
    return {"0": {int(name[1:]): epoch for name, epoch in epochs.items()}} if epochs else {}


def member(member_id="m", process_id="p", *, epoch=2, state=MemberState.STABLE, active=None, pending=None, standby=()):
    return StreamsGroupMember(
        member_id,
        epoch,
        epoch - 1,
        state,
        process_id=process_id,
        assigned=AssignedTasks(active or {}, tasks(*standby)),
        pending_revocation=AssignedTasks(pending or {}),
    )


def step(who, *, active=(), standby=(), epoch=3, owned=None, others=()):
    owners = TaskOwners()
    for each in (who, *others):
        owners.change(None, each)
    target = Target(epoch, TargetTasks(tasks(*active), tasks(*standby)))
    return Reconciliation(who, target, owners, owned).next()


def test_a_member_at_its_target_stays():
    who = member(epoch=3)
    assert step(who) is who


def test_free_tasks_are_taken_in_the_targets_epoch():
    moved = step(member(active=since(p0=1)), active=(0, 1))
    assert (moved.state, moved.member_epoch, moved.previous_member_epoch) == (MemberState.STABLE, 3, 2)
    assert moved.assigned.active == {"0": {0: 1, 1: 3}}


def test_what_is_to_go_is_given_back_first_in_the_old_epoch():
    moved = step(member(active=since(p0=1, p1=2)), active=(1, 2))
    assert (moved.state, moved.member_epoch) == (MemberState.UNREVOKED_TASKS, 2)
    assert moved.assigned.active == {"0": {1: 2}}
    assert moved.pending_revocation.active == {"0": {0: 1}}
    assert step(moved, active=(1, 2)) is moved, "it has not said that it gave back"
    assert step(moved, active=(1, 2), owned=TargetTasks(tasks(0, 1))) is moved, "it still has it"
    done = step(moved, active=(1, 2), owned=TargetTasks(tasks(1)))
    assert (done.state, done.member_epoch, done.pending_revocation) == (MemberState.STABLE, 3, AssignedTasks())
    assert done.assigned.active == {"0": {1: 2, 2: 3}}


def test_who_gave_back_but_is_to_give_back_more_goes_one_epoch_further():
    who = member(state=MemberState.UNREVOKED_TASKS, active=since(p1=2), pending=since(p0=1))
    moved = step(who, active=(), epoch=5, owned=TargetTasks(tasks(1)))
    assert (moved.state, moved.member_epoch) == (MemberState.UNREVOKED_TASKS, 3)


def test_who_does_not_have_it_any_more_need_not_give_back():
    moved = step(member(active=since(p0=1)), active=(1,), owned=TargetTasks())
    assert (moved.state, moved.assigned.active) == (MemberState.STABLE, {"0": {1: 3}})


def test_what_others_have_is_waited_for():
    other = member("n", "q", active=since(p0=1))
    moved = step(member(), active=(0, 1), others=[other])
    assert (moved.state, moved.assigned.active) == (MemberState.UNRELEASED_TASKS, {"0": {1: 3}})
    assert step(moved, active=(0, 1)).assigned.active == {"0": {0: 3, 1: 3}}


def test_what_another_gives_back_is_not_free_yet():
    other = member("n", "q", state=MemberState.UNREVOKED_TASKS, pending=since(p0=1))
    assert step(member(), active=(0,), others=[other]).state is MemberState.UNRELEASED_TASKS


def test_a_process_has_a_task_in_one_role():
    sister = member("n", "p", standby=(0,))
    assert step(member(), active=(0,), others=[sister]).state is MemberState.UNRELEASED_TASKS
    stranger = member("n", "q", standby=(0,))
    assert step(member(), active=(0,), others=[stranger]).state is MemberState.STABLE
    assert step(member(), standby=(0,), others=[stranger]).assigned.standby == tasks(0)
    active_elsewhere = member("n", "q", active=since(p0=1))
    assert step(member(), standby=(0,), others=[active_elsewhere]).assigned.standby == tasks(0)
    active_here = member("n", "p", active=since(p0=1))
    assert step(member(), standby=(0,), others=[active_here]).state is MemberState.UNRELEASED_TASKS


def test_a_standby_that_becomes_active_gives_back_first():
    moved = step(member(standby=(0,)), active=(0,))
    assert (moved.state, moved.pending_revocation.standby) == (MemberState.UNREVOKED_TASKS, tasks(0))
    # The coordinator's tables still hold what it has just given back; with the next heartbeat they do not.
    done = step(moved, active=(0,), owned=TargetTasks())
    assert (done.state, done.member_epoch) == (MemberState.UNRELEASED_TASKS, 3)
    assert step(done, active=(0,)).assigned.active == {"0": {0: 3}}


def test_a_state_that_is_not_known_begins_again():
    who = member(state=MemberState.UNKNOWN)
    for owned in (None, TargetTasks(tasks(0))):
        with pytest.raises(Refused) as refused:
            step(who, active=(0,), owned=owned)
        assert refused.value.error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert step(who, active=(0,), owned=TargetTasks()).state is MemberState.STABLE
