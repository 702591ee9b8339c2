"""Checks of the requests of share groups (KIP-932). Topics of records are asked for in the handlers: a session remembers them."""

from __future__ import annotations

from oncelog.core.access.check_groups import member_check
from oncelog.core.access.passage import Caller, Passage
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, ResourceType
from oncelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from oncelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from oncelog.wire.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponseTopic,
)
from oncelog.wire.messages.share_acknowledge import ShareAcknowledgeResponse
from oncelog.wire.messages.share_fetch import ShareFetchResponse
from oncelog.wire.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

E = ErrorCode
GROUP_DENIED, TOPIC_DENIED = E.GROUP_AUTHORIZATION_FAILED, E.TOPIC_AUTHORIZATION_FAILED

check_share_fetch = member_check(lambda: ShareFetchResponse(error_code=GROUP_DENIED))
check_share_acknowledge = member_check(lambda: ShareAcknowledgeResponse(error_code=GROUP_DENIED))


def check_share_group_heartbeat(caller: Caller, message: ShareGroupHeartbeatRequest, _version: int) -> Passage | None:
    """The group to read, each topic of the subscription to describe."""
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=ShareGroupHeartbeatResponse(error_code=GROUP_DENIED))
    names = message.subscribed_topic_names or []
    if not all(caller.may_on_topic(Operation.DESCRIBE, name) for name in names):
        return Passage(reply=ShareGroupHeartbeatResponse(error_code=TOPIC_DENIED))
    return None


def check_share_group_describe(caller: Caller, message: ShareGroupDescribeRequest, _version: int) -> Passage:
    """Each group to describe, and every topic its members have: else nothing of the group is shown."""
    passed = [each for each in message.group_ids if caller.may_on_group(Operation.DESCRIBE, each)]
    answers = [
        DescribedGroup(group_id=each, error_code=GROUP_DENIED) for each in message.group_ids if each not in passed
    ]

    def complete(reply: ShareGroupDescribeResponse) -> ShareGroupDescribeResponse:
        groups = []
        for group in reply.groups:
            if message.include_authorized_operations and group.error_code == E.NONE:
                group.authorized_operations = caller.operations(ResourceType.GROUP, group.group_id)
            groups.append(group if _are_shown(caller, group) else _hidden(group))
        return reply.replace(groups=[*groups, *answers])

    return Passage(message.replace(group_ids=passed), complete=complete)


def _are_shown(caller: Caller, group: DescribedGroup) -> bool:
    names = {part.topic_name for member in group.members for part in member.assignment.topic_partitions}
    return all(caller.may_on_topic(Operation.DESCRIBE, name) for name in names)


def _hidden(group: DescribedGroup) -> DescribedGroup:
    return group.replace(
        error_code=TOPIC_DENIED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
        members=[],
    )


def check_describe_share_group_offsets(
    caller: Caller, message: DescribeShareGroupOffsetsRequest, _version: int
) -> Passage:
    """Each group to describe; of its topics those that the caller may describe."""
    passed = [each for each in message.groups if caller.may_on_group(Operation.DESCRIBE, each.group_id)]
    answers = [
        DescribeShareGroupOffsetsResponseGroup(group_id=each.group_id, error_code=GROUP_DENIED)
        for each in message.groups
        if each not in passed
    ]
    asked_by_name = {each.group_id for each in passed if each.topics is not None}

    def complete(reply: DescribeShareGroupOffsetsResponse) -> DescribeShareGroupOffsetsResponse:
        for group in reply.groups:
            shown = [topic for topic in group.topics if caller.may_on_topic(Operation.DESCRIBE, topic.topic_name)]
            refused = [topic for topic in group.topics if topic not in shown]
            group.topics = [*shown, *map(_denied, refused)] if group.group_id in asked_by_name else shown
        return reply.replace(groups=[*reply.groups, *answers])

    return Passage(message.replace(groups=passed), complete=complete)


def _denied(topic: DescribeShareGroupOffsetsResponseTopic) -> DescribeShareGroupOffsetsResponseTopic:
    partitions = [
        each.replace(start_offset=-1, leader_epoch=0, lag=-1, error_code=TOPIC_DENIED) for each in topic.partitions
    ]
    return DescribeShareGroupOffsetsResponseTopic(topic_name=topic.topic_name, partitions=partitions)


def check_alter_share_group_offsets(
    caller: Caller, message: AlterShareGroupOffsetsRequest, _version: int
) -> Passage | None:
    """The group to read, each topic to read."""
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=AlterShareGroupOffsetsResponse(error_code=GROUP_DENIED))
    refused = [each for each in message.topics if not caller.may_on_topic(Operation.READ, each.topic_name)]
    if not refused:
        return None
    answers = [
        AlterShareGroupOffsetsResponseTopic(
            topic_name=topic.topic_name,
            partitions=[
                AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index, error_code=TOPIC_DENIED)
                for each in topic.partitions
            ],
        )
        for topic in refused
    ]

    def complete(reply: AlterShareGroupOffsetsResponse) -> AlterShareGroupOffsetsResponse:
        return reply.replace(responses=[*reply.responses, *answers])

    return Passage(message.replace(topics=[each for each in message.topics if each not in refused]), complete=complete)


def check_delete_share_group_offsets(
    caller: Caller, message: DeleteShareGroupOffsetsRequest, _version: int
) -> Passage | None:
    """The group to delete, each topic to read."""
    if not caller.may_on_group(Operation.DELETE, message.group_id):
        return Passage(reply=DeleteShareGroupOffsetsResponse(error_code=GROUP_DENIED))
    refused = [each for each in message.topics if not caller.may_on_topic(Operation.READ, each.topic_name)]
    if not refused:
        return None
    answers = [
        DeleteShareGroupOffsetsResponseTopic(topic_name=each.topic_name, error_code=TOPIC_DENIED) for each in refused
    ]

    def complete(reply: DeleteShareGroupOffsetsResponse) -> DeleteShareGroupOffsetsResponse:
        return reply.replace(responses=[*reply.responses, *answers])

    return Passage(message.replace(topics=[each for each in message.topics if each not in refused]), complete=complete)
