"""StreamsGroupHeartbeat: what is refused, in which order, and what a member is told."""

from __future__ import annotations

import pytest

from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.streams.topology import StatusCode
from oncelog.errors import ErrorCode
from oncelog.wire.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    Subtopology,
    TaskIds,
    TaskOffset,
    TopicInfo,
    Topology,
)
from tests.core.groups.streams.applications import StreamsShell, held, ids, stateful, word_count

E = ErrorCode


def codes(response):
    return [StatusCode(each.status_code) for each in response.status]


def refused(shell, member_epoch, **fields):
    response = shell.streams_beat(fields.pop("member_id", "m"), member_epoch, **fields)
    assert response.error_code != E.NONE
    return ErrorCode(response.error_code), response.error_message


REGEX = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topic_regex=["w.*"])])
FIXED = TopicInfo(name="counts", partitions=3)
WRONG_CHANGELOG = Topology(
    subtopologies=[Subtopology(subtopology_id="0", source_topics=["words"], state_changelog_topics=[FIXED])]
)


@pytest.mark.parametrize(
    ("member_epoch", "fields", "says"),
    [
        (0, {"member_id": "", "instance_id": ""}, "Static membership is not yet supported."),
        (0, {"task_offsets": [TaskOffset()]}, "TaskOffsets are not supported yet."),
        (0, {"task_end_offsets": []}, "TaskEndOffsets are not supported yet."),
        (0, {"warmup_tasks": [TaskIds()]}, "WarmupTasks are not supported yet."),
        (0, {"topology": REGEX}, "Regular expressions for source topics are not supported yet."),
        (0, {"member_id": ""}, "MemberId can't be empty."),
        (0, {"group_id": ""}, "GroupId can't be empty."),
        (0, {"rack_id": ""}, "RackId can't be empty."),
        (0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request."),
        (0, {"active_tasks": [TaskIds()]}, "ActiveTasks must be empty when (re-)joining."),
        (0, {"standby_tasks": [TaskIds()]}, "StandbyTasks must be empty when (re-)joining."),
        (0, {"standby_tasks": None}, "StandbyTasks must be empty when (re-)joining."),
        (0, {"topology": None}, "Topology must be non-null when (re-)joining."),
        (-2, {}, "InstanceId can't be null."),
        (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2."),
        (2, {"active_tasks": []}, "If one task-type is non-null, all must be non-null."),
        (2, {"topology": word_count()}, "Topology can only be provided when (re-)joining."),
    ],
)
def test_requests_that_no_group_takes(member_epoch, fields, says):
    assert refused(StreamsShell(), member_epoch, **fields) == (E.INVALID_REQUEST, says)


def test_a_changelog_with_a_count_of_its_own_is_no_topology():
    error_code, message = refused(StreamsShell(), 0, topology=WRONG_CHANGELOG)
    assert error_code is E.STREAMS_INVALID_TOPOLOGY
    assert message == "Changelog topic counts must have an undefined partition count, but it is set to 3."


def test_the_first_member_waits_for_internal_topics_then_has_all():
    shell = StreamsShell(makes_topics=False)
    first = shell.streams_beat("m", 0)
    assert (first.error_code, first.member_epoch, first.heartbeat_interval_ms) == (E.NONE, 2, 5_000)
    assert codes(first) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert (first.active_tasks, first.standby_tasks, first.warmup_tasks) == ([], [], [])
    assert shell.described().group_state == "NotReady"
    shell.create_topic("by-word", 2)
    shell.create_topic("counts", 2)
    second = shell.streams_beat("m", 2)
    assert (second.member_epoch, second.status) == (3, [])
    assert held(second.active_tasks) == ["0_0", "0_1", "1_0", "1_1"]
    third = shell.streams_beat("m", 3)
    assert (third.member_epoch, third.active_tasks, third.standby_tasks) == (3, None, None)
    assert shell.described().group_state == "Stable"


def test_a_missing_source_topic_is_told_until_it_is_there():
    shell = StreamsShell(words=0)
    assert codes(shell.streams_beat("m", 0)) == [StatusCode.MISSING_SOURCE_TOPICS]
    shell.create_topic("words", 1)
    assert codes(shell.streams_beat("m", 2)) == [StatusCode.MISSING_INTERNAL_TOPICS]
    assert held(shell.streams_beat("m", 3).active_tasks) == ["0_0", "1_0"]


def test_a_deleted_topic_takes_the_tasks_away():
    shell = StreamsShell()
    member_epoch = shell.join_ready("m", topology=stateful()).member_epoch
    shell.delete_topic("words")
    response = shell.streams_beat("m", member_epoch)
    assert codes(response) == [StatusCode.MISSING_SOURCE_TOPICS]
    assert (response.member_epoch, response.active_tasks) == (member_epoch, [])
    done = shell.streams_beat("m", member_epoch, active_tasks=[], standby_tasks=[], warmup_tasks=[])
    assert done.member_epoch == member_epoch + 1
    assert shell.described().group_state == "NotReady"


def test_a_second_member_gets_its_share_once_it_is_given_back():
    shell = StreamsShell()
    first = shell.join_ready("a", topology=stateful())
    assert held(first.active_tasks) == ["0_0", "0_1"]
    second = shell.streams_beat("b", 0, topology=stateful())
    assert (second.member_epoch, second.active_tasks) == (first.member_epoch + 1, [])
    asked = shell.streams_beat("a", first.member_epoch)
    assert (asked.member_epoch, held(asked.active_tasks)) == (first.member_epoch, ["0_0"])
    assert shell.streams_beat("b", second.member_epoch).active_tasks is None
    kept = {"active_tasks": ids({"0": {0}}), "standby_tasks": [], "warmup_tasks": []}
    assert shell.streams_beat("a", first.member_epoch, **kept).member_epoch == second.member_epoch
    assert held(shell.streams_beat("b", second.member_epoch).active_tasks) == ["0_1"]


def test_epochs_that_do_not_fit_are_fenced_but_for_a_lost_answer():
    shell = StreamsShell()
    member_epoch = shell.join_ready("m", topology=stateful()).member_epoch
    error_code, message = refused(shell, member_epoch + 1)
    assert error_code is E.FENCED_MEMBER_EPOCH
    assert "a greater member epoch (4) than the one known by the group coordinator (3)" in message
    assert "smaller" in refused(shell, member_epoch - 1)[1]
    own = {"active_tasks": ids({"0": {0, 1}}), "standby_tasks": [], "warmup_tasks": []}
    assert shell.streams_beat("m", member_epoch - 1, **own).error_code == E.NONE
    assert "smaller" in refused(shell, member_epoch - 2, **own)[1]
    assert held(shell.streams_beat("m", 0, topology=stateful()).active_tasks) == ["0_0", "0_1"], "it may join anew"


def test_who_missed_an_answer_is_told_again_what_it_has():
    """Apache Kafka 4.3 tells tasks once: a member that loses that answer never works on them."""
    shell = StreamsShell()
    shell.join_ready("a", topology=stateful())
    shell.streams_beat("b", 0, topology=stateful())
    shell.streams_beat("a", 3)
    shell.streams_beat("a", 3, active_tasks=ids({"0": {0}}), standby_tasks=[], warmup_tasks=[])
    assert held(shell.streams_beat("b", 4).active_tasks) == ["0_1"], "this answer is lost"
    none = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    assert held(shell.streams_beat("b", 4, **none).active_tasks) == ["0_1"]
    assert shell.streams_beat("b", 4, **none | {"active_tasks": ids({"0": {1}})}).active_tasks is None
    assert shell.streams_beat("b", 4, **none).active_tasks is None, "it has said that it has it, so nothing was lost"
    assert held(shell.streams_beat("b", 0, topology=stateful()).active_tasks) == ["0_1"], "this answer is lost, too"
    assert held(shell.streams_beat("b", 4, **none).active_tasks) == ["0_1"]


def test_who_says_less_than_it_had_before_missed_no_answer():
    """It gave tasks up by itself: what it is told next is news."""
    shell = StreamsShell()
    shell.join_ready("a", topology=stateful())
    shell.streams_beat("b", 0, topology=stateful())
    assert held(shell.streams_beat("a", 3).active_tasks) == ["0_0"], "it had both"
    none = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    assert shell.streams_beat("a", 3, **none).active_tasks is None


def test_unknown_groups_and_members():
    shell = StreamsShell()
    assert refused(shell, 2) == (E.GROUP_ID_NOT_FOUND, "Streams group g not found.")
    assert refused(shell, -1) == (E.GROUP_ID_NOT_FOUND, "Group g not found.")
    shell.streams_beat("m", 0)
    unknown = (E.UNKNOWN_MEMBER_ID, "Member n is not a member of group g.")
    assert refused(shell, 2, member_id="n") == refused(shell, -1, member_id="n") == unknown


def test_another_topology_is_refused_and_an_older_one_told():
    shell = StreamsShell()
    shell.streams_beat("m", 0, topology=word_count(topology_epoch=2))
    message = "Topology updates are not supported yet."
    assert refused(shell, 0, member_id="n", topology=stateful().replace(topology_epoch=2)) == (
        E.INVALID_REQUEST,
        message,
    )
    assert refused(shell, 0, member_id="n", topology=word_count(topology_epoch=3)) == (E.INVALID_REQUEST, message)
    older = shell.streams_beat("n", 0, topology=word_count(topology_epoch=1))
    assert codes(older) == [StatusCode.STALE_TOPOLOGY]
    assert older.status[0].status_detail == "The member's topology epoch 1 is behind the group's topology epoch 2."


def test_tasks_that_the_topology_has_not():
    shell = StreamsShell()
    member_epoch = shell.join_ready("m", topology=stateful()).member_epoch
    none = {"standby_tasks": [], "warmup_tasks": []}
    assert refused(shell, member_epoch, active_tasks=ids({"9": {0}}), **none)[1] == (
        "Subtopology 9 does not exist in the topology."
    )
    for partition in (-1, 2):
        assert (
            "Number of tasks for this subtopology: 2"
            in refused(shell, member_epoch, active_tasks=ids({"0": {partition}}), **none)[1]
        )


def test_a_full_group_takes_nobody():
    shell = StreamsShell(GroupConfig(group_streams_max_size=1, group_streams_initial_rebalance_delay_ms=0))
    shell.streams_beat("m", 0)
    for member_id in ("m", "n"):
        assert refused(shell, 0, member_id=member_id)[0] is E.GROUP_MAX_SIZE_REACHED
    assert shell.streams_beat("m", 2).error_code == E.NONE


def test_a_shutdown_is_told_to_all_until_the_group_is_empty():
    shell = StreamsShell()
    shell.join_ready("m", topology=stateful())
    shell.streams_beat("n", 0, topology=stateful())
    assert codes(shell.streams_beat("m", 3, shutdown_application=True)) == [StatusCode.SHUTDOWN_APPLICATION]
    told = shell.streams_beat("n", 4).status
    assert told[0].status_detail.startswith("Streams group member m encountered a fatal error")
    shell.streams_beat("n", -1, shutdown_application=True)
    assert "member m" in shell.streams_beat("m", 3).status[0].status_detail, "the first one is named"
    shell.streams_beat("m", -1)
    assert codes(shell.streams_beat("m", 0, topology=stateful())) == []


def test_leaving_answers_as_asked():
    shell = StreamsShell()
    shell.streams_beat("m", 0)
    gone = shell.streams_beat("m", -1)
    assert (gone.error_code, gone.member_id, gone.member_epoch, gone.status) == (E.NONE, "m", -1, [])
    assert shell.described().group_state == "Empty"


def test_endpoints_are_told_to_who_does_not_know_them():
    shell = StreamsShell()
    shell.join_ready("a", topology=stateful(), user_endpoint=Endpoint(host="h", port=1))
    response = shell.streams_beat("b", 0, topology=stateful(), user_endpoint=Endpoint(host="i", port=2))
    by_port = {each.user_endpoint.port: each for each in response.partitions_by_user_endpoint}
    assert [(each.topic, each.partitions) for each in by_port[1].active_partitions] == [("words", [0, 1])]
    assert by_port[2].active_partitions == []
    known = response.endpoint_information_epoch
    again = shell.streams_beat("b", response.member_epoch, endpoint_information_epoch=known)
    assert (again.endpoint_information_epoch, again.partitions_by_user_endpoint) == (known, None)


def test_what_a_member_says_of_itself_is_described():
    shell = StreamsShell()
    tags = [KeyValue(key="zone", value="b"), KeyValue(key="cluster", value="a")]
    shell.streams_beat("m", 0, rack_id="r", client_tags=tags, process_id="p", topology=word_count(topology_epoch=1))
    member = shell.described().members[0]
    assert (member.rack_id, member.process_id, member.client_id, member.topology_epoch) == ("r", "p", "app", 1)
    assert [(each.key, each.value) for each in member.client_tags] == [("cluster", "a"), ("zone", "b")]
    shell.streams_beat("m", 2, rack_id="s")
    assert (shell.described().members[0].rack_id, shell.described().members[0].process_id) == ("s", "p")
