"""Checks of the requests of streams groups (KIP-1071). Making internal topics is asked for in the handler, which knows them."""

from __future__ import annotations

from oncelog.core.access.check_groups import DENIED
from oncelog.core.access.passage import Caller, Passage
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, ResourceType
from oncelog.wire.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from oncelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


def check_streams_group_heartbeat(
    caller: Caller, message: StreamsGroupHeartbeatRequest, _version: int
) -> Passage | None:
    """The group to read, each topic of the topology to describe."""
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=StreamsGroupHeartbeatResponse(error_code=DENIED))
    names: dict[str, None] = {}
    for each in message.topology.subtopologies if message.topology is not None else ():
        names |= dict.fromkeys((*each.source_topics, *each.repartition_sink_topics))
        names |= {info.name: None for info in (*each.repartition_source_topics, *each.state_changelog_topics)}
    if not all(caller.may_on_topic(Operation.DESCRIBE, name) for name in names):
        return Passage(reply=StreamsGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    return None


def check_streams_group_describe(caller: Caller, message: StreamsGroupDescribeRequest, _version: int) -> Passage:
    """Each group to describe, and every topic of its topology: else nothing of the group is shown."""
    passed = [each for each in message.group_ids if caller.may_on_group(Operation.DESCRIBE, each)]
    answers = [DescribedGroup(group_id=each, error_code=DENIED) for each in message.group_ids if each not in passed]

    def complete(reply: StreamsGroupDescribeResponse) -> StreamsGroupDescribeResponse:
        groups = []
        for group in reply.groups:
            if message.include_authorized_operations and group.error_code == ErrorCode.NONE:
                group.authorized_operations = caller.operations(ResourceType.GROUP, group.group_id)
            groups.append(group if _is_shown(caller, group) else _hidden(group))
        return reply.replace(groups=[*groups, *answers])

    return Passage(message.replace(group_ids=passed), complete=complete)


def _is_shown(caller: Caller, group: DescribedGroup) -> bool:
    names: dict[str, None] = {}
    for each in (group.topology.subtopologies if group.topology is not None else None) or ():
        names |= dict.fromkeys((*each.source_topics, *each.repartition_sink_topics))
        names |= {info.name: None for info in (*each.repartition_source_topics, *each.state_changelog_topics)}
    return all(caller.may_on_topic(Operation.DESCRIBE, name) for name in names)


def _hidden(group: DescribedGroup) -> DescribedGroup:
    return group.replace(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The described group uses topics that the client is not authorized to describe.",
        members=[],
        topology=None,
    )
