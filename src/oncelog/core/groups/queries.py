"""DescribeGroups, {Consumer,Streams,Share}GroupDescribe, ListGroups and DeleteGroups: a group as administrators see it.

A group that nobody knows is described as Dead before version 6 and is GROUP_ID_NOT_FOUND from there (KIP-1043). What an
administrator may not see (authorization) is the shell's.
"""

from __future__ import annotations

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import Group, GroupState, Member
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer import queries as consumer_group_queries
from oncelog.core.groups.consumer.group import ConsumerGroupState
from oncelog.core.groups.consumer.groups import ConsumerGroups
from oncelog.core.groups.offsets import OffsetRequests
from oncelog.core.groups.share import queries as share_group_queries
from oncelog.core.groups.share.groups import ShareGroups
from oncelog.core.groups.streams import queries as streams_group_queries
from oncelog.core.groups.streams.group import StreamsGroupState
from oncelog.core.groups.streams.groups import StreamsGroups
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord, GroupDeleted
from oncelog.wire.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from oncelog.wire.messages.consumer_group_describe import (
    DescribedGroup as DescribedConsumerGroup,
)
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.wire.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from oncelog.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from oncelog.wire.messages.share_group_describe import DescribedGroup as DescribedShareGroup
from oncelog.wire.messages.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
from oncelog.wire.messages.streams_group_describe import (
    DescribedGroup as DescribedStreamsGroup,
)
from oncelog.wire.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

GROUP_TYPE = "classic"
FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND = 6


class GroupQueries:
    """Answers what is asked about the groups of one coordinator."""

    def __init__(
        self,
        config: GroupConfig,
        groups: dict[str, Group],
        consumer_groups: ConsumerGroups,
        streams_groups: StreamsGroups,
        share_groups: ShareGroups,
        offsets: OffsetRequests,
    ) -> None:
        self._config = config
        self._groups = groups
        self._consumer_groups = consumer_groups
        self._streams_groups = streams_groups
        self._share_groups = share_groups
        self._offsets = offsets

    # -- describe --------------------------------------------------------------------------------------------------

    def describe(self, request: DescribeGroupsRequest, version: int) -> DescribeGroupsResponse:
        """DescribeGroups v0-6: classic groups."""
        return DescribeGroupsResponse(groups=[self._describe(each, version) for each in request.groups])

    def _describe(self, group_id: str, version: int) -> DescribedGroup:
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            described = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD.value)
            if version >= FIRST_DESCRIBE_VERSION_WITH_NOT_FOUND:
                is_other = self._is_modern(group_id)
                described.error_code = ErrorCode.GROUP_ID_NOT_FOUND
                described.error_message = f"Group {group_id} {'is not a classic group' if is_other else 'not found'}."
            return described
        # Only a stable group has a protocol; members keep their last assignment while they find the next one.
        is_stable = group.state is GroupState.STABLE
        name = group.protocol_name if is_stable else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state.value,
            protocol_type=group.protocol_type or "",
            protocol_data=name or "",
            members=[_described_member(each, name) for each in group.members.values()],
        )

    def describe_consumer(self, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
        """ConsumerGroupDescribe v0-1: groups of KIP-848."""
        return ConsumerGroupDescribeResponse(groups=[self._describe_consumer(each) for each in request.group_ids])

    def _describe_consumer(self, group_id: str) -> DescribedConsumerGroup:
        group = self._consumer_groups.by_id.get(group_id)
        if group is None:
            return consumer_group_queries.not_found(group_id, is_other=self._is_there(group_id))
        return consumer_group_queries.described(group, self._consumer_groups.topics, self._config.assignors)

    def describe_streams(self, request: StreamsGroupDescribeRequest) -> StreamsGroupDescribeResponse:
        """StreamsGroupDescribe v0: groups of KIP-1071."""
        return StreamsGroupDescribeResponse(groups=[self._describe_streams(each) for each in request.group_ids])

    def _describe_streams(self, group_id: str) -> DescribedStreamsGroup:
        group = self._streams_groups.by_id.get(group_id)
        if group is None:
            return streams_group_queries.not_found(group_id, is_other=self._is_there(group_id))
        return streams_group_queries.described(group)

    def describe_share(self, request: ShareGroupDescribeRequest) -> ShareGroupDescribeResponse:
        """ShareGroupDescribe v1: groups of KIP-932."""
        return ShareGroupDescribeResponse(groups=[self._describe_share(each) for each in request.group_ids])

    def _describe_share(self, group_id: str) -> DescribedShareGroup:
        group = self._share_groups.by_id.get(group_id)
        if group is None:
            return share_group_queries.not_found(group_id, is_other=self._is_there(group_id))
        return share_group_queries.described(group, self._share_groups.topics)

    def _is_modern(self, group_id: str) -> bool:
        tables = (self._consumer_groups, self._streams_groups, self._share_groups)
        return any(group_id in each.by_id for each in tables)

    def _is_there(self, group_id: str) -> bool:
        return group_id in self._groups or self._is_modern(group_id)

    # -- list ------------------------------------------------------------------------------------------------------

    def list(self, request: ListGroupsRequest) -> ListGroupsResponse:
        """ListGroups v0-5; filters are Kafka's names in any case, an unknown name matches nothing (KIP-518, KIP-848)."""
        states = {each.lower() for each in request.states_filter}
        types = {each.lower() for each in request.types_filter}
        listed = [_listed(each) for each in self._groups.values()]
        listed += [consumer_group_queries.listed(each) for each in self._consumer_groups.by_id.values()]
        listed += [streams_group_queries.listed(each) for each in self._streams_groups.by_id.values()]
        listed += [share_group_queries.listed(each) for each in self._share_groups.by_id.values()]
        return ListGroupsResponse(
            groups=[
                each
                for each in listed
                if (not states or each.group_state.lower() in states)
                and (not types or each.group_type.lower() in types)
            ]
        )

    # -- delete ----------------------------------------------------------------------------------------------------

    def delete(self, request: DeleteGroupsRequest) -> Decision:
        """DeleteGroups v0-2: empty groups only; their offsets go with them, open transactions' too (kafka-notes G5)."""
        records: list[ConsumerOffsetsRecord] = []
        results = []
        for group_id in dict.fromkeys(request.groups_names):
            error_code, tombstones = self._delete(group_id)
            if error_code == ErrorCode.NONE:
                records += [*self._offsets.deletions_of_group(group_id), *tombstones]
            results.append(DeletableGroupResult(group_id=group_id, error_code=error_code))
        return Decision(records=tuple(records), reply=DeleteGroupsResponse(results=results))

    def _delete(self, group_id: str) -> tuple[ErrorCode, tuple[ConsumerOffsetsRecord, ...]]:
        consumer = self._consumer_groups.by_id.get(group_id)
        if consumer is not None:
            is_empty = consumer.state is ConsumerGroupState.EMPTY
            return (ErrorCode.NONE, tuple(consumer.tombstones())) if is_empty else (ErrorCode.NON_EMPTY_GROUP, ())
        streams = self._streams_groups.by_id.get(group_id)
        if streams is not None:
            is_empty = streams.state is StreamsGroupState.EMPTY
            return (ErrorCode.NONE, tuple(streams.tombstones())) if is_empty else (ErrorCode.NON_EMPTY_GROUP, ())
        share = self._share_groups.by_id.get(group_id)
        if share is not None:
            return (ErrorCode.NON_EMPTY_GROUP, ()) if share.members else (ErrorCode.NONE, tuple(share.tombstones()))
        group = self._groups.get(group_id)
        if group is None or group.state is GroupState.DEAD:
            return ErrorCode.GROUP_ID_NOT_FOUND, ()
        if group.state is not GroupState.EMPTY:
            return ErrorCode.NON_EMPTY_GROUP, ()
        return ErrorCode.NONE, (GroupDeleted(group_id),)


def _described_member(member: Member, protocol_name: str | None) -> DescribedGroupMember:
    return DescribedGroupMember(
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        member_metadata=member.subscription(protocol_name) if protocol_name is not None else b"",
        member_assignment=member.assignment,
    )


def _listed(group: Group) -> ListedGroup:
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state.value,
        group_type=GROUP_TYPE,
    )
