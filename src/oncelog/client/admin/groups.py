"""Consumer groups: list, describe, delete, and their committed offsets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession, Unreachable
from oncelog.client.cluster.group_offsets import commit_offsets, fetch_committed, fetch_pending, group_key
from oncelog.errors import ErrorCode, MalformedMessage, UnsupportedVersion
from oncelog.lazy_dataclass import dataclass
from oncelog.types import GroupMetadata, Node, OffsetAndMetadata, TopicPartition
from oncelog.wire.consumer_protocol import assignment_from_bytes
from oncelog.wire.messages.consumer_group_describe import Assignment, ConsumerGroupDescribeRequest
from oncelog.wire.messages.consumer_group_describe import DescribedGroup as DescribedConsumerGroup
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.wire.messages.share_group_describe import Assignment as ShareAssignment
from oncelog.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from oncelog.wire.messages.share_group_describe import ShareGroupDescribeRequest
from oncelog.wire.messages.streams_group_describe import DescribedGroup as DescribedStreamsGroup
from oncelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest, TaskIds
from oncelog.wire.schema import Struct

STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "Stable",
    "NotReady",
    "Dead",
)
TYPES = ("classic", "consumer", "share", "streams")


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list; `coordinator_id` is the broker that serves it."""

    group_id: str
    protocol_type: str
    state: str
    group_type: str
    coordinator_id: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member and what it reads. In a consumer group (KIP-848) also its epoch and what it is to read; in a streams group
    (KIP-1071) those of its active tasks, and beside them what its standby tasks follow."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    partitions: tuple[TopicPartition, ...]
    member_epoch: int | None = None
    target_partitions: tuple[TopicPartition, ...] = ()
    standby_partitions: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group; state "Dead" where it does not exist (in brokers that say so). `group_type` is "classic", "consumer", "share" or
    "streams"; `protocol_name` is the assignor, "" where the broker does not say. A classic group has no epochs."""

    group_id: str
    state: str
    protocol_type: str
    protocol_name: str
    coordinator_id: int
    members: tuple[GroupMember, ...]
    group_type: str = "classic"
    group_epoch: int | None = None
    assignment_epoch: int | None = None


class AdminGroups(AdminSession):
    """What an admin can do with groups."""

    async def list_groups(
        self, *, states: Iterable[str] = (), types: Iterable[str] = (), unreachable: Unreachable | None = None
    ) -> list[GroupListing]:
        """Groups of all coordinators, filtered by state and type: of Kafka's names, in capitals or not.

        `unreachable`: a dict for the brokers that do not answer in time; the groups of the others are listed then;
        without it, or where none answers, that is an error. Raises InvalidArgument, RequestTimedOut.
        """
        wanted = ListGroupsRequest(
            states_filter=arguments.words("states", states, STATES), types_filter=arguments.words("types", types, TYPES)
        )
        found = []
        for node, response in await self._ask_every_node("list groups", lambda: wanted, unreachable=unreachable):
            for group in response.groups:
                found.append(
                    GroupListing(group.group_id, group.protocol_type, group.group_state, group.group_type, node.node_id)
                )
        return sorted(found, key=lambda group: group.group_id)

    async def describe_groups(
        self, group_ids: Iterable[str], *, unreachable: Unreachable | None = None
    ) -> dict[str, GroupDescription]:
        """State and members, of groups of every kind. Raises GroupIdNotFound (from Apache Kafka 4 on).

        `unreachable`: as in `list_groups`; groups of a coordinator that is silent are left out then.
        """

        async def ask(node: Node, keys: list[str]) -> list[GroupDescription]:
            described = await asyncio.gather(
                self._describe_consumer_groups(node, keys),
                self._describe_share_groups(node, keys),
                self._describe_streams_groups(node, keys),
            )
            found = [each for group in described for each in group]
            rest = [key for key in keys if key not in {each.group_id for each in found}]
            if rest:
                response = await self._cluster.request(node, DescribeGroupsRequest(groups=rest))
                found += [self._description(group, node) for group in response.groups]
            return found

        ids = arguments.texts("group_ids", group_ids)
        answers = await self._by_coordinator(
            "describe groups", 0, ids, DescribeGroupsRequest, ask, unreachable=unreachable
        )
        return {group.group_id: group for answer in answers for group in answer}

    async def _describe_consumer_groups(self, node: Node, keys: list[str]) -> list[GroupDescription]:
        groups = await self._known(node, ConsumerGroupDescribeRequest(group_ids=keys))
        return [_consumer_description(group, node) for group in groups]

    async def _describe_share_groups(self, node: Node, keys: list[str]) -> list[GroupDescription]:
        groups = await self._known(node, ShareGroupDescribeRequest(group_ids=keys))
        return [_share_description(group, node) for group in groups]

    async def _describe_streams_groups(self, node: Node, keys: list[str]) -> list[GroupDescription]:
        found = []
        for group in await self._known(node, StreamsGroupDescribeRequest(group_ids=keys)):
            names = sorted({name for topics in _topics_by_subtopology(group).values() for name in topics})
            wanted = MetadataRequest(
                topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False
            )
            topics = (await self._cluster.request(node, wanted)).topics if names else []
            counts = {str(each.name): len(each.partitions) for each in topics}
            found.append(_streams_description(group, node, counts))
        return found

    async def _known(self, node: Node, asked: Struct) -> list[Any]:
        """Of the groups asked for those of that kind; none where the broker knows no such groups."""
        try:
            groups = (await self._cluster.request(node, asked)).groups
        except UnsupportedVersion:
            return []
        found = []
        for group in groups:
            if group.error_code in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION):
                continue
            if group.error_code:
                is_topics = group.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED  # it does not say which
                of_topics = (
                    ": to describe it needs the right to describe every topic of its members" if is_topics else ""
                )
                what = f"group {group.group_id!r}{of_topics}"
                raise self._refusal(type(asked), group.error_code, what, "" if is_topics else group.group_id)
            found.append(group)
        return found

    async def delete_groups(self, group_ids: Iterable[str]) -> None:
        """Delete groups without members. Raises GroupNotEmpty, GroupIdNotFound."""

        async def ask(node: Node, keys: list[str]) -> None:
            response = await self._cluster.request(node, DeleteGroupsRequest(groups_names=keys))
            for result in response.results:
                if result.error_code:
                    name = result.group_id
                    raise self._refusal(DeleteGroupsRequest, result.error_code, f"group {name!r}", name)

        ids = arguments.texts("group_ids", group_ids)
        await self._by_coordinator("delete groups", 0, ids, DeleteGroupsRequest, ask)

    async def list_consumer_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None, *, require_stable: bool = False
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Committed positions (default: all); `require_stable` waits for transactions that may change them."""
        arguments.text("group_id", group_id)
        arguments.boolean("require_stable", require_stable)
        wanted = None if partitions is None else arguments.topic_partitions("partitions", partitions)
        return await fetch_committed(self._cluster, group_id, wanted, require_stable=require_stable)

    async def list_pending_offset_commits(
        self, group_id: str, partitions: Iterable[TopicPartition]
    ) -> set[TopicPartition]:
        """Of these partitions, those whose position an open transaction may still move (KIP-447).

        A member of the group that starts, or is given such a partition, waits until that transaction has ended.
        """
        arguments.text("group_id", group_id)
        return await fetch_pending(self._cluster, group_id, arguments.topic_partitions("partitions", partitions))

    async def alter_consumer_group_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata | int]
    ) -> None:
        """Set positions of a group without members. Raises UnknownMemberId where it has some."""
        positions = arguments.offsets("offsets", offsets)
        await commit_offsets(self._cluster, GroupMetadata(arguments.text("group_id", group_id)), positions)

    async def delete_consumer_group_offsets(self, group_id: str, partitions: Iterable[TopicPartition]) -> None:
        """Forget positions. Raises GroupSubscribedToTopic, GroupIdNotFound."""
        arguments.text("group_id", group_id)
        topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
        for topic, partition in arguments.topic_partitions("partitions", partitions):
            topics.setdefault(topic, []).append(OffsetDeleteRequestPartition(partition_index=partition))
        message = OffsetDeleteRequest(
            group_id=group_id,
            topics=[OffsetDeleteRequestTopic(name=name, partitions=each) for name, each in topics.items()],
        )
        what = f"delete offsets of group {group_id!r}"
        response = await self._ask_coordinator(what, group_key(group_id), message, error_of=lambda r: int(r.error_code))
        for topic in response.topics:
            for each in topic.partitions:
                if each.error_code:
                    where = f"{topic.name}-{each.partition_index}"
                    raise self._refusal(OffsetDeleteRequest, each.error_code, f"{what}: {where}", topic.name)

    def _description(self, group: DescribedGroup, node: Node) -> GroupDescription:
        if group.error_code:
            name = group.group_id
            raise self._refusal(DescribeGroupsRequest, group.error_code, f"group {name!r}", name)
        return _classic_description(group, node)


def _classic_description(group: DescribedGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        node.node_id,
        tuple(_member(member) for member in group.members),
    )


def _consumer_description(group: DescribedConsumerGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        "consumer",
        group.assignor_name,
        node.node_id,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                _partitions(member.assignment),
                member.member_epoch,
                _partitions(member.target_assignment),
            )
            for member in group.members
        ),
        "consumer",
        group.group_epoch,
        group.assignment_epoch,
    )


def _share_description(group: DescribedShareGroup, node: Node) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        group.group_state,
        "share",
        group.assignor_name,
        node.node_id,
        tuple(
            GroupMember(
                member.member_id,
                None,
                member.client_id,
                member.client_host,
                _partitions(member.assignment),
                member.member_epoch,
            )
            for member in group.members
        ),
        "share",
        group.group_epoch,
        group.assignment_epoch,
    )


def _streams_description(group: DescribedStreamsGroup, node: Node, counts: Mapping[str, int]) -> GroupDescription:
    topics = _topics_by_subtopology(group)

    def partitions(tasks: Iterable[TaskIds]) -> tuple[TopicPartition, ...]:
        """A task reads its number of each topic that has so many partitions."""
        found = [
            TopicPartition(topic, index)
            for each in tasks
            for topic in topics.get(each.subtopology_id, ())
            for index in each.partitions
            if index < counts.get(topic, 0)
        ]
        return tuple(sorted(found))

    return GroupDescription(
        group.group_id,
        group.group_state,
        "streams",
        "",
        node.node_id,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                partitions(member.assignment.active_tasks),
                member.member_epoch,
                partitions(member.target_assignment.active_tasks),
                partitions(member.assignment.standby_tasks),
            )
            for member in group.members
        ),
        "streams",
        group.group_epoch,
        group.assignment_epoch,
    )


def _topics_by_subtopology(group: DescribedStreamsGroup) -> dict[str, list[str]]:
    subtopologies = (group.topology.subtopologies if group.topology is not None else None) or []
    return {
        each.subtopology_id: [*each.source_topics, *(info.name for info in each.repartition_source_topics)]
        for each in subtopologies
    }


def _partitions(assignment: Assignment | ShareAssignment) -> tuple[TopicPartition, ...]:
    found = [
        TopicPartition(each.topic_name, index) for each in assignment.topic_partitions for index in each.partitions
    ]
    return tuple(sorted(found))


def _member(member: DescribedGroupMember) -> GroupMember:
    try:
        partitions = assignment_from_bytes(member.member_assignment).partitions
    except MalformedMessage:
        partitions = ()  # not a consumer: a worker of some other kind
    return GroupMember(
        member.member_id, member.group_instance_id, member.client_id, member.client_host, tuple(sorted(partitions))
    )
