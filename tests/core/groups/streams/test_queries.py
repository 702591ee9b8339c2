"""StreamsGroupDescribe, ListGroups, and who may commit which offset."""

from __future__ import annotations

import pytest

from oncelog.errors import ErrorCode
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from tests.core.groups.streams.applications import StreamsShell, ids, stateful, word_count

E = ErrorCode


def test_a_group_is_described_as_said_then_as_configured():
    shell = StreamsShell(makes_topics=False)
    shell.streams_beat("m", 0)
    said = shell.described()
    assert [each.subtopology_id for each in said.topology.subtopologies] == ["0", "1"]
    assert said.topology.subtopologies[1].repartition_source_topics[0].partitions == 0
    shell.create_topic("by-word", 2)
    shell.create_topic("counts", 2)
    shell.streams_beat("m", 2)
    first, second = shell.described().topology.subtopologies
    assert (first.source_topics, first.repartition_sink_topics) == (["words"], ["by-word"])
    assert [(each.name, each.partitions) for each in second.state_changelog_topics] == [("counts", 2)]
    assert [(each.name, each.partitions) for each in second.repartition_source_topics] == [("by-word", 2)]
    member = shell.described().members[0]
    assert member.assignment == member.target_assignment
    assert member.client_host == "/h"


def listed(shell, **filters):
    found = shell.coordinator.list_groups(ListGroupsRequest(**filters)).reply.groups
    return [(each.group_id, each.protocol_type, each.group_state, each.group_type) for each in found]


def test_groups_are_listed_by_type_and_state():
    shell = StreamsShell(words=0)
    shell.streams_beat("m", 0)
    whole = [("g", "streams", "NotReady", "streams")]
    assert (
        listed(shell) == listed(shell, types_filter=["Streams"]) == listed(shell, states_filter=["NotReady"]) == whole
    )
    assert listed(shell, types_filter=["consumer"]) == listed(shell, states_filter=["Stable"]) == []


@pytest.fixture
def two_members():
    """`a` in epoch 3 has task 0_0 since epoch 2; 0_1 went to `b` in epoch 3."""
    shell = StreamsShell()
    shell.create_topic("counts", 2)
    shell.streams_beat("a", 0, topology=stateful())
    shell.streams_beat("b", 0, topology=stateful())
    shell.streams_beat("a", 2)
    shell.streams_beat("a", 2, active_tasks=ids({"0": {0}}), standby_tasks=[], warmup_tasks=[])
    shell.streams_beat("b", 3)
    return shell


@pytest.mark.parametrize(
    ("member_id", "member_epoch", "partition", "error_code"),
    [
        ("a", 3, 0, E.NONE),
        ("a", 2, 0, E.NONE),  # since then it has had the task
        ("a", 1, 0, E.STALE_MEMBER_EPOCH),
        ("a", 4, 0, E.STALE_MEMBER_EPOCH),
        ("a", 2, 1, E.STALE_MEMBER_EPOCH),  # not any more
        ("a", 3, 1, E.NONE),  # in its own epoch a member is believed
        ("b", 2, 1, E.STALE_MEMBER_EPOCH),
        ("x", 3, 0, E.UNKNOWN_MEMBER_ID),
        ("", -1, 0, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit(two_members, member_id, member_epoch, partition, error_code):
    how = {"topic": "words", "partition": partition, "member_id": member_id, "generation_id": member_epoch}
    assert two_members.commit_offset(1, version=9, **how) == error_code
    in_transaction = E.ILLEGAL_GENERATION if error_code is E.STALE_MEMBER_EPOCH else error_code
    in_transaction = E.NONE if not member_id else in_transaction  # who names no member always may
    assert two_members.txn_commit_offset(1, **how) == in_transaction


def test_a_topic_outside_the_topology_and_an_old_version(two_members):
    how = {"member_id": "a", "generation_id": 2}
    assert two_members.commit_offset(1, topic="other", version=9, **how) == E.STALE_MEMBER_EPOCH
    assert two_members.commit_offset(1, topic="words", version=8, **how) == E.UNSUPPORTED_VERSION


def test_offsets_in_a_transaction_follow_its_marker(two_members):
    how = {"topic": "words", "member_id": "a", "generation_id": 3}
    for outcome, expected in ((False, -1), (True, 5)):
        assert two_members.txn_commit_offset(5, **how) == E.NONE
        two_members.marker(1, commit=outcome)
        assert two_members.offset(topic="words") == expected


def test_offsets_of_topics_that_are_read_are_not_deleted(two_members):
    two_members.commit_offset(1, topic="words", member_id="a", generation_id=3, version=9)

    def delete():
        topic = OffsetDeleteRequestTopic(name="words", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        request = OffsetDeleteRequest(group_id="g", topics=[topic])
        return two_members.perform(two_members.coordinator.delete_offsets(request)).topics[0].partitions[0].error_code

    assert delete() == E.GROUP_SUBSCRIBED_TO_TOPIC
    for member_id in ("a", "b"):
        two_members.streams_beat(member_id, -1)
    assert delete() == E.NONE
    assert two_members.offset(topic="words") == -1


def test_a_group_without_members_takes_commits_of_anybody():
    shell = StreamsShell()
    shell.streams_beat("m", 0, topology=word_count())
    shell.streams_beat("m", -1)
    assert shell.commit_offset(4, topic="words", version=9) == E.NONE
    assert shell.offset(topic="words") == 4
