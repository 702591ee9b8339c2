"""StreamsGroupHeartbeat (KIP-1071): joining, staying and leaving in one request.

The checks stand in Apache Kafka's order, because clients act on the first error. A heartbeat may bring the topology, may
change the member, may raise the group's epoch, may compute new targets, and takes the member one step towards its own. What
hinders the application is no error: it is told as a status, and the member stays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer.heartbeat import MemberClient
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.core.groups.streams.change import StreamsChange
from oncelog.core.groups.streams.endpoints import endpoints_of
from oncelog.core.groups.streams.group import StreamsGroup
from oncelog.core.groups.streams.member import JOIN_EPOCH, STATIC_LEAVE_EPOCH, StreamsGroupMember
from oncelog.core.groups.streams.tasks import is_all_of, is_part, owned_in, tasks_of, to_wire
from oncelog.core.groups.streams.topology import (
    ConfiguredTopology,
    InternalTopic,
    Problem,
    StatusCode,
    invalid_topology,
)
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.streams_groups import AssignedTasks, TargetTasks
from oncelog.wire.messages.streams_group_heartbeat import (
    Status,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    Topology,
)

INVALID = ErrorCode.INVALID_REQUEST


@dataclass(frozen=True, slots=True)
class StreamsHeartbeatResult:
    """The answer, and the internal topics that the broker has to make before it is sent."""

    response: StreamsGroupHeartbeatResponse
    missing_topics: tuple[InternalTopic, ...] = ()


def check_heartbeat(request: StreamsGroupHeartbeatRequest) -> None:
    """What is refused before any group is looked at. Raises Refused."""
    _check_unsupported(request)
    for value, name in (
        (request.member_id, "MemberId"),
        (request.group_id, "GroupId"),
        (request.rack_id, "RackId"),
    ):
        if value == "":
            raise Refused(INVALID, f"{name} can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH:
        raise Refused(INVALID, "InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise Refused(
            INVALID,
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to {STATIC_LEAVE_EPOCH}.",
        )
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(each is not None for each in kinds) and any(each is None for each in kinds):
        raise Refused(INVALID, "If one task-type is non-null, all must be non-null.")
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise Refused(INVALID, "Topology can only be provided when (re-)joining.")


def _check_unsupported(request: StreamsGroupHeartbeatRequest) -> None:
    """What the protocol has room for and Apache Kafka 4.3 does not take either."""
    if request.instance_id is not None:
        raise Refused(INVALID, "Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise Refused(INVALID, "TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise Refused(INVALID, "TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise Refused(INVALID, "WarmupTasks are not supported yet.")
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        raise Refused(INVALID, "Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise Refused(INVALID, "RebalanceTimeoutMs must be provided in first request.")
    for tasks, name in (
        (request.active_tasks, "ActiveTasks"),
        (request.standby_tasks, "StandbyTasks"),
        (request.warmup_tasks, "WarmupTasks"),
    ):
        if tasks is None or tasks:
            raise Refused(INVALID, f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise Refused(INVALID, "Topology must be non-null when (re-)joining.")
    _check_changelogs(request.topology)


def _check_changelogs(topology: Topology) -> None:
    for each in topology.subtopologies:
        for info in each.state_changelog_topics:
            if info.partitions:
                raise invalid_topology(
                    f"Changelog topic {info.name} must have an undefined partition count, "
                    f"but it is set to {info.partitions}."
                )


def heartbeat(
    change: StreamsChange, request: StreamsGroupHeartbeatRequest, caller: MemberClient, *, is_new_group: bool
) -> StreamsHeartbeatResult:
    """A member joins or is there. The records are in `change`. Raises Refused."""
    group = change.group
    member = _member(group, request)
    updated = _updated(member, request, caller)
    is_changed = updated != member
    if is_changed:
        change.records.append(updated.metadata_record(group.group_id))
    topology = change.topology_of(request.topology)
    change.tell_if_stale(updated)
    configured, hashed = change.configured(topology)
    if configured.is_ready:
        _check_tasks(configured, request)
    group_epoch = change.refresh(configured, hashed, bump=is_changed)
    target = change.target_for(updated, group_epoch)
    owned = owned_in(request)
    moved = change.reconcile(updated, target, owned)
    group.set_timer(member.member_id, MemberTimer.SESSION, change.now_ms + change.settings.session_timeout_ms)
    if request.shutdown_application:
        ask_to_shut_down(group, member.member_id)
    response = StreamsGroupHeartbeatResponse(
        member_id=moved.member_id,
        member_epoch=moved.member_epoch,
        heartbeat_interval_ms=change.settings.heartbeat_interval_ms,
    )
    endpoint_epoch = group.endpoint_epoch
    has_news = request.member_epoch == JOIN_EPOCH or not moved.has_same_tasks(member)
    if has_news:
        joins = request.member_epoch == JOIN_EPOCH  # with nothing
        group.had_before[moved.member_id] = AssignedTasks() if joins else member.assigned
    if has_news or _may_have_missed(group, moved, owned):
        response.active_tasks = to_wire(tasks_of(moved.assigned.active))
        response.standby_tasks = to_wire(moved.assigned.standby)
        response.warmup_tasks = to_wire(moved.assigned.warmup)
        endpoint_epoch += has_news and moved.endpoint is not None
    if endpoint_epoch != request.endpoint_information_epoch:
        others = [each for each in group.members.values() if each.member_id != moved.member_id]
        response.partitions_by_user_endpoint = endpoints_of([*others, moved], configured, change.partition_count)
    if not is_new_group:  # as in Kafka, where a group's own numbers begin with its second heartbeat
        group.endpoint_epoch = response.endpoint_information_epoch = endpoint_epoch
    response.status = _statuses(change, configured)
    return StreamsHeartbeatResult(response, configured.missing)


def _may_have_missed(group: StreamsGroup, member: StreamsGroupMember, owned: TargetTasks | None) -> bool:
    """Whether the answer that told the member its tasks may be lost: it has what it had before, and never had said more."""
    if owned is None:
        return False
    if is_all_of(owned, member.assigned):
        group.had_before[member.member_id] = None
    if member.member_id not in group.had_before:
        return True  # nobody knows what it was told before this broker started
    before = group.had_before[member.member_id]
    return before is not None and is_all_of(owned, before)


def check_room(group: StreamsGroup, config: GroupConfig) -> None:
    """A full group takes nobody, nor takes a member back. Raises Refused."""
    size_max = config.group_streams_max_size
    if len(group.members) >= size_max:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The streams group has reached its maximum capacity of {size_max} members.",
        )


def ask_to_shut_down(group: StreamsGroup, member_id: str) -> None:
    """All members are told to end, by the first one that asked; until the group is empty."""
    if group.shutdown_member_id is None:
        group.shutdown_member_id = member_id


def leaving_member(group: StreamsGroup, member_id: str) -> StreamsGroupMember:
    """The member that wants to leave. Raises Refused."""
    member = group.members.get(member_id)
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def _member(group: StreamsGroup, request: StreamsGroupHeartbeatRequest) -> StreamsGroupMember:
    if request.member_epoch == JOIN_EPOCH:
        return group.members.get(request.member_id) or StreamsGroupMember(request.member_id)
    member = leaving_member(group, request.member_id)
    _check_epoch(member, request)
    return member


def _check_epoch(member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest) -> None:
    """The previous epoch is a retry if its answer may have been lost: then the member has nothing that it should not."""
    if request.member_epoch == member.member_epoch:
        return
    is_greater = request.member_epoch > member.member_epoch
    if not is_greater and request.member_epoch == member.previous_member_epoch:
        assigned = member.assigned
        if (
            is_part(request.active_tasks, tasks_of(assigned.active))
            and is_part(request.standby_tasks, assigned.standby)
            and is_part(request.warmup_tasks, assigned.warmup)
        ):
            return
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The streams group member has a {'greater' if is_greater else 'smaller'} member epoch ({request.member_epoch}) "
        f"than the one known by the group coordinator ({member.member_epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _updated(
    member: StreamsGroupMember, request: StreamsGroupHeartbeatRequest, caller: MemberClient
) -> StreamsGroupMember:
    """The member with what the request says; fields that are null or -1 did not change."""
    timeout_ms, endpoint, tags = request.rebalance_timeout_ms, request.user_endpoint, request.client_tags
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        topology_epoch=member.topology_epoch if request.topology is None else request.topology.topology_epoch,
        client_id=caller.client_id,
        client_host=caller.client_host,
        process_id=member.process_id if request.process_id is None else request.process_id,
        endpoint=member.endpoint if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=member.client_tags
        if tags is None
        else tuple(sorted({each.key: each.value for each in tags}.items())),
    )


def _check_tasks(configured: ConfiguredTopology, request: StreamsGroupHeartbeatRequest) -> None:
    subtopologies = configured.subtopologies or {}
    kinds: tuple[Sequence[TaskIds] | None, ...] = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    for each in [task for tasks in kinds for task in tasks or ()]:
        subtopology = subtopologies.get(each.subtopology_id)
        if subtopology is None:
            raise Refused(INVALID, f"Subtopology {each.subtopology_id} does not exist in the topology.")
        for partition in each.partitions:
            if not 0 <= partition < subtopology.task_count:
                raise Refused(
                    INVALID,
                    f"Task {partition} for subtopology {each.subtopology_id} is invalid. "
                    f"Number of tasks for this subtopology: {subtopology.task_count}",
                )


def _statuses(change: StreamsChange, configured: ConfiguredTopology) -> list[Status]:
    told = list(change.told)
    if configured.problem is not None:
        told.append(configured.problem)
    asked = change.group.shutdown_member_id
    if asked is not None:
        told.append(
            Problem(
                StatusCode.SHUTDOWN_APPLICATION,
                f"Streams group member {asked} encountered a fatal error and requested a shutdown for the entire "
                "application.",
            )
        )
    return [Status(status_code=each.code, status_detail=each.detail) for each in told]
