"""ConsumerGroupHeartbeat: who is refused, who is fenced, who gets what."""

from __future__ import annotations

import pytest

from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from tests.core.groups.performed_groups import GroupShell


@pytest.fixture
def shell():
    made = GroupShell()
    made.create_topic("t", 2)
    return made


@pytest.mark.parametrize(
    ("how", "error_code"),
    [
        ({"member_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": {"t": (0,)}}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"assignor": "none"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"topics": None, "regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"member_epoch": -3}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": -2}, ErrorCode.INVALID_REQUEST),
        ({"member_epoch": 4}, ErrorCode.GROUP_ID_NOT_FOUND),
        ({"member_epoch": -1}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_refusals_leave_no_trace(shell, how, error_code):
    member = how.pop("member_id", "m")
    reply = shell.beat(member, how.pop("member_epoch", 0), **{"topics": ("t",), **how})
    assert reply.error_code == error_code
    assert reply.error_message
    assert (shell.log, shell.coordinator.consumer_groups.by_id) == ([], {})


def test_before_version_1_the_broker_makes_the_id(shell):
    assert shell.beat("", 0, topics=("t",), version=0).member_id == "made-1"


def test_the_first_member_gets_everything(shell):
    reply = shell.beat("m", 0, topics=("t",))
    assert (reply.member_epoch, reply.heartbeat_interval_ms) == (2, 5000)
    assert shell.held(reply) == {"t": [0, 1]}


def test_who_has_heard_its_assignment_does_not_hear_it_again_unless_it_says_everything(shell):
    shell.beat("m", 0, topics=("t",))
    assert shell.beat("m", 2).assignment is None
    assert shell.held(shell.beat("m", 2, topics=("t",), owned={"t": (0, 1)}, timeout_ms=9)) == {"t": [0, 1]}


def test_epochs_that_are_ahead_or_behind_are_fenced(shell):
    shell.beat("m", 0, topics=("t",))
    assert shell.beat("m", 3).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert shell.beat("m", 1).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert shell.beat("n", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_previous_epoch_is_a_retry_where_the_member_has_no_more_than_it_should(shell):
    shell.beat("a", 0, topics=("t",))
    shell.beat("b", 0, topics=("t",))
    shell.beat("a", 2)
    assert shell.beat("a", 2, owned={"t": (0,)}).member_epoch == 3
    assert shell.beat("a", 2, owned={"t": (0,)}).member_epoch == 3  # the answer was lost
    assert shell.beat("a", 2, owned={"t": (0, 1)}).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert shell.beat("a", 2).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_full_group_takes_nobody_new():
    shell = GroupShell(GroupConfig(group_consumer_max_size=1))
    shell.beat("m", 0, topics=("t",))
    assert shell.beat("n", 0, topics=("t",)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert shell.beat("m", 0, topics=("t",)).error_code == 0


def test_a_static_member_that_says_it_will_be_back_keeps_its_partitions(shell):
    shell.beat("a", 0, topics=("t",), instance_id="i")
    assert shell.beat("b", 0, topics=("t",), instance_id="i").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert shell.beat("a", -2, instance_id="i").member_epoch == -2
    reply = shell.beat("b", 0, topics=("t",), instance_id="i")
    assert shell.held(reply) == {"t": [0, 1]}
    assert reply.member_epoch == 2  # nobody else had to do anything
    assert shell.beat("a", 2, instance_id="i").error_code == ErrorCode.FENCED_INSTANCE_ID
    assert shell.beat("b", 2, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert list(shell.shares()) == ["b"]


def test_a_static_member_that_does_not_come_back_loses_them(shell):
    shell.beat("a", 0, topics=("t",), instance_id="i")
    shell.beat("a", -2, instance_id="i")
    shell.advance(45_000)
    assert shell.described().group_state == "Empty"


def test_a_static_member_may_leave_for_good(shell):
    shell.beat("a", 0, topics=("t",), instance_id="i")
    assert shell.beat("a", -1, instance_id="i").member_epoch == -1
    assert shell.described().group_state == "Empty"


def test_leaving_gives_the_rest_to_the_others(shell):
    shell.beat("a", 0, topics=("t",))
    shell.beat("b", 0, topics=("t",))
    assert shell.beat("a", -1).error_code == 0
    assert shell.held(shell.beat("b", 3)) == {"t": [0, 1]}
    assert shell.beat("a", -1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
