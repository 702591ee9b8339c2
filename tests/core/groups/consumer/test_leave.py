"""LeaveGroup of a consumer group."""

from __future__ import annotations

import pytest

from oncelog.errors import ErrorCode
from tests.core.groups.performed_groups import GroupShell


@pytest.fixture
def shell():
    made = GroupShell()
    made.create_topic("t", 2)
    made.beat("a", 0, topics=("t",))
    made.beat("b", 0, topics=("t",), instance_id="i")
    return made


def codes(reply):
    return [each.error_code for each in reply.members]


def test_each_member_has_its_own_result_and_all_go_together(shell):
    reply = shell.leave(("a", None), ("nobody", None), ("", "i"), ("", "j"), ("x", "i"))
    assert codes(reply) == [
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert shell.described().group_state == "Empty"
    assert shell.described().group_epoch == 4


def test_nobody_gone_is_no_new_epoch(shell):
    assert codes(shell.leave(("nobody", None))) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert codes(shell.leave()) == []
    assert shell.described().group_epoch == 3


def test_old_versions_name_one_member(shell):
    assert shell.leave(("nobody", None), version=2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert shell.leave(("a", None), version=2).error_code == 0
    assert list(shell.shares()) == ["b"]
