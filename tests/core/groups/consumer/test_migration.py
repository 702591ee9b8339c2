"""From classic group to consumer group and back, while members run."""

from __future__ import annotations

import pytest

from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import Assignment, assignment_to_bytes
from tests.core.groups.performed_groups import NO_DELAY, GroupShell

BOTH = (TopicPartition("t", 0), TopicPartition("t", 1))


def classic_group(config=NO_DELAY, user_data=None):
    """A shell with a stable classic group of one member `old` that has both partitions."""
    shell = GroupShell(config)
    shell.create_topic("t", 2)
    first = shell.join_as_consumer("", ("t",))
    joined = shell.join_as_consumer(first.member_id, ("t",))
    given = assignment_to_bytes(Assignment(BOTH, user_data))
    shell.sync(joined.member_id, joined.generation_id, {joined.member_id: given})
    return shell, joined.member_id


def types(shell):
    return list(shell.coordinator.groups), list(shell.coordinator.consumer_groups.by_id)


def test_the_first_member_of_the_new_protocol_makes_it_a_consumer_group():
    shell, old = classic_group()
    shell.commit_offset(7, generation_id=1, member_id=old)
    reply = shell.beat("new", 0, topics=("t",))
    assert (reply.error_code, reply.member_epoch, shell.held(reply)) == (0, 2, {})
    assert types(shell) == ([], ["g"])
    assert shell.shares() == {old: ["t-0", "t-1"], "new": []}
    assert shell.offset() == 7
    assert shell.heartbeat(old, 1) == ErrorCode.REBALANCE_IN_PROGRESS


def test_members_that_wait_in_a_rebalance_are_sent_to_join_again():
    shell, old = classic_group()
    second = shell.join_as_consumer("", ("t",))
    token = shell.join_as_consumer(second.member_id, ("t",))
    assert isinstance(token, int)
    shell.beat("new", 0, topics=("t",))
    assert shell.answers[token].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert set(shell.shares()) == {old, second.member_id, "new"}


def test_when_the_last_of_the_new_protocol_goes_it_is_a_classic_group_again():
    shell, old = classic_group()
    shell.beat("new", 0, topics=("t",))
    first = shell.join_as_consumer(old, ("t",), owned=BOTH)
    shell.join_as_consumer(old, ("t",), owned=BOTH[:1])
    assert shell.held(shell.beat("new", 2)) == {"t": [1]}
    shell.beat("new", -1)
    assert types(shell) == (["g"], [])
    assert shell.coordinator.groups["g"].state.value == "PreparingRebalance"
    assert shell.heartbeat(old, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    again = shell.join_as_consumer(old, ("t",), owned=BOTH[:1])
    assert (again.leader, again.generation_id) == (old, 3)
    assert first.error_code == 0


@pytest.mark.parametrize("who", ["old", "another", "nobody"])
def test_what_comes_between_the_way_back_and_its_rebalance_is_no_second_one(who, monkeypatch):
    """Both are told to a timer: an assertion in it stood still for all groups of the partition."""
    shell, old = classic_group()
    shell.beat("new", 0, topics=("t",))
    shell.join_as_consumer(old, ("t",), owned=BOTH)
    with monkeypatch.context() as patch:
        patch.setattr(shell, "run_due", lambda: None)  # the timer rings later
        shell.beat("new", -1)
        if who == "old":
            token = shell.join_as_consumer(old, ("t",))
        elif who == "another":
            token = shell.join_as_consumer(shell.join_as_consumer("", ("t",)).member_id, ("t",))
        else:
            shell.leave((old, None))
    shell.run_due()
    shell.advance(60_000)
    if who == "nobody":
        assert shell.coordinator.groups["g"].state.value == "Empty"
    else:
        joined = token if not isinstance(token, int) else shell.answers[token]
        assert joined.error_code == 0
        assert joined.generation_id > 2


def test_a_new_member_that_is_late_goes_the_same_way():
    shell, old = classic_group()
    shell.beat("new", 0, topics=("t",))
    for _ in range(9):
        shell.advance(5_000)
        shell.join_as_consumer(old, ("t",), owned=BOTH[:1])
    assert types(shell) == (["g"], [])


def test_both_ways_are_in_the_log():
    shell, old = classic_group()
    shell.commit_offset(7, generation_id=1, member_id=old)
    shell.beat("new", 0, topics=("t",))
    before = shell.described()
    shell.restart()
    assert shell.described() == before
    shell.beat("new", -1)
    shell.restart()
    assert types(shell) == (["g"], [])
    group = shell.coordinator.groups["g"]
    assert (list(group.members), group.generation_id) == ([old], 2)
    assert shell.offset() == 7


@pytest.mark.parametrize(
    ("policy", "may_upgrade", "may_downgrade"),
    [
        ("bidirectional", True, True),
        ("upgrade", True, False),
        ("downgrade", False, True),
        ("disabled", False, False),
    ],
)
def test_the_policy(policy, may_upgrade, may_downgrade):
    config = GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_migration_policy=policy)
    shell, _ = classic_group(config)
    assert (shell.beat("new", 0, topics=("t",)).error_code == 0) is may_upgrade
    other = GroupShell(config)
    other.create_topic("t", 2)
    other.beat("new", 0, topics=("t",))
    other.join_as_consumer("old", ("t",))
    other.beat("new", -1)
    assert (types(other) == (["g"], [])) is may_downgrade


def test_groups_that_do_not_share_as_consumers_stay_classic():
    shell = GroupShell()
    shell.stable_pair(protocol_type="connect")
    assert shell.beat("new", 0, topics=("t",)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    other = GroupShell()
    other.stable_pair()  # their subscriptions are nonsense
    assert other.beat("new", 0, topics=("t",)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    third, _ = classic_group(user_data=b"own assignor")
    assert third.beat("new", 0, topics=("t",)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert types(third) == (["g"], [])


def test_a_group_too_large_for_the_other_side_stays_what_it_is():
    shell, _ = classic_group(GroupConfig(group_initial_rebalance_delay_ms=0, group_consumer_max_size=0))
    assert shell.beat("new", 0, topics=("t",)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_static_member_may_change_its_protocol_and_back():
    shell = GroupShell()
    shell.create_topic("t", 2)
    joined = shell.join_as_consumer("", ("t",), instance_id="i")
    given = assignment_to_bytes(Assignment(BOTH))
    shell.sync(joined.member_id, joined.generation_id, {joined.member_id: given}, instance_id="i")
    reply = shell.beat("new", 0, topics=("t",), instance_id="i")
    assert (shell.held(reply), types(shell)) == ({"t": [0, 1]}, ([], ["g"]))
    back = shell.join_as_consumer("", ("t",), instance_id="i")
    assert (back.error_code, types(shell)) == (0, (["g"], []))
    assert shell.synced(back.member_id, back.generation_id, instance_id="i") == ["t-0", "t-1"]
    shell.restart()
    assert list(shell.coordinator.groups["g"].members) == [back.member_id]


def test_a_static_member_that_comes_back_with_another_subscription_makes_all_share_anew():
    shell = GroupShell()
    shell.create_topic("t", 2)
    shell.beat("new", 0, topics=("u",), instance_id="i")
    shell.beat("new", -2, instance_id="i")
    shell.join_as_consumer("", ("t",), instance_id="i")
    assert shell.coordinator.groups["g"].state.value == "PreparingRebalance"


def test_an_empty_group_of_either_kind_makes_room():
    shell = GroupShell()
    shell.create_topic("t", 2)
    shell.commit_offset(5)
    shell.beat("new", 0, topics=("t",))
    assert (types(shell), shell.offset()) == (([], ["g"]), 5)
    shell.beat("new", -1)
    assert shell.join_as_consumer("unknown", ("t",)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    first = shell.join_as_consumer("", ("t",))
    assert types(shell) == (["g"], [])
    joined = shell.join_as_consumer(first.member_id, ("t",))
    shell.sync(joined.member_id, joined.generation_id, {})
    shell.restart()
    assert (types(shell), shell.offset()) == ((["g"], []), 5)


def test_what_a_restart_reads_of_an_upgraded_group_is_what_it_was():
    """Its epoch too: members that hold the classic generation would be ahead of a group that begins again at 0."""
    shell, old = classic_group()
    shell.beat("new", 0, topics=("t",))
    live = shell.coordinator.consumer_groups.by_id["g"]
    up_to_upgrade = next(end for end in range(len(shell.log) + 1) if shell.replayed(end).consumer_groups.by_id)
    while old not in shell.replayed(up_to_upgrade).consumer_groups.by_id["g"].targets:
        up_to_upgrade += 1
    upgraded = shell.replayed(up_to_upgrade).consumer_groups.by_id["g"]
    assert (upgraded.group_epoch, upgraded.metadata_hash != 0) == (1, True)
    again = shell.replayed().consumer_groups.by_id["g"]
    assert (again.group_epoch, again.assignment_epoch, again.metadata_hash) == (
        live.group_epoch,
        live.assignment_epoch,
        live.metadata_hash,
    )


@pytest.mark.parametrize("instance_id", [None, "one"])
def test_a_classic_member_that_is_dead_when_the_group_is_upgraded_is_put_out(instance_id):
    """Nothing ended its session: its partitions were nobody's until the broker was started again."""
    shell = GroupShell(NO_DELAY)
    shell.create_topic("t", 2)
    joined = shell.join_as_consumer("", ("t",), instance_id=instance_id)
    if instance_id is None:
        joined = shell.join_as_consumer(joined.member_id, ("t",))
    given = assignment_to_bytes(Assignment(BOTH))
    shell.sync(joined.member_id, joined.generation_id, {joined.member_id: given}, instance_id=instance_id)
    shell.beat("new", 0, topics=("t",))
    group = shell.coordinator.consumer_groups.by_id["g"]
    session_timeout_ms = group.members[joined.member_id].classic.session_timeout_ms
    for _ in range(session_timeout_ms // 1000):
        shell.advance(1000)
        reply = shell.beat("new", group.members["new"].member_epoch)
    assert shell.shares() == {"new": ["t-0", "t-1"]}
    assert reply.error_code == 0
