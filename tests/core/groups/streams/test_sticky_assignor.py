"""Each task has one active owner, loads are equal, what was there stays, standbys are on other processes."""

from __future__ import annotations

from collections import Counter
from random import Random

import hypothesis.strategies as st
from hypothesis import given, settings

from oncelog.core.groups.streams.sticky_assignor import MemberSpec, assign
from oncelog.core.groups.streams.topology import ConfiguredSubtopology, InternalTopic
from oncelog.wire.log_records.streams_groups import TargetTasks


def subtopology(task_count, *, is_stateful=False):
    changelogs = {"c": InternalTopic("c", task_count, 0, ())} if is_stateful else {}
    return ConfiguredSubtopology(task_count, frozenset("t"), frozenset(), {}, changelogs)


def member(member_id, process_id=None, active=None, standby=None):
    former = TargetTasks(
        {name: frozenset(each) for name, each in (active or {}).items()},
        {name: frozenset(each) for name, each in (standby or {}).items()},
    )
    return MemberSpec(member_id, process_id or member_id, former)


def active(result):
    return {each: {name: set(found) for name, found in tasks.active.items()} for each, tasks in result.items()}


def standby(result):
    return {each: {name: set(found) for name, found in tasks.standby.items()} for each, tasks in result.items()}


def flat(tasks):
    return {(name, index) for name, found in tasks.items() for index in found}


def test_nobody_gets_nothing():
    assert assign([], {"0": subtopology(3)}, 0) == {}


def test_tasks_are_dealt_out_by_name():
    found = active(assign([member("a"), member("b")], {"0": subtopology(2), "1": subtopology(2)}, 0))
    assert found == {"a": {"0": {0}, "1": {0}}, "b": {"0": {1}, "1": {1}}}


def test_what_a_member_had_stays_as_far_as_its_share_goes():
    found = active(assign([member("a", active={"0": {0, 1, 2, 3}}), member("b")], {"0": subtopology(4)}, 0))
    assert found == {"a": {"0": {0, 1}}, "b": {"0": {2, 3}}}


def test_a_lost_task_goes_to_its_standby():
    members = [member("a", active={"0": {0}}), member("b", active={"0": {1}}, standby={"0": {2}})]
    found = active(assign(members, {"0": subtopology(3, is_stateful=True)}, 1))
    assert found["b"] == {"0": {1, 2}}


def test_standbys_are_on_other_processes_and_only_for_tasks_with_state():
    members = [member("a1", "a"), member("a2", "a"), member("b1", "b")]
    result = assign(members, {"0": subtopology(3), "1": subtopology(3, is_stateful=True)}, 1)
    of_process = {each.member_id: each.process_id for each in members}
    for member_id, tasks in standby(result).items():
        for name, index in flat(tasks):
            assert name == "1"
            owner = next(each for each, found in active(result).items() if index in found.get(name, ()))
            assert of_process[owner] != of_process[member_id]


def test_more_standbys_than_processes_are_not_given():
    assert standby(assign([member("a"), member("b", "a")], {"0": subtopology(2, is_stateful=True)}, 2)) == {
        "a": {},
        "b": {},
    }


def test_who_was_active_stands_by_when_it_loses_the_task():
    members = [member("a", active={"0": {0, 1}}), member("b")]
    result = assign(members, {"0": subtopology(2, is_stateful=True)}, 1)
    assert active(result) == {"a": {"0": {0}}, "b": {"0": {1}}}
    assert standby(result) == {"a": {"0": {1}}, "b": {"0": {0}}}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 2))
def test_any_group(seed, replicas):
    random = Random(seed)
    topology = {
        str(index): subtopology(random.randrange(1, 6), is_stateful=random.random() < 0.5)
        for index in range(random.randrange(1, 4))
    }
    names = [f"m{index}" for index in range(random.randrange(1, 6))]
    processes = {name: f"p{random.randrange(1, 4)}" for name in names}
    former = {name: TargetTasks() for name in names}
    for _ in range(3):
        specs = [MemberSpec(name, processes[name], former[name]) for name in names]
        result = assign(specs, topology, replicas)
        check(result, topology, processes, replicas)
        assert assign(specs[::-1], topology, replicas) == result, "the order of members decides nothing"
        if len({processes[name] for name in names}) == len(names):  # else loads of processes and members differ
            again = [MemberSpec(name, processes[name], result[name]) for name in names]
            assert active(assign(again, topology, replicas)) == active(result), "a second look moves nothing"
        names = [name for name in names if random.random() < 0.8] or names[:1]
        former = {name: result[name] for name in names}
        if random.random() < 0.5:
            new = f"n{random.randrange(100)}"
            names, former[new], processes[new] = [*names, new], TargetTasks(), f"p{random.randrange(1, 4)}"


def check(result, topology, processes, replicas):
    tasks = {(name, index) for name, each in topology.items() for index in range(each.task_count)}
    owned = [task for found in active(result).values() for task in flat(found)]
    assert sorted(owned) == sorted(tasks), "each task has one active owner"
    places = Counter()
    for member_id in result:
        mine = flat(result[member_id].active) | flat(result[member_id].standby)
        assert len(mine) == len(flat(result[member_id].active)) + len(flat(result[member_id].standby))
        places.update((processes[member_id], task) for task in mine)
    assert all(count == 1 for count in places.values()), "a process has a task in one role"
    stateful = {task for task in tasks if topology[task[0]].is_stateful}
    wanted = min(replicas, len({processes[each] for each in result}) - 1)
    standbys = Counter(task for found in standby(result).values() for task in flat(found))
    assert standbys == Counter(dict.fromkeys(stateful, wanted)) if wanted else not standbys


def test_the_members_of_one_process_share_evenly():
    names = [f"m{index}" for index in range(4)]
    found = active(assign([member(name, "p") for name in names], {"0": subtopology(10)}, 0))
    assert sorted(len(flat(each)) for each in found.values()) == [2, 2, 3, 3]
