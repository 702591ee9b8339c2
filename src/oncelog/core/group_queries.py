"""DescribeGroups, ListGroups and DeleteGroups: a group as administrators see it.

A group that nobody knows is described as Dead before version 6 and is GROUP_ID_NOT_FOUND from there (KIP-1043). What an
administrator may not see (authorization) is the shell's.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.core.decision import Decision
from oncelog.core.group import Group, GroupState, Member
from oncelog.core.group_offsets import OffsetRequests
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord, GroupDeleted
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from oncelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

GROUP_TYPE = "classic"
FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6


def describe_groups(groups: dict[str, Group], request: DescribeGroupsRequest, version: int) -> DescribeGroupsResponse:
    """DescribeGroups v0-6 over this coordinator's groups."""
    return DescribeGroupsResponse(groups=[_describe(groups.get(each), each, version) for each in request.groups])


def _describe(group: Group | None, group_id: str, version: int) -> DescribedGroup:
    if group is None or group.state is GroupState.DEAD:
        described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
        if version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
            described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
            described.error_message = f"Group {group_id} not found."
        return described
    # Only a stable group has a protocol; members keep their last assignment while they find the next one.
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol_name or "") if is_stable else "",
        members=[_describe_member(each, group.protocol_name if is_stable else None) for each in group.members.values()],
    )


def _describe_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.subscription(protocol_name) if protocol_name is not None else b"",
        member_assignment=member.assignment,
    )


def list_groups(groups: Iterable[Group], request: ListGroupsRequest) -> ListGroupsResponse:
    """ListGroups v0-5; filters are Kafka's names in any case, an unknown name matches nothing (KIP-518, KIP-848)."""
    states = {each.lower() for each in request.states_filter}
    types = {each.lower() for each in request.types_filter}
    if types and GROUP_TYPE not in types:
        return ListGroupsResponse()
    return ListGroupsResponse(
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type=GROUP_TYPE,
            )
            for group in groups
            if not states or group.state.value.lower() in states
        ]
    )


def delete_groups(groups: dict[str, Group], offsets: OffsetRequests, request: DeleteGroupsRequest) -> Decision:
    """DeleteGroups v0-2: empty groups only; their offsets go with them, those of open transactions too (G5)."""
    records: list[ConsumerOffsetsRecord] = []
    results = []
    for group_id in dict.fromkeys(request.groups_names):
        group = groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            error_code = ErrorCode.GROUP_ID_NOT_FOUND
        elif group.state is not GroupState.EMPTY:
            error_code = ErrorCode.NON_EMPTY_GROUP
        else:
            error_code = ErrorCode.NONE
            records += [*offsets.deletions_of_group(group_id), GroupDeleted(group_id)]
        results.append(DeletableGroupResult(group_id=group_id, error_code=error_code))
    return Decision(records=tuple(records), reply=DeleteGroupsResponse(results=results))
