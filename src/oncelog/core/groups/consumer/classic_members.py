"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat (KIP-848, "Migration").

The group does the assigning, so nobody leads and nobody waits: a join takes the member its next step and is answered
at once, a sync fetches what that gave. A heartbeat says REBALANCE_IN_PROGRESS when there is a step to do. The checks
stand in Apache Kafka's order.
"""

from __future__ import annotations

from dataclasses import replace

from oncelog.core.groups.classic.group import CONSUMER_PROTOCOL_TYPE
from oncelog.core.groups.consumer.change import GroupChange, RegexChange
from oncelog.core.groups.consumer.group import ConsumerGroup, Topics
from oncelog.core.groups.consumer.heartbeat import MemberClient, check_room, check_static, unknown_member
from oncelog.core.groups.consumer.member import ConsumerGroupMember, MemberState, to_consumer_protocol
from oncelog.core.groups.consumer.migration import protocol_version
from oncelog.core.groups.member_timers import MemberTimer
from oncelog.core.groups.refused import Refused
from oncelog.errors import ErrorCode, MalformedMessage
from oncelog.wire.consumer_protocol import Subscription, subscription_from_bytes
from oncelog.wire.log_records.consumer_groups import ClassicMember
from oncelog.wire.messages.consumer_group_heartbeat import TopicPartitions
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupResponse
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse

FIRST_JOIN_VERSION_WITH_REQUIRED_MEMBER_ID = 4


def supports(group: ConsumerGroup, protocol_type: str, names: set[str]) -> bool:
    """Whether every classic member speaks one of these protocols."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    if not group.members:
        return bool(names)
    classic = [{name for name, _ in each.classic.protocols} for each in group.members.values() if each.classic]
    return any(all(name in spoken for spoken in classic) for name in names)


def join(
    change: GroupChange, request: JoinGroupRequest, version: int, caller: MemberClient, new_member_id: str
) -> tuple[ConsumerGroupMember, ConsumerGroupMember, bool]:
    """The joining member before and after, and whether the group's epoch was raised by it. Raises Refused."""
    group = change.group
    is_new = not request.member_id
    member_id = request.member_id or new_member_id
    check_room(change, member_id)
    if not supports(group, request.protocol_type, {each.name for each in request.protocols}):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported.")
    instance_id = request.group_instance_id
    if is_new and instance_id is None and version >= FIRST_JOIN_VERSION_WITH_REQUIRED_MEMBER_ID:
        raise Refused(ErrorCode.MEMBER_ID_REQUIRED, member_id)
    member = _joining_member(change, member_id, instance_id, is_new=is_new)
    updated = _updated(member, request, _subscription(request), caller)
    has_new_names = change.update(member, updated)
    regex_change = change.update_regex(member, updated)
    return member, updated, has_new_names or regex_change is not RegexChange.NONE


def _joining_member(
    change: GroupChange, member_id: str, instance_id: str | None, *, is_new: bool
) -> ConsumerGroupMember:
    group = change.group
    if instance_id is None:
        return group.members.get(member_id) or ConsumerGroupMember(member_id)
    known = group.static_member(instance_id)
    if not is_new:
        return check_static(known, member_id, instance_id)
    return ConsumerGroupMember(member_id) if known is None else change.replace_static(known, member_id)


def _subscription(request: JoinGroupRequest) -> Subscription:
    try:
        return subscription_from_bytes(request.protocols[0].metadata)
    except MalformedMessage as fault:
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR, "Malformed embedded consumer protocol.") from fault


def _updated(
    member: ConsumerGroupMember, request: JoinGroupRequest, subscription: Subscription, caller: MemberClient
) -> ConsumerGroupMember:
    timeout_ms = request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=request.group_instance_id if request.group_instance_id is not None else member.instance_id,
        rack_id=subscription.rack_id or member.rack_id,
        rebalance_timeout_ms=request.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=caller.client_id,
        client_host=caller.client_host,
        classic=ClassicMember(
            request.session_timeout_ms, tuple((each.name, bytes(each.metadata)) for each in request.protocols)
        ),
    )


def owned_by(request: JoinGroupRequest, topics: Topics) -> list[TopicPartitions]:
    """What the joining member still has, as a heartbeat would tell it."""
    owned: dict[bytes, list[int]] = {}
    for name, partition in _subscription(request).owned_partitions:
        topic = topics.topics.get(name)
        if topic is not None:
            owned.setdefault(topic.topic_id, []).append(partition)
    return [TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in owned.items()]


def take_steps(
    change: GroupChange, member: ConsumerGroupMember, request: JoinGroupRequest, *, has_changed: bool
) -> ConsumerGroupMember:
    """The member goes on in a group that stays a consumer group; it has to sync in time."""
    group = change.group
    group_epoch = change.refresh(group.with_member(member).values(), bump=has_changed)
    target = change.target_for(member, group_epoch)
    owned = owned_by(request, change.topics)
    moved = change.reconcile(member, target, owned, has_subscription_changed=has_changed)
    group.stop_timer(moved.member_id, MemberTimer.JOIN)
    group.set_timer(moved.member_id, MemberTimer.SESSION, change.now_ms + request.session_timeout_ms)
    group.set_timer(moved.member_id, MemberTimer.SYNC, change.now_ms + moved.rebalance_timeout_ms)
    return moved


def joined(member: ConsumerGroupMember) -> JoinGroupResponse:
    """The answer to a join: the epoch is the generation, and there is no leader."""
    assert member.classic is not None
    return JoinGroupResponse(
        member_id=member.member_id,
        generation_id=member.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=member.classic.protocols[0][0],
    )


def _check_member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> ConsumerGroupMember:
    if instance_id is not None:
        member = check_static(group.static_member(instance_id), member_id, instance_id)
    elif member_id in group.members:
        member = group.members[member_id]
    else:
        raise unknown_member(group, member_id)
    if not member.uses_classic_protocol:
        raise Refused(ErrorCode.UNKNOWN_MEMBER_ID)
    if member.member_epoch != generation_id:
        raise Refused(ErrorCode.ILLEGAL_GENERATION)
    return member


def sync(change: GroupChange, request: SyncGroupRequest) -> SyncGroupResponse:
    """What the member has now, in the version of the protocol that it speaks. Raises Refused."""
    group = change.group
    member = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    assert member.classic is not None
    protocol_name, metadata = member.classic.protocols[0]
    if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if request.protocol_name not in (None, protocol_name):
        raise Refused(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.group_epoch > member.member_epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        _await_join(change, member)
        raise Refused(ErrorCode.REBALANCE_IN_PROGRESS)
    group.stop_timer(member.member_id, MemberTimer.SYNC)
    _prolong(change, member)
    names = {topic_id: topic.name for topic_id, topic in change.topics.topics_by_id.items()}
    return SyncGroupResponse(
        protocol_type=request.protocol_type,
        protocol_name=request.protocol_name,
        assignment=to_consumer_protocol(member.assigned, names, protocol_version(metadata)),
    )


def heartbeat(change: GroupChange, request: HeartbeatRequest) -> ErrorCode:
    """Whether the member has to join: for a new epoch, to show what it gave back, or because what it waits for is
    free. Raises Refused."""
    group = change.group
    member = _check_member(group, request.member_id, request.group_instance_id, request.generation_id)
    _prolong(change, member)
    may_go_on = member.state is MemberState.UNRELEASED_PARTITIONS and not _waits(group, member)
    if member.member_epoch < group.group_epoch or member.state is MemberState.UNREVOKED_PARTITIONS or may_go_on:
        _await_join(change, member)
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _waits(group: ConsumerGroup, member: ConsumerGroupMember) -> bool:
    return any(
        partition not in member.assigned.get(topic_id, {}) and group.is_owned(topic_id, partition)
        for topic_id, partitions in group.target_of(member).items()
        for partition in partitions
    )


def _prolong(change: GroupChange, member: ConsumerGroupMember) -> None:
    assert member.classic is not None
    deadline_ms = change.now_ms + member.classic.session_timeout_ms
    change.group.set_timer(member.member_id, MemberTimer.SESSION, deadline_ms)


def _await_join(change: GroupChange, member: ConsumerGroupMember) -> None:
    if (member.member_id, MemberTimer.JOIN) not in change.group.timers:
        deadline_ms = change.now_ms + member.rebalance_timeout_ms
        change.group.set_timer(member.member_id, MemberTimer.JOIN, deadline_ms)
