"""Members of the classic protocol in a consumer group."""

from __future__ import annotations

import pytest

from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from tests.core.groups.performed_groups import GroupShell


@pytest.fixture
def shell():
    made = GroupShell()
    made.create_topic("t", 2)
    made.beat("new", 0, topics=("t",))
    return made


def join(shell, member_id="old", **how):
    how.setdefault("rebalance_timeout_ms", 5_000)
    return shell.join_as_consumer(member_id, ("t",), **how)


def test_it_joins_without_waiting_and_without_a_leader(shell):
    reply = join(shell)
    assert (reply.error_code, reply.generation_id, reply.protocol_name, reply.leader) == (0, 3, "range", "")
    assert shell.synced("old", 3) == []


def test_an_id_comes_first_where_the_version_knows_that(shell):
    reply = join(shell, "")
    assert reply.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert join(shell, reply.member_id).error_code == 0
    assert join(shell, "", version=3).error_code == 0


def test_a_heartbeat_says_when_there_is_a_step_to_do(shell):
    join(shell)
    shell.synced("old", 3)
    assert shell.heartbeat("old", 3) == 0
    shell.beat("new", 2, owned={"t": (0, 1)})
    assert shell.heartbeat("old", 3) == 0
    shell.beat("new", 2, owned={"t": (0,)})
    assert shell.heartbeat("old", 3) == ErrorCode.REBALANCE_IN_PROGRESS
    again = join(shell)
    assert shell.synced("old", again.generation_id) == ["t-1"]
    assert shell.heartbeat("old", again.generation_id) == 0


def test_it_gives_back_by_joining_without_a_partition():
    shell = GroupShell(GroupConfig(group_consumer_migration_policy="upgrade", group_consumer_assignment_interval_ms=0))
    shell.create_topic("t", 2)
    shell.beat("new", 0, topics=("t",))
    join(shell)
    shell.beat("new", -1)
    first = join(shell)
    assert shell.synced("old", first.generation_id) == ["t-0", "t-1"]
    shell.beat("other", 0, topics=("t",))
    assert shell.heartbeat("old", first.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    both = (TopicPartition("t", 0), TopicPartition("t", 1))
    second = join(shell, owned=both)
    kept = shell.synced("old", second.generation_id)
    assert len(kept) == 1
    assert shell.heartbeat("old", second.generation_id) == ErrorCode.REBALANCE_IN_PROGRESS
    third = join(shell, owned=tuple(each for each in both if str(each) in kept))
    assert third.generation_id > second.generation_id
    assert shell.heartbeat("old", third.generation_id) == 0


@pytest.mark.parametrize(
    ("how", "error_code"),
    [
        ({"names": ("sticky",)}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "unknown"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_joins_that_are_refused(shell, how, error_code):
    join(shell)
    assert join(shell, "second", **how).error_code == error_code


def test_nonsense_for_a_subscription_is_refused(shell):
    assert shell.join("old", protocols=(("range", b"m"),)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_who_is_no_classic_member_is_unknown(shell):
    assert shell.heartbeat("new", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.heartbeat("nobody", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.sync("new", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_generation_or_protocol_is_refused(shell):
    join(shell)
    assert shell.heartbeat("old", 2) == ErrorCode.ILLEGAL_GENERATION
    assert shell.sync("old", 2).error_code == ErrorCode.ILLEGAL_GENERATION
    assert shell.sync("old", 3, protocol_name="sticky").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert shell.sync("old", 3, protocol_type="connect").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_of_a_former_epoch_has_to_join_first(shell):
    join(shell)
    shell.create_topic("t", 3)
    shell.beat("new", 2)
    assert shell.sync("old", 3).error_code == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize("what", ["session", "join", "sync"])
def test_who_does_not_come_in_time_is_out(shell, what):
    reply = join(shell, session_timeout_ms=6_000)
    if what != "sync":
        shell.synced("old", reply.generation_id)
    if what == "join":
        shell.create_topic("t", 3)
        shell.beat("new", 2, owned={"t": (0, 1)})
        shell.heartbeat("old", 3)
    shell.advance(4_999)
    if what != "session":
        shell.heartbeat("old", 3)
    assert "old" in shell.shares()
    shell.advance(1_001 if what == "session" else 1)
    assert "old" not in shell.shares()


def test_a_static_member_is_replaced_by_its_instance_id(shell):
    first = join(shell, "", instance_id="i")
    second = join(shell, "", instance_id="i")
    assert first.member_id != second.member_id
    assert shell.heartbeat(first.member_id, first.generation_id, instance_id="i") == ErrorCode.FENCED_INSTANCE_ID
    assert set(shell.shares()) == {"new", second.member_id}
