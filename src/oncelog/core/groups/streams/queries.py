"""StreamsGroupDescribe, and what ListGroups and offset requests see of a streams group (KIP-1071)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog.core.groups.streams.group import StreamsGroup
from oncelog.core.groups.streams.member import StreamsGroupMember
from oncelog.core.groups.streams.tasks import tasks_of
from oncelog.core.groups.streams.topology import ConfiguredSubtopology, InternalTopic
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.streams_groups import Tasks
from oncelog.wire.messages.list_groups import ListedGroup
from oncelog.wire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from oncelog.wire.messages.streams_group_heartbeat import Subtopology as HeartbeatSubtopology
from oncelog.wire.messages.streams_group_heartbeat import TopicInfo as HeartbeatTopicInfo

STREAMS_TYPE = "streams"
FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH = 9

# Whether one partition's offset may be committed: topic, partition -> error.
CheckPartition = Callable[[str, int], ErrorCode]


def described(group: StreamsGroup) -> DescribedGroup:
    """The group with its members, as StreamsGroupDescribe tells it."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(group, each) for each in group.members.values()],
    )


def not_found(group_id: str, *, is_other: bool) -> DescribedGroup:
    """There is no streams group of this name."""
    message = f"Group {group_id} is not a streams group." if is_other else f"Group {group_id} not found."
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def _topology(group: StreamsGroup) -> Topology | None:
    """As it was configured where it is ready, else as the application said it."""
    configured, topology = group.configured, group.topology
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        found = [_configured(name, each) for name, each in sorted(configured.subtopologies.items())]
        return Topology(topology_epoch=configured.topology_epoch, subtopologies=found)
    if topology is None:
        return None
    return Topology(
        topology_epoch=topology.topology_epoch,
        subtopologies=[_said(each) for _, each in sorted(topology.subtopologies.items())],
    )


def _configured(name: str, subtopology: ConfiguredSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=name,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_configured_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_configured_topics(subtopology.repartition_source_topics),
    )


def _configured_topics(topics: Mapping[str, InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=each.name,
            partitions=each.partition_count,
            replication_factor=each.replication_factor,
            topic_configs=_key_values(each.configs),
        )
        for _, each in sorted(topics.items())
    ]


def _said(subtopology: HeartbeatSubtopology) -> Subtopology:
    return Subtopology(
        subtopology_id=subtopology.subtopology_id,
        source_topics=sorted(subtopology.source_topics),
        repartition_sink_topics=sorted(subtopology.repartition_sink_topics),
        state_changelog_topics=_said_topics(subtopology.state_changelog_topics),
        repartition_source_topics=_said_topics(subtopology.repartition_source_topics),
    )


def _said_topics(infos: Iterable[HeartbeatTopicInfo]) -> list[TopicInfo]:
    return [
        TopicInfo(
            name=info.name,
            partitions=info.partitions,
            replication_factor=info.replication_factor,
            topic_configs=_key_values((each.key, each.value) for each in info.topic_configs),
        )
        for info in sorted(infos, key=lambda info: info.name)
    ]


def _key_values(pairs: Iterable[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in pairs]


def _member(group: StreamsGroup, member: StreamsGroupMember) -> Member:
    target, assigned, endpoint = group.target_of(member.member_id), member.assigned, member.endpoint
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(host=endpoint[0], port=endpoint[1]),
        client_tags=_key_values(member.client_tags),
        assignment=_assignment(tasks_of(assigned.active), assigned.standby, assigned.warmup),
        target_assignment=_assignment(target.active, target.standby, target.warmup),
    )


def _assignment(active: Tasks, standby: Tasks, warmup: Tasks) -> Assignment:
    def ids(tasks: Tasks) -> list[TaskIds]:
        return [TaskIds(subtopology_id=each, partitions=sorted(tasks[each])) for each in sorted(tasks)]

    return Assignment(active_tasks=ids(active), standby_tasks=ids(standby), warmup_tasks=ids(warmup))


def listed(group: StreamsGroup) -> ListedGroup:
    """The group in ListGroups."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=STREAMS_TYPE,
        group_state=group.state.value,
        group_type=STREAMS_TYPE,
    )


def check_commit(
    group: StreamsGroup,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    *,
    is_transactional: bool,
    version: int,
) -> tuple[ErrorCode, CheckPartition | None]:
    """Whether a member may commit. With an older epoch it may for the active tasks that it has had since then: the second
    value judges each partition, None where all may be committed. One that may not refuses the whole request."""
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE, None
    if is_transactional and member_epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE, None
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    if not is_transactional and version < FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH:
        return ErrorCode.UNSUPPORTED_VERSION, None
    if member_epoch == member.member_epoch:
        return ErrorCode.NONE, None
    if member_epoch > member.member_epoch or group.topology is None:
        return ErrorCode.STALE_MEMBER_EPOCH, None
    readers = group.topology.readers

    def check(topic: str, partition: int) -> ErrorCode:
        subtopology = readers.get(topic, "")
        since = member.assigned.active.get(subtopology, {}).get(partition)
        if since is None:
            since = member.pending_revocation.active.get(subtopology, {}).get(partition)
        return ErrorCode.STALE_MEMBER_EPOCH if since is None or member_epoch < since else ErrorCode.NONE

    return ErrorCode.NONE, check


def check_fetch(group: StreamsGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Whether a member may read the group's offsets; who names no member always may."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member.member_epoch == member_epoch else ErrorCode.STALE_MEMBER_EPOCH
