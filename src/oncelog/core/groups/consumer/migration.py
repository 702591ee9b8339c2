"""From classic group to consumer group and back without a stop (KIP-848, "Migration").

The first member of the new protocol makes a consumer group of a classic one: the members that are there stay, as
members of the classic protocol. When the last member of the new protocol goes, the rest is a classic group again. Both
ways the group keeps its id, its offsets, and what its members have.
"""

from __future__ import annotations

from collections.abc import Mapping

from oncelog.core.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group, GroupState, Member, WallClock
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer.group import ConsumerGroup, Topics, metadata_hash
from oncelog.core.groups.consumer.member import ConsumerGroupMember, to_consumer_protocol
from oncelog.core.groups.refused import Refused
from oncelog.core.metadata.cluster import Topic
from oncelog.errors import ErrorCode, MalformedMessage
from oncelog.wire.consumer_protocol import assignment_from_bytes, subscription_from_bytes
from oncelog.wire.log_records.consumer_groups import (
    ClassicMember,
    ConsumerGroupRecord,
    GroupEpoch,
    TargetEpoch,
    TargetMember,
)
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord, GroupDeleted


def check_upgrade(group: Group, config: GroupConfig) -> None:
    """Whether a classic group with members may become a consumer group. Raises Refused."""
    reason = ""
    if not config.may_upgrade:
        reason = "online upgrade is disabled"
    elif not group.uses_consumer_protocol:
        reason = "the group does not use the consumer embedded protocol"
    elif len(group.members) > config.group_consumer_max_size:
        reason = "the group size exceeds the consumer group maximum size"
    if reason:
        raise _cannot(group.group_id, reason)


def _cannot(group_id: str, reason: str) -> Refused:
    return Refused(
        ErrorCode.GROUP_ID_NOT_FOUND, f"Cannot upgrade classic group {group_id} to consumer group because {reason}."
    )


def upgraded(group: Group, topics: Topics) -> tuple[ConsumerGroup, list[ConsumerOffsetsRecord]]:
    """The consumer group that a classic group becomes, and the records for it. Everybody is stable with what the last
    assignment gave; who was in a rebalance joins again. Raises Refused."""
    new = ConsumerGroup(group.group_id)
    members = [_member(group, each, topics.topics) for each in group.members.values()]
    group_id, generation_id = group.group_id, group.generation_id
    records: list[ConsumerGroupRecord] = [each.metadata_record(group_id) for each in members]
    names = {name for each in members for name in each.topic_names}
    records.append(GroupEpoch(group_id, generation_id, metadata_hash(names, topics.topics)))
    records += [
        TargetMember(group_id, each.member_id, {topic: frozenset(held) for topic, held in each.assigned.items()})
        for each in members
    ]
    records.append(TargetEpoch(group_id, generation_id))
    records += [each.current_record(group_id) for each in members]
    for record in records:
        new.replay(record)
    return new, [GroupDeleted(group_id), *records]


def _member(group: Group, member: Member, topics: Mapping[str, Topic]) -> ConsumerGroupMember:
    protocol_name = group.protocol_name or member.protocols[0][0]
    try:
        subscription = subscription_from_bytes(member.subscription(protocol_name))
        assignment = assignment_from_bytes(member.assignment)
    except MalformedMessage as fault:
        raise _cannot(group.group_id, "the embedded consumer protocol is malformed") from fault
    if assignment.user_data:
        raise _cannot(
            group.group_id,
            "an unsupported custom assignor is in use. "
            "Please refer to the documentation or switch to a default assignor before re-attempting the upgrade",
        )
    assigned: dict[bytes, dict[int, int]] = {}
    for name, partition in assignment.partitions:
        if name in topics:
            assigned.setdefault(topics[name].topic_id, {})[partition] = group.generation_id
    return ConsumerGroupMember(
        member_id=member.member_id,
        member_epoch=group.generation_id,
        previous_member_epoch=group.generation_id,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMember(member.session_timeout_ms, member.protocols),
    )


def may_downgrade(group: ConsumerGroup, leaving: Mapping[str, ConsumerGroupMember], config: GroupConfig) -> bool:
    """Whether only members of the classic protocol are left once these are gone."""
    remaining = [each for each in group.members.values() if each.member_id not in leaving]
    return (
        bool(remaining)
        and all(each.uses_classic_protocol for each in remaining)
        and config.may_downgrade
        and len(remaining) <= config.group_max_size
    )


def downgraded(
    group: ConsumerGroup,
    leaving: Mapping[str, ConsumerGroupMember],
    joining: ConsumerGroupMember | None,
    topics: Topics,
    now_ms: int,
    clock: WallClock,
) -> Group:
    """The classic group that remains without `leaving`, with `joining` (a static member in another's place)."""
    classic = Group(
        group.group_id,
        state=GroupState.STABLE,
        previous_state=GroupState.STABLE,
        state_timestamp_ms=now_ms + clock.offset_ms,
        clock=clock,
        generation_id=group.group_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
    )
    members = [each for each in group.members.values() if each.member_id not in leaving]
    if joining is not None:
        members = [each for each in members if each.instance_id != joining.instance_id] + [joining]
    for each in members:
        assert each.classic is not None
        classic.add(
            Member(
                member_id=each.member_id,
                group_instance_id=each.instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                rebalance_timeout_ms=each.rebalance_timeout_ms,
                session_timeout_ms=each.classic.session_timeout_ms,
                protocols=each.classic.protocols,
                session_deadline_ms=now_ms + each.classic.session_timeout_ms,
            )
        )
    classic.protocol_name = classic.select_protocol()
    names = {topic_id: topic.name for topic_id, topic in topics.topics_by_id.items()}
    for each in members:
        member = classic.members[each.member_id]
        version = protocol_version(member.subscription(classic.protocol_name))
        target = {topic: dict.fromkeys(held, 0) for topic, held in group.target_of(each).items()}
        member.assignment = to_consumer_protocol(target, names, version)
    return classic


def protocol_version(metadata: bytes) -> int:
    """The version of the embedded protocol that a member speaks: its assignment comes in the same."""
    return min(max(int.from_bytes(metadata[:2], "big", signed=True), 0), 3)
