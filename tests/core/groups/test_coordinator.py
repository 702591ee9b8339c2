"""The whole coordinator under random requests: what the log says is what it knows, and nobody waits for ever."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.groups.alarms import ALARMS_SPARE
from oncelog.core.groups.classic.group import GroupState
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.wire.log_records.consumer_offsets import GroupDeleted
from tests.core.groups.performed_groups import NO_DELAY, GroupShell
from tests.core.groups.test_offsets import delete_group, delete_offsets

HOUR_MS = 3_600_000
GROUPS = ["g", "h"]


def logged(coordinator: GroupCoordinator) -> Any:
    """What the log alone decides."""
    metadata = {each.group_id: each.metadata for each in coordinator.groups.values() if each.metadata is not None}
    committed = {each: coordinator.offsets.of_group(each) for each in coordinator.offsets.groups()}
    pending = {
        producer_id: {key: entry.record for key, entry in entries.items()}
        for producer_id, entries in coordinator.offsets.pending.entries().items()
    }
    return metadata, committed, pending


class Play:
    """Random clients of two groups, drawn from a seed."""

    def __init__(self, seed: int, config: GroupConfig) -> None:
        self.draw = random.Random(seed)
        self.shell = GroupShell(config)
        self.committed_end = 0
        self.waiting: set[int] = set()

    def member_of(self, group_id: str) -> str:
        group = self.shell.coordinator.groups.get(group_id)
        known = [*group.members, *group.pending_members] if group else []
        return self.draw.choice([*known, "", "ghost"])

    def generation_of(self, group_id: str) -> int:
        group = self.shell.coordinator.groups.get(group_id)
        return (group.generation_id if group else 0) + self.draw.choice([0, 0, 0, 0, -1, -99])

    def step(self) -> None:
        shell, draw = self.shell, self.draw
        group_id = draw.choice(GROUPS)
        member_id, generation_id = self.member_of(group_id), self.generation_of(group_id)
        instance_id = draw.choice([None, None, "i", "j"])
        match draw.randrange(15):
            case 0 | 1 | 2 | 3:
                protocols = draw.choice([(("range", b"r"),), (("sticky", b"s"), ("range", b"r2"))])
                version = draw.choice([0, 3, 5, 9])
                answer = shell.join(
                    member_id, group_id=group_id, instance_id=instance_id, protocols=protocols, version=version
                )
                self.note(answer)
            case 4 | 5 | 6:
                assignments = {member_id: b"a%d" % draw.randrange(9)}
                self.note(shell.sync(member_id, generation_id, assignments, group_id=group_id))
            case 7:
                shell.heartbeat(member_id, generation_id, group_id=group_id)
            case 8:
                shell.leave((member_id, instance_id), group_id=group_id)
            case 9:
                shell.commit_offset(draw.randrange(99), group_id=group_id, partition=draw.randrange(2))
            case 10 | 11:
                shell.txn_commit_offset(draw.randrange(99), group_id=group_id, producer_id=draw.choice([1, 2]))
            case 12:
                self.commit()
                shell.marker(draw.choice([1, 2]), commit=draw.random() < 0.6)
                self.committed_end = len(shell.log)
            case 13:
                draw.choice([lambda: delete_group(shell, group_id), lambda: delete_offsets(shell, ("t", 0))])()
            case 14:
                draw.choice([self.commit, self.hold, self.pause, self.drop])()
        if not shell.holds_commits:
            self.committed_end = len(shell.log)

    def note(self, answer: Any) -> None:
        if isinstance(answer, int):
            self.waiting.add(answer)

    def commit(self) -> None:
        self.shell.holds_commits = False
        self.shell.commit()
        self.committed_end = len(self.shell.log)

    def hold(self) -> None:
        self.shell.holds_commits = True
        self.committed_end = len(self.shell.log) - len(self.shell.uncommitted)

    def pause(self) -> None:
        self.shell.advance(self.draw.choice([10, 7_000, 61_000]))

    def drop(self) -> None:
        if self.waiting:
            token = self.draw.choice(sorted(self.waiting))
            self.waiting.discard(token)
            if token not in self.shell.answers:
                self.shell.perform(self.shell.coordinator.cancel(token, self.shell.now_ms))


@pytest.mark.parametrize("config", [NO_DELAY, GroupConfig()], ids=["no delay", "initial delay"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_replay_of_the_log_knows_what_the_live_coordinator_knows(config, seed):
    play = Play(seed, config)
    for _ in range(60):
        play.step()
        assert logged(play.shell.replayed(play.committed_end)) == logged(play.shell.coordinator)
        for group in play.shell.coordinator.groups.values():
            check(group)
    play.commit()
    play.shell.advance(2 * HOUR_MS)
    assert play.waiting <= play.shell.answers.keys(), "a request was never answered"
    states = {each.state for each in play.shell.coordinator.groups.values()}
    assert states <= {GroupState.EMPTY}, "nobody sends heartbeats, so nobody is a member"


def check(group: Any) -> None:
    """What holds for every group after every step."""
    assert (group.leader_id in group.members) == bool(group.members)
    assert set(group.static_members.values()) == {each.member_id for each in group.members.values() if each.is_static}
    assert all(member_id == each.member_id for member_id, each in group.members.items())
    for member in group.members.values():
        assert not (member.is_awaiting_join and member.is_awaiting_sync)
        assert not member.is_awaiting_sync or group.state is GroupState.COMPLETING_REBALANCE
        has_deadline = member.session_deadline_ms is not None
        assert has_deadline or member.is_awaiting_join or member.is_awaiting_sync
    assert (group.state in (GroupState.EMPTY, GroupState.DEAD)) <= (not group.members)
    assert (group.join_deadline_ms is not None) <= (group.state is GroupState.PREPARING_REBALANCE)


def test_apply_alone_answers_nobody_and_the_timer_is_due_at_once():
    shell = GroupShell()
    joined = shell.join_with_id()
    shell.holds_commits = True
    token = shell.sync(joined.member_id, 1, {joined.member_id: b"a"})
    assert shell.coordinator.next_timer() > shell.now_ms
    for record in shell.uncommitted:
        shell.coordinator.apply(record)
    assert token not in shell.answers
    assert shell.coordinator.next_timer() <= shell.now_ms
    decision = shell.coordinator.handle_timer(shell.now_ms)
    assert [each for each, _ in decision.replies] == [token]


def test_requests_that_are_refused_change_nothing_that_is_logged():
    shell = GroupShell()
    shell.stable_pair()
    before = logged(shell.coordinator), len(shell.log)
    shell.commit_offset(1)
    shell.commit_offset(1, member_id="ghost", generation_id=2)
    shell.txn_commit_offset(1, member_id="ghost")
    delete_group(shell)
    assert (logged(shell.coordinator), len(shell.log)) == before


def test_a_group_tombstone_without_tombstones_of_its_offsets_leaves_a_simple_group():
    """What compaction, or another implementation, may leave behind."""
    shell = GroupShell()
    joined = shell.join_with_id()
    shell.sync(joined.member_id, 1, {})
    shell.commit_offset(4, member_id=joined.member_id, generation_id=1)
    shell.coordinator.apply(GroupDeleted("g"))
    group = shell.coordinator.groups["g"]
    assert (group.state, group.metadata, shell.offset()) == (GroupState.EMPTY, None, 4)


def test_alarms_of_groups_that_come_and_go_do_not_pile_up():
    shell = GroupShell()
    for index in range(500):
        shell.join(group_id=f"g{index % 3}", version=4)
        shell.leave((shell.coordinator.groups[f"g{index % 3}"].pending_members.popitem()[0], None))
        shell.coordinator.groups.clear()
    assert len(shell.coordinator._alarms) <= 2 * ALARMS_SPARE


def test_members_are_counted_with_the_ids_that_were_given():
    shell = GroupShell()
    shell.join(group_id="a", version=4)
    shell.beat("m", 0, group_id="b", topics=("t",))
    assert shell.coordinator.member_count == 2
    assert shell.coordinator.knows_member("b", "m", None)
    assert not shell.coordinator.knows_member("b", "n", "i")
    assert not shell.coordinator.knows_member("c", "m", None)
