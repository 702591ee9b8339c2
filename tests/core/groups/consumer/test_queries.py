"""What administrators and offset requests see of a consumer group."""

from __future__ import annotations

import pytest

from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.core.groups.performed_groups import GroupShell


@pytest.fixture
def shell():
    made = GroupShell()
    made.create_topic("t", 2)
    made.beat("m", 0, topics=("t",), rack_id="r")
    return made


def test_a_description_tells_everything(shell):
    found = shell.described()
    assert (found.group_state, found.group_epoch, found.assignment_epoch, found.assignor_name) == (
        "Stable",
        2,
        2,
        "uniform",
    )
    (member,) = found.members
    assert (member.member_id, member.member_epoch, member.rack_id, member.client_host) == ("m", 2, "r", "/127.0.0.1")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex, member.member_type) == (["t"], "", 1)
    for assignment in (member.assignment, member.target_assignment):
        assert [(each.topic_name, each.partitions) for each in assignment.topic_partitions] == [("t", [0, 1])]


def test_what_is_being_given_back_is_still_shown(shell):
    shell.beat("n", 0, topics=("t",))
    shell.beat("m", 2)
    assert shell.shares()["m"] == ["t-0", "t-1"]


def test_a_deleted_topic_is_not_shown(shell):
    shell.delete_topic("t")
    assert shell.shares() == {"m": []}


def test_groups_of_another_kind_are_not_found(shell):
    shell.join(group_id="classic")
    assert shell.described("classic").error_message == "Group classic is not a consumer group."
    assert shell.described("none").error_message == "Group none not found."
    asked = DescribeGroupsRequest(groups=["g"])
    (described,) = shell.perform(shell.coordinator.describe_groups(asked, 6)).groups
    assert (described.error_code, described.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Group g is not a classic group.",
    )


def listed(shell, **filters):
    found = shell.perform(shell.coordinator.list_groups(ListGroupsRequest(**filters))).groups
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in found]


def test_it_is_listed_by_type_and_state(shell):
    shell.commit_offset(1, group_id="plain")
    mine = ("g", "consumer", "Stable", "consumer")
    assert listed(shell) == [("plain", "", "Empty", "classic"), mine]
    assert listed(shell, types_filter=["Consumer"]) == [mine]
    assert listed(shell, states_filter=["stable"]) == [mine]
    assert listed(shell, types_filter=["share"]) == []


def test_only_an_empty_group_is_deleted_with_its_offsets(shell):
    shell.commit_offset(1, generation_id=2, member_id="m")

    def delete():
        request = DeleteGroupsRequest(groups_names=["g"])
        return shell.perform(shell.coordinator.delete_groups(request)).results[0].error_code

    assert delete() == ErrorCode.NON_EMPTY_GROUP
    shell.beat("m", -1)
    assert delete() == 0
    assert delete() == ErrorCode.GROUP_ID_NOT_FOUND
    assert shell.fetch() == {}
    shell.restart()
    assert len(shell.coordinator) == 0


@pytest.mark.parametrize(
    ("how", "error_code"),
    [
        ({"generation_id": 2, "member_id": "m"}, 0),
        ({"generation_id": 3, "member_id": "m"}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"generation_id": 1, "member_id": "m"}, ErrorCode.STALE_MEMBER_EPOCH),
        ({"generation_id": 2, "member_id": "m", "version": 8}, ErrorCode.UNSUPPORTED_VERSION),
        ({"generation_id": 2, "member_id": "n"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ({}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit(shell, how, error_code):
    assert shell.commit_offset(1, **how) == error_code


def test_an_older_epoch_may_commit_what_the_member_has_had_since_then(shell):
    shell.beat("n", 0, topics=("t",))
    shell.beat("m", 2, owned={"t": (0, 1)})
    shell.beat("m", 2, owned={"t": (0,)})
    assert shell.commit_offset(1, generation_id=2, member_id="m") == 0
    assert shell.commit_offset(1, partition=1, generation_id=2, member_id="m") == ErrorCode.STALE_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("how", "error_code"),
    [
        ({}, 0),
        ({"generation_id": 2, "member_id": "m"}, 0),
        ({"generation_id": 3, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": -1, "member_id": "m"}, ErrorCode.ILLEGAL_GENERATION),
        ({"generation_id": 2, "member_id": "n"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_in_a_transaction(shell, how, error_code):
    assert shell.txn_commit_offset(1, **how) == error_code


@pytest.mark.parametrize(
    ("member_id", "member_epoch", "error_code"),
    [
        (None, -1, 0),
        ("m", 2, 0),
        ("m", 1, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("", -1, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_fetch(shell, member_id, member_epoch, error_code):
    asked = OffsetFetchRequestGroup(group_id="g", topics=None, member_id=member_id, member_epoch=member_epoch)
    reply = shell.perform(shell.coordinator.fetch_offsets(OffsetFetchRequest(groups=[asked]), 9))
    assert reply.groups[0].error_code == error_code


def test_offsets_of_a_topic_that_is_read_are_not_deleted(shell):
    shell.commit_offset(1, generation_id=2, member_id="m")
    topics = [
        OffsetDeleteRequestTopic(name=each, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        for each in ("t", "u")
    ]
    reply = shell.perform(shell.coordinator.delete_offsets(OffsetDeleteRequest(group_id="g", topics=topics)))
    assert [each.partitions[0].error_code for each in reply.topics] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, 0]
