"""A share group as administrators see it: ShareGroupDescribe and ListGroups."""

from __future__ import annotations

from oncelog.core.groups.consumer.group import Topics
from oncelog.core.groups.share.group import ShareGroup, ShareGroupMember
from oncelog.errors import ErrorCode
from oncelog.wire.messages.list_groups import ListedGroup
from oncelog.wire.messages.share_group_describe import Assignment, DescribedGroup, Member, TopicPartitions

SHARE_TYPE = "share"
ASSIGNOR = "simple"


def described(group: ShareGroup, topics: Topics) -> DescribedGroup:
    """A group with its members."""
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=ASSIGNOR,
        members=[_member(each, topics) for each in group.members.values()],
    )


def not_found(group_id: str, *, is_other: bool) -> DescribedGroup:
    """There is no share group of this name."""
    message = f"Group {group_id} is not a share group." if is_other else f"Group {group_id} not found."
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def listed(group: ShareGroup) -> ListedGroup:
    """A row of ListGroups."""
    return ListedGroup(
        group_id=group.group_id, protocol_type=SHARE_TYPE, group_state=group.state.value, group_type=SHARE_TYPE
    )


def _member(member: ShareGroupMember, topics: Topics) -> Member:
    known = topics.topics_by_id
    return Member(
        member_id=member.member_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        assignment=Assignment(
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, topic_name=known[topic_id].name, partitions=sorted(found))
                for topic_id, found in sorted(member.assigned.items())
                if topic_id in known
            ]
        ),
    )
