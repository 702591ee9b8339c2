"""Checks of the requests of groups: membership, offsets, coordinators, descriptions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.core.access.passage import Caller, Passage
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, ResourceType
from oncelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncelog.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from oncelog.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from oncelog.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.wire.messages.heartbeat import HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupResponse
from oncelog.wire.messages.leave_group import LeaveGroupResponse
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncelog.wire.messages.sync_group import SyncGroupResponse

E = ErrorCode
DENIED = E.GROUP_AUTHORIZATION_FAILED
_GROUP, _TRANSACTION, _SHARE = 0, 1, 2


def member_check(reply: Callable[[], Any]) -> Callable[[Caller, Any, int], Passage | None]:
    """The check of a member's own requests: the group must be its to read."""

    def check(caller: Caller, message: Any, _version: int) -> Passage | None:
        return None if caller.may_on_group(Operation.READ, message.group_id or "") else Passage(reply=reply())

    return check


def _not_joined() -> JoinGroupResponse:
    return JoinGroupResponse(error_code=DENIED)


check_sync_group = member_check(lambda: SyncGroupResponse(error_code=DENIED))
check_heartbeat = member_check(lambda: HeartbeatResponse(error_code=DENIED))
check_leave_group = member_check(lambda: LeaveGroupResponse(error_code=DENIED))


def check_join_group(caller: Caller, message: Any, version: int) -> Passage | None:
    """The group to read. Before v7 the protocol's name cannot be null."""
    if caller.may_on_group(Operation.READ, message.group_id):
        return None
    return Passage(reply=_not_joined().replace(protocol_name=None if version >= 7 else ""))


def check_consumer_group_heartbeat(
    caller: Caller, message: ConsumerGroupHeartbeatRequest, _version: int
) -> Passage | None:
    """The group to read, each topic of the subscription to describe (KIP-848)."""
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=ConsumerGroupHeartbeatResponse(error_code=DENIED))
    names = message.subscribed_topic_names or []
    if not all(caller.may_on_topic(Operation.DESCRIBE, name) for name in names):
        return Passage(reply=ConsumerGroupHeartbeatResponse(error_code=E.TOPIC_AUTHORIZATION_FAILED))
    return None


def check_find_coordinator(caller: Caller, message: FindCoordinatorRequest, version: int) -> Passage | None:
    """Each key to describe; a share partition is for brokers to ask for. Other kinds of keys are the handler's business."""
    if message.key_type == _SHARE and not caller.may_on_cluster(Operation.CLUSTER_ACTION):
        return Passage(reply=_no_share_coordinator(message, version))
    kind = {_GROUP: ResourceType.GROUP, _TRANSACTION: ResourceType.TRANSACTIONAL_ID}.get(message.key_type)
    if kind is None:
        return None
    code = DENIED if kind == ResourceType.GROUP else E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version < 4:
        if caller.may(Operation.DESCRIBE, kind, message.key):
            return None
        return Passage(reply=FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1))
    passed = [key for key in message.coordinator_keys if caller.may(Operation.DESCRIBE, kind, key)]
    answers = [
        Coordinator(key=key, node_id=-1, port=-1, error_code=code)
        for key in message.coordinator_keys
        if key not in passed
    ]
    if not answers:
        return None
    if not passed:
        return Passage(reply=FindCoordinatorResponse(coordinators=answers))

    def complete(reply: FindCoordinatorResponse) -> FindCoordinatorResponse:
        return reply.replace(coordinators=[*reply.coordinators, *answers])

    return Passage(message.replace(coordinator_keys=passed), complete=complete)


def _no_share_coordinator(message: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
    code = E.CLUSTER_AUTHORIZATION_FAILED
    if version < 4:
        return FindCoordinatorResponse(error_code=code, error_message=None, node_id=-1, port=-1)
    keys = message.coordinator_keys
    return FindCoordinatorResponse(
        coordinators=[Coordinator(key=key, node_id=-1, port=-1, error_code=code) for key in keys]
    )


def check_describe_groups(caller: Caller, message: DescribeGroupsRequest, _version: int) -> Passage:
    """Each group to describe."""
    passed = [each for each in message.groups if caller.may_on_group(Operation.DESCRIBE, each)]
    answers = [DescribedGroup(group_id=each, error_code=DENIED) for each in message.groups if each not in passed]

    def complete(reply: DescribeGroupsResponse) -> DescribeGroupsResponse:
        if message.include_authorized_operations:
            for group in reply.groups:
                group.authorized_operations = caller.operations(ResourceType.GROUP, group.group_id)
        return reply.replace(groups=[*reply.groups, *answers])

    return Passage(message.replace(groups=passed), complete=complete)


def check_consumer_group_describe(caller: Caller, message: ConsumerGroupDescribeRequest, _version: int) -> Passage:
    """Each group to describe, and every topic its members have: else nothing of the group is shown."""
    passed = [each for each in message.group_ids if caller.may_on_group(Operation.DESCRIBE, each)]
    answers = [
        DescribedConsumerGroup(group_id=each, error_code=DENIED) for each in message.group_ids if each not in passed
    ]

    def complete(reply: ConsumerGroupDescribeResponse) -> ConsumerGroupDescribeResponse:
        groups = []
        for group in reply.groups:
            if message.include_authorized_operations and group.error_code == E.NONE:
                group.authorized_operations = caller.operations(ResourceType.GROUP, group.group_id)
            groups.append(group if _are_shown(caller, group) else _hidden(group))
        return reply.replace(groups=[*groups, *answers])

    return Passage(message.replace(group_ids=passed), complete=complete)


def _are_shown(caller: Caller, group: DescribedConsumerGroup) -> bool:
    names = {
        part.topic_name
        for member in group.members
        for assignment in (member.assignment, member.target_assignment)
        for part in assignment.topic_partitions
    }
    return all(caller.may_on_topic(Operation.DESCRIBE, name) for name in names)


def _hidden(group: DescribedConsumerGroup) -> DescribedConsumerGroup:
    return group.replace(
        error_code=E.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
        members=[],
    )


def check_list_groups(caller: Caller, message: ListGroupsRequest, _version: int) -> Passage | None:
    """Who may describe the cluster sees all groups, others those they may describe."""
    if caller.may_on_cluster(Operation.DESCRIBE):
        return None

    def complete(reply: ListGroupsResponse) -> ListGroupsResponse:
        return reply.replace(
            groups=[each for each in reply.groups if caller.may_on_group(Operation.DESCRIBE, each.group_id)]
        )

    return Passage(message, complete=complete)


def check_delete_groups(caller: Caller, message: DeleteGroupsRequest, _version: int) -> Passage | None:
    """Each group to delete."""
    passed = [each for each in message.groups_names if caller.may_on_group(Operation.DELETE, each)]
    answers = [
        DeletableGroupResult(group_id=each, error_code=DENIED) for each in message.groups_names if each not in passed
    ]
    if not answers:
        return None

    def complete(reply: DeleteGroupsResponse) -> DeleteGroupsResponse:
        return reply.replace(results=[*reply.results, *answers])

    return Passage(message.replace(groups_names=passed), complete=complete)
