"""ConsumerGroupHeartbeat (KIP-848): joining, staying and leaving in one request.

The checks stand in Apache Kafka's order, because clients act on the first error. A heartbeat may change the member, may
raise the group's epoch, may compute new targets, and takes the member one step towards its own.
"""

from __future__ import annotations

from dataclasses import replace

from oncelog.core.groups.consumer.change import GroupChange, RegexChange
from oncelog.core.groups.consumer.group import ConsumerGroup
from oncelog.core.groups.consumer.member import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    ConsumerGroupMember,
    to_wire,
)
from oncelog.core.groups.consumer.reconciliation import Owned
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.consumer_groups import EpochsOfPartitions
from oncelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

FIRST_VERSION_WITH_CLIENT_MADE_MEMBER_ID = 1


@dataclass(frozen=True, slots=True)
class MemberClient:
    """What the shell knows of who asks."""

    client_id: str
    client_host: str


def check_heartbeat(request: ConsumerGroupHeartbeatRequest, version: int, assignors: list[str]) -> None:
    """What is refused before any group is looked at. Raises Refused."""
    makes_own_id = version >= FIRST_VERSION_WITH_CLIENT_MADE_MEMBER_ID
    if not request.member_id and (makes_own_id or request.member_epoch > 0 or request.member_epoch == LEAVE_EPOCH):
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberId can't be empty.")
    if not request.group_id:
        raise Refused(ErrorCode.INVALID_REQUEST, "GroupId can't be empty.")
    if request.instance_id == "":
        raise Refused(ErrorCode.INVALID_REQUEST, "InstanceId can't be empty.")
    if request.rack_id == "":
        raise Refused(ErrorCode.INVALID_REQUEST, "RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "InstanceId can't be null.")
    elif request.member_epoch < STATIC_LEAVE_EPOCH:
        raise Refused(ErrorCode.INVALID_REQUEST, "MemberEpoch is invalid.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise Refused(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise Refused(ErrorCode.INVALID_REQUEST, "RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise Refused(ErrorCode.INVALID_REQUEST, "TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        )


def heartbeat(
    change: GroupChange, request: ConsumerGroupHeartbeatRequest, caller: MemberClient, new_member_id: str
) -> ConsumerGroupHeartbeatResponse:
    """A member joins or is there. The records are in `change`. Raises Refused."""
    group = change.group
    check_room(change, request.member_id)
    member_id = request.member_id or new_member_id
    if request.instance_id is None:
        member = _dynamic_member(group, request, member_id)
    else:
        member = _static_member(change, request, member_id, request.instance_id)
    updated = _updated(member, request, caller)
    has_new_names = change.update(member, updated)
    regex_change = change.update_regex(member, updated)
    bump = has_new_names or regex_change is RegexChange.RESOLVED
    group_epoch = change.refresh(group.with_member(updated).values(), bump=bump)
    target = change.target_for(updated, group_epoch)
    updated = change.reconcile(
        updated,
        target,
        request.topic_partitions,
        has_subscription_changed=has_new_names or regex_change is not RegexChange.NONE,
    )
    group.set_timer(member_id, MemberTimer.SESSION, change.now_ms + change.settings.session_timeout_ms)
    response = ConsumerGroupHeartbeatResponse(
        member_id=updated.member_id,
        member_epoch=updated.member_epoch,
        heartbeat_interval_ms=change.settings.heartbeat_interval_ms,
    )
    if _is_full(request) or not updated.has_same_assignment(member):
        response.assignment = Assignment(topic_partitions=to_wire(updated.assigned))
    return response


def check_room(change: GroupChange, member_id: str) -> None:
    """A full group takes nobody new. Raises Refused."""
    size_max = change.config.group_consumer_max_size
    if len(change.group.members) >= size_max and member_id not in change.group.members:
        raise Refused(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def _dynamic_member(
    group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str
) -> ConsumerGroupMember:
    member = group.members.get(member_id)
    if member is None and request.member_epoch != JOIN_EPOCH:
        raise unknown_member(group, member_id)
    member = member or ConsumerGroupMember(member_id)
    _check_epoch(member, request.member_epoch, request.topic_partitions)
    return member


def _static_member(
    change: GroupChange, request: ConsumerGroupHeartbeatRequest, member_id: str, instance_id: str
) -> ConsumerGroupMember:
    known = change.group.static_member(instance_id)
    if request.member_epoch != JOIN_EPOCH:
        known = check_static(known, member_id, instance_id)
        _check_epoch(known, request.member_epoch, request.topic_partitions)
        return known
    if known is None:
        return change.group.members.get(member_id) or ConsumerGroupMember(member_id)
    if not known.uses_classic_protocol and known.member_epoch != STATIC_LEAVE_EPOCH:
        raise Refused(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance "
            f"id is owned by {known.member_id} member.",
        )
    return change.replace_static(known, member_id)


def unknown_member(group: ConsumerGroup, member_id: str) -> Refused:
    """Nobody has this id."""
    return Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {group.group_id}.")


def check_static(member: ConsumerGroupMember | None, member_id: str, instance_id: str) -> ConsumerGroupMember:
    """The static member, if it is there and nobody has taken its place. Raises Refused."""
    if member is None:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise Refused(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}.",
        )
    return member


def _check_epoch(member: ConsumerGroupMember, member_epoch: int, owned: Owned) -> None:
    """Epoch 0 always may join anew. The previous one is a retry if its answer may have been lost: then the member has
    nothing that it should not have."""
    if member_epoch == JOIN_EPOCH or member_epoch == member.member_epoch:
        return
    is_greater = member_epoch > member.member_epoch
    if not is_greater and member_epoch == member.previous_member_epoch and _is_part(owned, member.assigned):
        return
    raise Refused(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {'greater' if is_greater else 'smaller'} member epoch ({member_epoch}) than "
        f"the one known by the group coordinator ({member.member_epoch}). "
        "The member must abandon all its partitions and rejoin.",
    )


def _is_part(owned: Owned, assigned: EpochsOfPartitions) -> bool:
    if owned is None:
        return False
    return all(index in assigned.get(each.topic_id, {}) for each in owned for index in each.partitions)


def _updated(
    member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest, caller: MemberClient
) -> ConsumerGroupMember:
    """The member with what the request says; fields that are null or -1 did not change."""
    names, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.instance_id if request.instance_id is not None else member.instance_id,
        rack_id=request.rack_id if request.rack_id is not None else member.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=request.server_assignor if request.server_assignor is not None else member.server_assignor,
        topic_names=member.topic_names if names is None else frozenset(names),
        topic_regex=member.topic_regex if regex is None else regex,
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=None,
    )


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """A request that says everything wants to hear everything."""
    if request.member_epoch == JOIN_EPOCH:
        return True
    has_topics = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
    return request.rebalance_timeout_ms != -1 and has_topics and request.topic_partitions is not None


def leaving_member(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupMember:
    """The member that wants to leave. Raises Refused."""
    if request.instance_id is not None:
        return check_static(group.static_member(request.instance_id), request.member_id, request.instance_id)
    member = group.members.get(request.member_id)
    if member is None:
        raise unknown_member(group, request.member_id)
    return member


def leave_for_a_while(change: GroupChange, member: ConsumerGroupMember) -> ConsumerGroupHeartbeatResponse:
    """A static member keeps its partitions until its session is over, if it does not come back."""
    away = replace(member, member_epoch=STATIC_LEAVE_EPOCH, pending_revocation={})
    change.records.append(away.current_record(change.group.group_id))
    return ConsumerGroupHeartbeatResponse(member_id=member.member_id, member_epoch=STATIC_LEAVE_EPOCH)
