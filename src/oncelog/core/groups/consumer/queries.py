"""ConsumerGroupDescribe, and what ListGroups and offset requests see of a consumer group (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.core.groups.consumer.group import ConsumerGroup, Topics
from oncelog.core.groups.consumer.member import ConsumerGroupMember, partitions_of
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.consumer_groups import Partitions
from oncelog.wire.messages.consumer_group_describe import Assignment, DescribedGroup, Member, TopicPartitions
from oncelog.wire.messages.list_groups import ListedGroup

CONSUMER_TYPE = "consumer"
MEMBER_TYPE_CLASSIC, MEMBER_TYPE_CONSUMER = 0, 1
FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH = 9

# Whether one partition's offset may be committed: topic id, partition -> error.
CheckPartition = Callable[[bytes, int], ErrorCode]


def described(group: ConsumerGroup, topics: Topics, assignors: list[str]) -> DescribedGroup:
    """The group with its members, as ConsumerGroupDescribe tells it."""
    votes = [each.server_assignor for each in group.members.values() if each.server_assignor in assignors]
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state.value,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=max(assignors, key=votes.count),
        members=[_member(group, each, topics) for each in group.members.values()],
    )


def not_found(group_id: str, *, is_other: bool) -> DescribedGroup:
    """There is no consumer group of this name."""
    message = f"Group {group_id} is not a consumer group." if is_other else f"Group {group_id} not found."
    return DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=message)


def _member(group: ConsumerGroup, member: ConsumerGroupMember, topics: Topics) -> Member:
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.member_epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(_held(member), topics),
        target_assignment=_assignment(group.targets.get(member.member_id, {}), topics),
        member_type=MEMBER_TYPE_CLASSIC if member.uses_classic_protocol else MEMBER_TYPE_CONSUMER,
    )


def _held(member: ConsumerGroupMember) -> Partitions:
    """What the member has, also what it is giving back."""
    held = partitions_of(member.assigned)
    for topic_id, partitions in partitions_of(member.pending_revocation).items():
        held[topic_id] = held.get(topic_id, frozenset()) | partitions
    return held


def _assignment(partitions: Partitions, topics: Topics) -> Assignment:
    """Partitions of topics that are gone are not shown."""
    known = {topic_id: topics.topics_by_id[topic_id].name for topic_id in partitions if topic_id in topics.topics_by_id}
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, topic_name=known[topic_id], partitions=sorted(partitions[topic_id]))
            for topic_id in sorted(known, key=lambda each: known[each])
        ]
    )


def listed(group: ConsumerGroup) -> ListedGroup:
    """The group in ListGroups."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=CONSUMER_TYPE,
        group_state=group.state.value,
        group_type=CONSUMER_TYPE,
    )


def check_commit(
    group: ConsumerGroup,
    member_id: str,
    instance_id: str | None,
    member_epoch: int,
    *,
    is_transactional: bool,
    version: int,
) -> tuple[ErrorCode, CheckPartition | None]:
    """Whether a member may commit. With an older epoch it may for what it has had since then (KIP-1251): the second
    value judges each partition, None where all may be committed. One that may not refuses the whole request."""
    if member_epoch < 0 and not group.members:
        return ErrorCode.NONE, None
    if is_transactional and member_epoch == -1 and not member_id and instance_id is None:
        return ErrorCode.NONE, None
    member = group.members.get(member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID, None
    is_classic = member.uses_classic_protocol
    if not is_transactional and not is_classic and version < FIRST_COMMIT_VERSION_WITH_MEMBER_EPOCH:
        return ErrorCode.UNSUPPORTED_VERSION, None
    if member_epoch == member.member_epoch:
        return ErrorCode.NONE, None
    stale = ErrorCode.ILLEGAL_GENERATION if is_classic else ErrorCode.STALE_MEMBER_EPOCH
    if member_epoch > member.member_epoch:
        return stale, None

    def check(topic_id: bytes, partition: int) -> ErrorCode:
        since = member.assigned.get(topic_id, {}).get(partition)
        if since is None:
            since = member.pending_revocation.get(topic_id, {}).get(partition)
        return stale if since is None or member_epoch < since else ErrorCode.NONE

    return ErrorCode.NONE, check


def check_fetch(group: ConsumerGroup, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Whether a member may read the group's offsets; who names no member always may."""
    if member_id is None and member_epoch < 0:
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if member.member_epoch == member_epoch:
        return ErrorCode.NONE
    return ErrorCode.ILLEGAL_GENERATION if member.uses_classic_protocol else ErrorCode.STALE_MEMBER_EPOCH
