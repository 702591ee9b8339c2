"""Groups as administrators see them: describe and list, by version and filter (deletion: test_group_offsets)."""

from __future__ import annotations

import pytest

from oncelog.errors import ErrorCode
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.schema import encode_message
from tests.core.groups.performed_groups import GroupShell

E = ErrorCode


def describe(shell: GroupShell, group_id: str = "g", version: int = 6):
    reply = shell.perform(shell.coordinator.describe_groups(DescribeGroupsRequest(groups=[group_id]), version))
    assert encode_message(reply, version)
    return reply.groups[0]


def listed(shell: GroupShell, states=(), types=()) -> dict[str, str]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    reply = shell.perform(shell.coordinator.list_groups(request))
    assert encode_message(reply, 5)
    assert all(each.group_type == "classic" for each in reply.groups)
    return {each.group_id: each.group_state for each in reply.groups}


@pytest.mark.parametrize("version", range(6))
def test_an_unknown_group_is_dead_before_version_6(version):
    """kafka-notes G9."""
    group = describe(GroupShell(), version=version)
    assert (group.error_code, group.group_state, group.error_message) == (E.NONE, "Dead", None)


def test_an_unknown_group_is_an_error_from_version_6():
    group = describe(GroupShell())
    assert (group.error_code, group.group_state) == (E.GROUP_ID_NOT_FOUND, "Dead")
    assert group.error_message == "Group g not found."


def test_a_stable_group_shows_subscriptions_and_assignments():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    group = describe(shell)
    assert (group.group_state, group.protocol_type, group.protocol_data) == ("Stable", "consumer", "range")
    assert [(each.member_id, each.member_metadata, each.member_assignment) for each in group.members] == [
        (leader, b"subscription", b"first"),
        (follower, b"subscription", b"second"),
    ]
    assert {(each.client_id, each.client_host) for each in group.members} == {("c", "/127.0.0.1")}


def test_a_rebalancing_group_shows_who_is_there_with_their_last_assignments():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    shell.join(leader)
    group = describe(shell)
    assert (group.group_state, group.protocol_data) == ("PreparingRebalance", "")
    assert [(each.member_id, each.member_metadata, each.member_assignment) for each in group.members] == [
        (leader, b"", b"first"),
        (follower, b"", b"second"),
    ]
    shell.join(follower)
    assert describe(shell).group_state == "CompletingRebalance"


def test_static_members_show_their_instance():
    shell = GroupShell()
    shell.join(instance_id="one")
    assert describe(shell).members[0].group_instance_id == "one"


@pytest.fixture
def three_groups() -> GroupShell:
    shell = GroupShell()
    shell.stable_pair()
    shell.commit_offset(1, group_id="simple")
    shell.join_with_id(group_id="completing")
    return shell


@pytest.mark.parametrize(
    ("states", "types", "found"),
    [
        ((), (), {"g": "Stable", "simple": "Empty", "completing": "CompletingRebalance"}),
        (("Stable",), (), {"g": "Stable"}),
        (("stable", "EMPTY"), (), {"g": "Stable", "simple": "Empty"}),
        (("Unheard",), (), {}),
        ((), ("Classic",), {"g": "Stable", "simple": "Empty", "completing": "CompletingRebalance"}),
        ((), ("consumer",), {}),
        (("Empty",), ("classic", "consumer"), {"simple": "Empty"}),
    ],
)
def test_list_filters(three_groups, states, types, found):
    assert listed(three_groups, states, types) == found
