"""Offsets of groups, row by row (KIP-447, docs/kafka-notes.md, "Groups"); deletion and expiry."""

from __future__ import annotations

import pytest

from oncelog.core.groups.classic.group import GroupState
from oncelog.core.groups.config import GroupConfig
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import Subscription, subscription_to_bytes
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.core.groups.performed_groups import NO_DELAY, GroupShell

E = ErrorCode
DAY_MS = 24 * 3_600_000
SUBSCRIBED = (("range", subscription_to_bytes(Subscription(("t",)))),)


def delete_offsets(shell: GroupShell, *partitions: tuple[str, int], group_id: str = "g"):
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=index)])
            for topic, index in partitions
        ],
    )
    reply = shell.perform(shell.coordinator.delete_offsets(request))
    return int(reply.error_code), [int(each.partitions[0].error_code) for each in reply.topics]


def delete_group(shell: GroupShell, *group_ids: str) -> list[int]:
    request = DeleteGroupsRequest(groups_names=list(group_ids or ("g",)))
    return [int(each.error_code) for each in shell.perform(shell.coordinator.delete_groups(request)).results]


def group_in(state: GroupState) -> tuple[GroupShell, dict]:
    """A shell with group "g" in this state, and what a member of it would say of itself."""
    shell = GroupShell()
    if state is GroupState.EMPTY:
        joined = shell.join_with_id()
        shell.sync(joined.member_id, 1, {})
        shell.leave((joined.member_id, None))
        return shell, {"generation_id": 2, "member_id": joined.member_id}
    leader, _, generation_id = shell.stable_pair()
    if state is GroupState.PREPARING_REBALANCE:
        shell.join(leader)
    if state is GroupState.COMPLETING_REBALANCE:
        shell.leave(*[(each, None) for each in shell.coordinator.groups["g"].members if each != leader])
        generation_id = shell.join(leader).generation_id
    assert shell.coordinator.groups["g"].state is state
    return shell, {"generation_id": generation_id, "member_id": leader}


# -- who may commit ----------------------------------------------------------------------------------------------------

NOBODY: dict = {}
EMPTY, PREPARING, COMPLETING, STABLE = (
    GroupState.EMPTY,
    GroupState.PREPARING_REBALANCE,
    GroupState.COMPLETING_REBALANCE,
    GroupState.STABLE,
)


@pytest.mark.parametrize(
    ("state", "plain", "transactional"),
    [
        (EMPTY, E.NONE, E.NONE),
        (PREPARING, E.UNKNOWN_MEMBER_ID, E.NONE),  # kafka-notes G3: a transaction without fields, in any state
        (COMPLETING, E.UNKNOWN_MEMBER_ID, E.NONE),
        (STABLE, E.UNKNOWN_MEMBER_ID, E.NONE),
    ],
)
def test_commits_that_name_no_member(state, plain, transactional):
    shell, _ = group_in(state)
    assert shell.commit_offset(1) == plain
    assert shell.txn_commit_offset(1) == transactional


@pytest.mark.parametrize(
    ("state", "plain", "transactional"),
    [
        (EMPTY, E.UNKNOWN_MEMBER_ID, E.UNKNOWN_MEMBER_ID),  # kafka-notes G7: an empty group with a generation is 25
        (PREPARING, E.NONE, E.NONE),  # kafka-notes G8: the old generation may still commit
        (COMPLETING, E.REBALANCE_IN_PROGRESS, E.NONE),  # kafka-notes G8: after the new generation, before sync
        (STABLE, E.NONE, E.NONE),
    ],
)
def test_commits_of_a_member(state, plain, transactional):
    shell, member = group_in(state)
    assert shell.commit_offset(1, **member) == plain
    assert shell.txn_commit_offset(1, **member) == transactional


@pytest.mark.parametrize("method", ["commit_offset", "txn_commit_offset"])
@pytest.mark.parametrize(
    ("change", "error_code"),
    [
        ({"generation_id": 1}, E.ILLEGAL_GENERATION),
        ({"generation_id": 9}, E.ILLEGAL_GENERATION),
        ({"generation_id": -1}, E.ILLEGAL_GENERATION),  # kafka-notes G3: generation -1 with a member
        ({"member_id": "ghost"}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": ""}, E.UNKNOWN_MEMBER_ID),
        ({"member_id": "ghost", "generation_id": -1}, E.UNKNOWN_MEMBER_ID),
        ({"instance_id": "unknown"}, E.UNKNOWN_MEMBER_ID),  # kafka-notes G3
    ],
)
def test_wrong_fields_on_a_live_group(method, change, error_code):
    shell, member = group_in(STABLE)
    assert getattr(shell, method)(1, **{**member, **change}) == error_code


@pytest.mark.parametrize("method", ["commit_offset", "txn_commit_offset"])
def test_a_static_member_that_was_replaced_is_fenced(method):
    shell = GroupShell()
    joined = shell.join(instance_id="one")
    shell.sync(joined.member_id, 1, {}, instance_id="one")
    shell.join(instance_id="one")
    old = {"member_id": joined.member_id, "generation_id": 1, "instance_id": "one"}
    assert getattr(shell, method)(1, **old) == E.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("fields", "error_code"),
    [
        ({}, E.NONE),
        ({"member_id": "m"}, E.NONE),  # kafka-notes G2: the member is not looked at
        ({"instance_id": "i"}, E.NONE),
        ({"member_id": "m", "instance_id": "i"}, E.NONE),
        ({"generation_id": 0}, E.ILLEGAL_GENERATION),
        ({"generation_id": 3, "member_id": "m"}, E.ILLEGAL_GENERATION),
    ],
)
def test_transactional_commits_to_a_group_that_is_not_known(fields, error_code):
    shell = GroupShell()
    assert shell.txn_commit_offset(1, **fields) == error_code
    assert ("g" in shell.coordinator.groups) == (error_code == E.NONE)


@pytest.mark.parametrize(
    ("generation_id", "version", "error_code"),
    [(-1, 8, E.NONE), (-1, 9, E.NONE), (0, 8, E.ILLEGAL_GENERATION), (0, 9, E.GROUP_ID_NOT_FOUND)],
)
def test_plain_commits_to_a_group_that_is_not_known(generation_id, version, error_code):
    assert GroupShell().commit_offset(1, generation_id=generation_id, version=version) == error_code


def test_a_group_without_a_name():
    """kafka-notes G7: plain commits and fetches work; G6: a transactional commit is INVALID_GROUP_ID."""
    shell = GroupShell()
    assert shell.commit_offset(3, group_id="") == E.NONE
    assert shell.offset(group_id="") == 3
    assert shell.txn_commit_offset(3, group_id="") == E.INVALID_GROUP_ID


@pytest.mark.parametrize("offset", [-1, -5, 0, 2**63 - 1])
def test_any_offset_is_stored_as_it_is(offset):
    """kafka-notes G1: negative offsets too, and fetched with error 0."""
    shell = GroupShell()
    assert shell.txn_commit_offset(offset, producer_id=1) == E.NONE
    shell.marker(1, commit=True)
    assert shell.fetch(("t", 0)) == {("t", 0): (offset, E.NONE)}
    shell.commit_offset(offset, partition=1)
    assert shell.fetch(("t", 1)) == {("t", 1): (offset, E.NONE)}


def test_metadata_has_a_size():
    shell = GroupShell()
    assert shell.commit_offset(1, metadata="x" * 4_096) == E.NONE
    assert shell.commit_offset(1, metadata="x" * 4_097) == E.OFFSET_METADATA_TOO_LARGE
    assert shell.txn_commit_offset(1, metadata="x" * 4_097) == E.OFFSET_METADATA_TOO_LARGE
    assert shell.commit_offset(2, metadata=None) == E.NONE


def test_a_group_that_is_being_deleted_says_try_again():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.holds_commits = True
    assert delete_group(shell) == [E.NONE]
    assert shell.commit_offset(2) == E.COORDINATOR_NOT_AVAILABLE
    assert shell.txn_commit_offset(2) == E.COORDINATOR_NOT_AVAILABLE
    assert shell.join(version=3).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert shell.heartbeat("m", 1) == E.COORDINATOR_NOT_AVAILABLE
    assert shell.sync("m", 1).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert shell.leave(("m", None)).error_code == E.COORDINATOR_NOT_AVAILABLE
    assert delete_group(shell) == [E.GROUP_ID_NOT_FOUND]
    shell.commit()
    assert shell.commit_offset(3) == E.NONE


# -- transactions ------------------------------------------------------------------------------------------------------


def test_transactional_offsets_are_seen_after_their_commit():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.txn_commit_offset(5)
    assert shell.offset() == 1
    shell.marker(1, commit=True)
    assert shell.offset() == 5


def test_transactional_offsets_are_gone_after_their_abort():
    shell = GroupShell()
    shell.txn_commit_offset(5)
    shell.marker(1, commit=False)
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (-1, E.NONE)}


def test_the_last_offset_of_a_transaction_counts():
    shell = GroupShell()
    shell.txn_commit_offset(5)
    shell.txn_commit_offset(4)
    shell.marker(1, commit=True)
    assert shell.offset() == 4


def test_a_plain_commit_after_the_pending_one_survives_the_transaction():
    """kafka-notes G4: the order in the log decides."""
    shell = GroupShell()
    shell.txn_commit_offset(5)
    shell.commit_offset(2)
    shell.marker(1, commit=True)
    assert shell.offset() == 2


def test_of_two_transactions_the_later_append_wins_whichever_ends_first():
    shell = GroupShell()
    shell.txn_commit_offset(5, producer_id=1)
    shell.txn_commit_offset(6, producer_id=2)
    shell.marker(2, commit=True)
    shell.marker(1, commit=True)
    assert shell.offset() == 6


def test_a_marker_decides_only_about_its_own_producer():
    shell = GroupShell()
    shell.txn_commit_offset(5, producer_id=1)
    shell.txn_commit_offset(6, producer_id=2, partition=1)
    shell.marker(1, commit=True)
    assert shell.fetch(("t", 0), ("t", 1), require_stable=True) == {("t", 0): (5, 0), ("t", 1): (-1, 88)}


@pytest.mark.parametrize(("marker_epoch", "offset"), [(2, -1), (3, 5), (4, 5)])
def test_a_marker_does_not_decide_about_a_newer_producer_epoch(marker_epoch, offset):
    shell = GroupShell()
    shell.txn_commit_offset(5, producer_epoch=3)
    shell.marker(1, marker_epoch, commit=True)
    assert shell.offset() == offset


def test_who_needs_stable_offsets_waits_for_the_marker():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.txn_commit_offset(5)
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (-1, E.UNSTABLE_OFFSET_COMMIT)}
    assert shell.fetch(("t", 0)) == {("t", 0): (1, E.NONE)}
    shell.marker(1, commit=True)
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (5, E.NONE)}


def test_stable_readers_wait_from_the_append_on():
    shell = GroupShell()
    shell.holds_commits = True
    shell.txn_commit_offset(5)
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (-1, E.UNSTABLE_OFFSET_COMMIT)}


def test_an_append_that_failed_leaves_nothing_pending():
    shell = GroupShell()
    shell.holds_commits = True
    shell.txn_commit_offset(5)
    shell.coordinator.failed(shell.uncommitted)
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (-1, E.NONE)}


def test_all_topics_means_those_with_a_committed_offset():
    """kafka-notes G6: a partition that is only pending is absent."""
    shell = GroupShell()
    shell.commit_offset(1, topic="a")
    shell.txn_commit_offset(5, topic="a")
    shell.txn_commit_offset(5, topic="b")
    assert shell.fetch(require_stable=True) == {("a", 0): (-1, E.UNSTABLE_OFFSET_COMMIT)}
    assert shell.fetch() == {("a", 0): (1, E.NONE)}


def test_pending_offsets_survive_a_restart():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.txn_commit_offset(5)
    shell.restart()
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (-1, E.UNSTABLE_OFFSET_COMMIT)}
    shell.marker(1, commit=True)
    assert shell.offset() == 5


# -- fetch -------------------------------------------------------------------------------------------------------------


def test_a_group_without_offsets_answers_minus_one_and_no_error():
    shell = GroupShell()
    assert shell.fetch(("t", 0), ("u", 3)) == {("t", 0): (-1, 0), ("u", 3): (-1, 0)}
    assert shell.fetch() == {}


@pytest.mark.parametrize("version", range(1, 8))
def test_old_versions_fetch_one_group(version):
    shell = GroupShell()
    shell.commit_offset(7, metadata="m")
    request = OffsetFetchRequest(
        group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])], require_stable=version == 7
    )
    reply = shell.perform(shell.coordinator.fetch_offsets(request, version))
    found = [(each.partition_index, each.committed_offset, each.metadata) for each in reply.topics[0].partitions]
    assert found == [(0, 7, "m"), (1, -1, "")]
    assert reply.error_code == E.NONE


def test_old_versions_fetch_all_topics_with_null():
    shell = GroupShell()
    shell.commit_offset(7)
    reply = shell.perform(shell.coordinator.fetch_offsets(OffsetFetchRequest(group_id="g", topics=None), 5))
    assert [each.name for each in reply.topics] == ["t"]


# -- deletion ----------------------------------------------------------------------------------------------------------


def test_deleted_offsets_are_gone_and_stay_gone():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.commit_offset(1, topic="u")
    assert delete_offsets(shell, ("t", 0), ("t", 5)) == (E.NONE, [E.NONE, E.NONE])
    assert shell.fetch() == {("u", 0): (1, 0)}
    shell.restart()
    assert shell.fetch() == {("u", 0): (1, 0)}


@pytest.mark.parametrize("how", ["offsets", "group"])
def test_deletion_drops_pending_offsets(how):
    """kafka-notes G5: the later commit shows nothing."""
    shell = GroupShell()
    shell.commit_offset(1)
    shell.txn_commit_offset(5)
    shell.txn_commit_offset(6, partition=1)
    if how == "group":
        assert delete_group(shell) == [E.NONE]
    else:
        assert delete_offsets(shell, ("t", 0), ("t", 1)) == (E.NONE, [E.NONE, E.NONE])
    shell.marker(1, commit=True)
    assert shell.fetch() == {}
    shell.restart()
    assert shell.fetch(("t", 0), require_stable=True) == {("t", 0): (-1, E.NONE)}


def test_a_deletion_covers_what_is_not_committed_yet():
    shell = GroupShell()
    shell.holds_commits = True
    shell.commit_offset(1)
    shell.txn_commit_offset(2, partition=1)
    assert delete_group(shell) == [E.NONE]
    shell.commit()
    shell.marker(1, commit=True)
    assert shell.fetch() == {}
    assert "g" not in shell.coordinator.groups


def test_offsets_of_a_topic_that_members_read_are_not_deleted():
    shell = GroupShell()
    leader, _, generation_id = shell.stable_pair(protocols=SUBSCRIBED)
    for topic in ("t", "u"):
        shell.commit_offset(1, topic=topic, member_id=leader, generation_id=generation_id)
    assert delete_offsets(shell, ("t", 0), ("u", 0)) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC, E.NONE])
    assert shell.fetch() == {("t", 0): (1, 0)}


def test_unreadable_subscriptions_protect_all_topics():
    shell = GroupShell()
    shell.stable_pair(protocols=(("range", b"?"),))
    assert delete_offsets(shell, ("u", 0)) == (E.NONE, [E.GROUP_SUBSCRIBED_TO_TOPIC])


def test_members_of_another_kind_keep_their_offsets():
    shell = GroupShell()
    shell.stable_pair(protocol_type="connect")
    assert delete_offsets(shell, ("t", 0)) == (E.NON_EMPTY_GROUP, [])


def test_offsets_of_no_group():
    assert delete_offsets(GroupShell(), ("t", 0)) == (E.GROUP_ID_NOT_FOUND, [])
    assert delete_offsets(GroupShell(), ("t", 0), group_id="") == (E.INVALID_GROUP_ID, [])


def test_only_empty_groups_are_deleted():
    shell = GroupShell()
    leader, follower, _ = shell.stable_pair()
    shell.commit_offset(1, group_id="simple")
    assert delete_group(shell, "g", "simple", "none", "none") == [E.NON_EMPTY_GROUP, E.NONE, E.GROUP_ID_NOT_FOUND]
    shell.leave((leader, None), (follower, None))
    assert delete_group(shell) == [E.NONE]
    shell.restart()
    assert shell.coordinator.groups == {}


def test_offsets_of_a_deleted_topic_go():
    shell = GroupShell()
    for group_id in ("g", "h"):
        shell.commit_offset(1, group_id=group_id)
        shell.commit_offset(1, group_id=group_id, topic="u")
    shell.txn_commit_offset(2, partition=1)
    shell.perform(shell.coordinator.partitions_deleted([TopicPartition("t", 0), TopicPartition("t", 1)]))
    shell.marker(1, commit=True)
    assert shell.fetch() == shell.fetch(group_id="h") == {("u", 0): (1, 0)}


# -- retention (KIP-211) -----------------------------------------------------------------------------------------------


def test_offsets_of_a_simple_group_expire_after_their_commit():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.advance(3 * DAY_MS)
    shell.commit_offset(1, partition=1)
    shell.advance(4 * DAY_MS)
    assert shell.fetch() == {("t", 1): (1, 0)}
    shell.advance(3 * DAY_MS)
    assert shell.coordinator.groups == {}
    shell.restart()
    assert shell.coordinator.groups == {}


def test_offsets_of_a_group_expire_after_its_last_member_left():
    shell = GroupShell()
    joined = shell.join_with_id()
    shell.sync(joined.member_id, 1, {})
    member = {"member_id": joined.member_id, "generation_id": 1}
    shell.commit_offset(1, **member)
    for _ in range(100):
        shell.advance(9_000)
        shell.heartbeat(joined.member_id, 1)
    shell.leave((joined.member_id, None))
    shell.advance(7 * DAY_MS - 900_000)
    assert shell.offset() == 1
    shell.advance(DAY_MS)
    assert shell.coordinator.groups == {}


def heartbeats(shell: GroupShell, members: tuple[str, str], generation_id: int, duration_ms: int, step_ms: int) -> None:
    for _ in range(duration_ms // step_ms):
        shell.advance(step_ms)
        assert [shell.heartbeat(each, generation_id) for each in members] == [E.NONE, E.NONE]


def test_members_keep_the_offsets_of_the_topics_they_read():
    shell = GroupShell()
    *members, generation_id = shell.stable_pair(protocols=SUBSCRIBED, session_timeout_ms=1_800_000)
    for topic in ("t", "u"):
        shell.commit_offset(1, topic=topic, member_id=members[0], generation_id=generation_id)
    heartbeats(shell, tuple(members), generation_id, 7 * DAY_MS + 3_600_000, 1_200_000)
    assert shell.fetch() == {("t", 0): (1, 0)}


def test_an_open_transaction_keeps_the_offset_and_the_group():
    shell = GroupShell()
    shell.commit_offset(1)
    shell.txn_commit_offset(2)
    shell.txn_commit_offset(2, group_id="h")
    shell.advance(8 * DAY_MS)
    assert shell.offset() == 1
    shell.marker(1, commit=True)
    assert shell.offset(group_id="h") == 2
    shell.advance(DAY_MS)
    assert shell.coordinator.groups == {}


def test_an_old_client_names_its_own_retention():
    shell = GroupShell()
    shell.commit_offset(1, retention_time_ms=DAY_MS, version=4)
    shell.restart()
    shell.advance(DAY_MS - 600_001)
    assert shell.offset() == 1
    shell.advance(1_200_000)
    assert shell.fetch() == {}


def test_a_group_that_nobody_came_back_to_is_dropped():
    shell = GroupShell()
    shell.join(session_timeout_ms=6_000)
    assert "g" in shell.coordinator.groups
    shell.advance(1_200_000)
    assert shell.coordinator.groups == {}


def test_a_large_sweep_is_done_in_parts():
    shell = GroupShell(GroupConfig(offsets_retention_check_interval_ms=DAY_MS))
    for index in range(2_500):
        shell.commit_offset(1, group_id=f"g{index}")
    batches = []
    perform = shell.perform
    shell.perform = lambda decision: batches.append(len(decision.records)) or perform(decision)
    shell.advance(8 * DAY_MS)
    assert shell.coordinator.groups == {}
    assert sum(batches) == 5_000
    assert max(batches) <= 1_001


def test_retention_is_configurable():
    shell = GroupShell(GroupConfig(offsets_retention_minutes=1, offsets_retention_check_interval_ms=1_000))
    shell.commit_offset(1)
    shell.advance(59_999)
    assert shell.offset() == 1
    shell.advance(1)
    assert shell.fetch() == {}
    assert NO_DELAY.offsets_retention_ms == 7 * DAY_MS
