"""Streams groups among the others of a coordinator, over time, and under random histories."""

from __future__ import annotations

from random import Random

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.streams.topology import StatusCode
from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from tests.core.groups.streams.applications import AT_ONCE, StreamsShell, held, ids, stateful

E = ErrorCode
SESSION_MS = 45_000


def codes(response):
    return [StatusCode(each.status_code) for each in response.status]


def owned(active=(), standby=()):
    return {
        "active_tasks": ids({"0": set(active)} if active else {}),
        "standby_tasks": ids({"0": set(standby)} if standby else {}),
        "warmup_tasks": [],
    }


def test_a_new_group_waits_for_more_members():
    shell = StreamsShell(GroupConfig(group_streams_assignment_interval_ms=0))
    shell.create_topic("counts", 2)
    first = shell.streams_beat("a", 0, topology=stateful())
    assert (codes(first), first.member_epoch, first.active_tasks) == ([StatusCode.ASSIGNMENT_DELAYED], 1, [])
    assert first.status[0].status_detail == "Assignment delayed due to the configured initial rebalance delay."
    shell.advance(2_999)
    assert codes(shell.streams_beat("b", 0, topology=stateful())) == [StatusCode.ASSIGNMENT_DELAYED]
    assert shell.described().group_state == "Assigning"
    shell.advance(1)
    assert shell.described().group_state == "Reconciling"
    assert held(shell.streams_beat("a", 1).active_tasks) == ["0_0"]
    assert held(shell.streams_beat("b", 1).active_tasks) == ["0_1"]
    assert shell.described().group_state == "Stable"


def test_who_is_gone_before_the_delay_is_over_gets_nothing():
    shell = StreamsShell(GroupConfig(group_streams_assignment_interval_ms=0))
    shell.create_topic("counts", 2)
    shell.streams_beat("a", 0, topology=stateful())
    shell.streams_beat("a", -1)
    shell.advance(3_000)
    assert shell.described().group_state == "Empty"
    shell.streams_beat("b", 0, topology=stateful())
    shell.advance(3_000)
    assert held(shell.streams_beat("b", 1).active_tasks) == ["0_0", "0_1"]


def test_assignments_are_an_interval_apart():
    shell = StreamsShell(GroupConfig(group_streams_initial_rebalance_delay_ms=0))
    shell.create_topic("counts", 2)
    shell.streams_beat("a", 0, topology=stateful())
    late = shell.streams_beat("b", 0, topology=stateful())
    assert codes(late) == [StatusCode.ASSIGNMENT_DELAYED]
    assert late.status[0].status_detail == "Assignment delayed due to the configured assignment interval."
    shell.advance(1_000)
    assert shell.streams_beat("b", late.member_epoch).member_epoch == late.member_epoch + 1


def test_a_silent_member_is_put_out_and_its_tasks_are_free():
    shell = StreamsShell()
    shell.create_topic("counts", 2)
    shell.streams_beat("a", 0, topology=stateful())
    shell.advance(SESSION_MS - 1)
    shell.streams_beat("b", 0, topology=stateful())
    shell.advance(1)
    assert [each.member_id for each in shell.described().members] == ["b"]
    assert held(shell.streams_beat("b", 3).active_tasks) == ["0_0", "0_1"]


def test_who_does_not_give_back_in_time_is_put_out():
    shell = StreamsShell()
    shell.create_topic("counts", 2)
    shell.streams_beat("a", 0, topology=stateful(), rebalance_timeout_ms=1_000)
    shell.streams_beat("b", 0, topology=stateful())
    assert held(shell.streams_beat("a", 2).active_tasks) == ["0_0"]
    shell.advance(999)
    shell.streams_beat("a", 2)
    shell.advance(1)
    assert shell.streams_beat("a", 2).error_code == E.UNKNOWN_MEMBER_ID


def test_standbys_follow_the_groups_config():
    shell = StreamsShell()
    shell.create_topic("counts", 2)
    overrides: dict[str, str] = {}
    shell.coordinator.streams_groups._overrides = lambda _: overrides
    shell.streams_beat("a", 0, topology=stateful())
    shell.streams_beat("b", 0, topology=stateful())
    shell.streams_beat("a", 2)
    shell.streams_beat("a", 2, **owned({0}))
    shell.streams_beat("b", 3)
    overrides["streams.num.standby.replicas"] = "9"
    standby = shell.streams_beat("a", 3)
    assert (standby.member_epoch, held(standby.standby_tasks)) == (4, ["0_1"])
    assert held(shell.streams_beat("b", 3).standby_tasks) == ["0_0"]


def test_a_restart_goes_on_where_it_was():
    shell = StreamsShell()
    shell.create_topic("counts", 2)
    shell.streams_beat("a", 0, topology=stateful())
    shell.streams_beat("b", 0, topology=stateful())
    shell.streams_beat("a", 2)
    before = shell.described()
    shell.restart()
    after = shell.described()
    assert (after.members, after.group_epoch, after.assignment_epoch) == (
        before.members,
        before.group_epoch,
        before.assignment_epoch,
    )
    assert shell.streams_beat("a", 2, **owned({0})).member_epoch == 3
    assert held(shell.streams_beat("b", 3).active_tasks) == ["0_1"]
    shell.advance(SESSION_MS)
    assert shell.described().group_state == "Empty"


def test_groups_of_other_kinds_stay_what_they_are():
    shell = StreamsShell()
    shell.join_with_id(group_id="classic")
    shell.beat("m", 0, group_id="consumer", topics=("words",))
    for group_id in ("classic", "consumer"):
        response = shell.streams_beat("m", 0, group_id=group_id)
        assert response.error_code == E.GROUP_ID_NOT_FOUND
        assert response.error_message == f"Group {group_id} is not a streams group."
        assert shell.streams_beat("m", -1, group_id=group_id).error_code == E.GROUP_ID_NOT_FOUND
        assert shell.described(group_id).error_message == f"Group {group_id} is not a streams group."
    shell.streams_beat("m", 0)
    assert shell.beat("m", 0, topics=("words",)).error_message == "Group g is not a consumer group."
    assert shell.beat("m", -1).error_message == "Group g is not a consumer group."
    assert shell.join().error_code == E.INCONSISTENT_GROUP_PROTOCOL
    assert shell.heartbeat("m", 1) == E.UNKNOWN_MEMBER_ID


def test_an_empty_classic_group_becomes_one_and_an_empty_one_becomes_classic():
    shell = StreamsShell()
    shell.commit_offset(7, topic="words")
    assert shell.streams_beat("m", 0).error_code == E.NONE
    assert shell.offset(topic="words") == 7
    shell.streams_beat("m", -1)
    assert shell.join_with_id().error_code == E.NONE
    assert shell.described().error_message == "Group g is not a streams group."
    assert shell.offset(topic="words") == 7
    shell.restart()
    assert "g" in shell.coordinator.groups
    assert "g" not in shell.coordinator.streams_groups.by_id


def test_only_an_empty_group_is_deleted_and_its_offsets_with_it():
    shell = StreamsShell()
    shell.streams_beat("m", 0)
    assert shell.commit_offset(7, topic="words", member_id="m", generation_id=2, version=9) == E.NONE

    def delete():
        reply = shell.perform(shell.coordinator.delete_groups(DeleteGroupsRequest(groups_names=["g"])))
        return reply.results[0].error_code

    assert delete() == E.NON_EMPTY_GROUP
    shell.streams_beat("m", -1)
    assert delete() == E.NONE
    assert shell.described().error_message == "Group g not found."
    assert shell.offset(topic="words") == -1
    assert not shell.coordinator.knows_group("g")
    assert len(shell.replayed()) == 0


def test_expired_offsets_take_an_empty_group_along():
    shell = StreamsShell()
    shell.streams_beat("m", 0)
    shell.commit_offset(7, topic="words", member_id="m", generation_id=2, version=9)
    shell.streams_beat("m", -1)
    shell.advance(AT_ONCE.offsets_retention_ms + 2 * AT_ONCE.offsets_retention_check_interval_ms)
    assert not shell.coordinator.knows_group("g")


class Application:
    """One member that does as it is told: gives back, then says so; what it works on is `active`."""

    def __init__(self, shell, name, process_id):
        self.shell, self.name, self.process_id = shell, name, process_id
        self.member_epoch = 0
        self.active: set[int] = set()
        self.standby: set[int] = set()

    def beat(self, *, lose_answer=False):
        joins = self.member_epoch == 0
        said = {"topology": stateful(), "process_id": self.process_id} if joins else owned(self.active, self.standby)
        response = self.shell.streams_beat(self.name, self.member_epoch, **said)
        if lose_answer:
            return
        if response.error_code in (E.FENCED_MEMBER_EPOCH, E.UNKNOWN_MEMBER_ID):
            self.member_epoch, self.active, self.standby = 0, set(), set()
            return
        assert response.error_code == E.NONE, response.error_message
        self.member_epoch = response.member_epoch
        if response.active_tasks is not None:
            self.active = {index for each in response.active_tasks for index in each.partitions}
            self.standby = {index for each in response.standby_tasks for index in each.partitions}


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_a_task_never_has_two_owners_and_all_are_owned_in_the_end(seed):
    random = Random(seed)
    replicas = random.randrange(3)
    config = GroupConfig(
        group_streams_initial_rebalance_delay_ms=random.choice((0, 3_000)),
        group_streams_assignment_interval_ms=random.choice((0, 1_000)),
        group_streams_num_standby_replicas=replicas,
    )
    shell = StreamsShell(config, words=random.randrange(1, 6))
    members: list[Application] = []
    for count in range(40):
        match random.randrange(8):
            case 0:
                members.append(Application(shell, f"m{count}", f"p{random.randrange(3)}"))
            case 1 if members:
                gone = members.pop(random.randrange(len(members)))
                if random.random() < 0.5 and gone.member_epoch:
                    shell.streams_beat(gone.name, -1)
            case 2 if random.random() < 0.3:
                shell.restart()
            case 3:
                shell.advance(random.choice((500, 3_000)))
            case _ if members:
                random.choice(members).beat(lose_answer=random.random() < 0.1)
        check(members)
    for _ in range(30):
        shell.advance(3_000)
        for each in members:
            each.beat()
            check(members)
    if members:
        partitions = set(range(shell.topics.topics["words"].partition_count))
        assert sorted(index for each in members for index in each.active) == sorted(partitions)
        assert shell.described().group_state == "Stable"
        wanted = min(replicas, len({each.process_id for each in members}) - 1)
        assert sum(len(each.standby) for each in members) == wanted * len(partitions)


def check(members):
    live = [index for each in members for index in each.active]
    assert len(live) == len(set(live)), "a task has two owners"
    for process_id in {each.process_id for each in members}:
        tasks = [i for each in members if each.process_id == process_id for i in (*each.active, *each.standby)]
        assert len(tasks) == len(set(tasks)), "a process has a task twice"


@pytest.mark.parametrize("gone", [0, 1])
def test_the_log_alone_says_all(gone):
    """Each prefix of the log can be read, as after a crash at that record."""
    shell = StreamsShell()
    shell.create_topic("counts", 2)
    for member_id in ("a", "b"):
        shell.streams_beat(member_id, 0, topology=stateful())
    shell.streams_beat("a", 2)
    shell.streams_beat("ab"[gone], -1)
    for end in range(len(shell.log) + 1):
        coordinator = shell.replayed(end)
        coordinator.loaded(shell.now_ms)
    assert coordinator.streams_groups.by_id["g"].members.keys() == {"ab"[1 - gone]}
