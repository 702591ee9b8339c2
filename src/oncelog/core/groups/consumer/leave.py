"""LeaveGroup of a consumer group: members go by id, or (an administrator's way, KIP-345) by instance id alone."""

from __future__ import annotations

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.membership import FIRST_VERSION_WITH_BATCHED_LEAVE
from oncelog.core.groups.consumer.group import ConsumerGroup
from oncelog.core.groups.consumer.groups import ConsumerGroups
from oncelog.core.groups.consumer.heartbeat import check_static, unknown_member
from oncelog.core.groups.consumer.member import ConsumerGroupMember
from oncelog.core.groups.refused import Refused
from oncelog.errors import ErrorCode
from oncelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse


def leave_consumer_group(
    groups: ConsumerGroups, group: ConsumerGroup, request: LeaveGroupRequest, version: int, now_ms: int
) -> Decision:
    """LeaveGroup v0-5: each member has its own result, and all that may go go together."""
    is_batched = version >= FIRST_VERSION_WITH_BATCHED_LEAVE
    identities = list(request.members) if is_batched else [MemberIdentity(member_id=request.member_id)]
    leaving: dict[str, None] = {}
    results = []
    for each in identities:
        error_code = ErrorCode.NONE
        try:
            leaving[_leaving(group, each).member_id] = None
        except Refused as refused:
            error_code = refused.error_code
        results.append(
            MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error_code)
        )
    change = groups.change(group, now_ms)
    groups.fence(change, list(leaving))
    if is_batched:
        reply = LeaveGroupResponse(members=results)
    else:
        reply = LeaveGroupResponse(error_code=results[0].error_code)
    return Decision(records=tuple(change.records), reply=reply)


def _leaving(group: ConsumerGroup, identity: MemberIdentity) -> ConsumerGroupMember:
    if identity.group_instance_id is None:
        member = group.members.get(identity.member_id)
        if member is None:
            raise unknown_member(group, identity.member_id)
        return member
    known = group.static_member(identity.group_instance_id)
    member_id = identity.member_id or (known.member_id if known is not None else "")
    return check_static(known, member_id, identity.group_instance_id)
