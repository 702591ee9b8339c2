"""StreamsGroupHeartbeat: a member of a streams group joins, stays, or leaves; internal topics are made (KIP-1071)."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.handlers.metadata.create_topics import create
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.groups.streams.heartbeat import StreamsHeartbeatResult
from oncelog.core.groups.streams.member import JOIN_EPOCH
from oncelog.core.groups.streams.topology import InternalTopic, StatusCode
from oncelog.core.metadata.features import STREAMS_VERSION, level_of
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS
from oncelog.core.topic_names import topic_name_fault
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig
from oncelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Topology,
)

ERRORS_SHOWN_MAX = 3
DEFAULT_REPLICATION_FACTOR = -1


def handle(node: Node, request: Request) -> Coroutine[Any, Any, StreamsGroupHeartbeatResponse]:
    """Asked of the group's coordinator."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> StreamsGroupHeartbeatResponse:
    message: StreamsGroupHeartbeatRequest = request.message
    if level_of(node.metadata.features, STREAMS_VERSION) < 1:
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    fault = None if message.topology is None else _name_fault(message.topology)
    if fault is not None:
        return StreamsGroupHeartbeatResponse(error_code=ErrorCode.STREAMS_INVALID_TOPOLOGY, error_message=fault)
    try:
        if message.group_id:
            await node.groups.admit(message.group_id)
            if message.member_epoch == JOIN_EPOCH:
                await node.groups.admit_member(message.group_id, message.member_id, message.instance_id)
        result: StreamsHeartbeatResult = await node.groups.ask(
            message.group_id,
            lambda machine, now_ms: machine.streams_group_heartbeat(
                message,
                client_id=request.client_id,
                client_host=f"/{request.connection.client_host}",
                now_ms=now_ms,
            ),
        )
    except CoordinatorFailed as failed:
        return StreamsGroupHeartbeatResponse(error_code=failed.error_code)
    if result.missing_topics:
        await _make_topics(node, request, result)
    return result.response


def _name_fault(topology: Topology) -> str | None:
    """What of the names is refused before anything else."""
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        names |= dict.fromkeys((*each.source_topics, *each.repartition_sink_topics))
        names |= {info.name: None for info in (*each.repartition_source_topics, *each.state_changelog_topics)}
    prohibited = [name for name in names if name in INTERNAL_TOPICS]
    if prohibited:
        return f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is prohibited."
    invalid = [name for name in names if topic_name_fault(name)]
    return f"Topic names {','.join(invalid)} are not valid topic names." if invalid else None


async def _make_topics(node: Node, request: Request, result: StreamsHeartbeatResult) -> None:
    """Makes what is missing before the member hears that it is; what hinders that stands in the status."""
    forbidden = _forbidden(node, request, result.missing_topics)
    if forbidden:
        _add_detail(result.response, f"; Unauthorized to CREATE on topics {', '.join(forbidden)}.")
        return
    made = await create(node, [_creatable(each) for each in result.missing_topics])
    errors = [
        f"{each.name} ({each.error_message or ErrorCode(each.error_code).name})"
        for each in made
        if each.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    ]
    if errors:
        more = len(errors) - ERRORS_SHOWN_MAX
        shown = ", ".join(errors[:ERRORS_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")
        _add_detail(result.response, f"; Creation failed: {shown}.")


def _forbidden(node: Node, request: Request, topics: Sequence[InternalTopic]) -> list[str]:
    caller = None if node.authorization is None else node.authorization.caller_of(request)
    if caller is None or caller.may_on_cluster(Operation.CREATE):
        return []
    forbidden = [each.name for each in topics if not caller.may_on_topic(Operation.CREATE, each.name)]
    if forbidden:
        assert node.authorization is not None
        node.authorization.note_denied(request, caller)
    return forbidden


def _creatable(topic: InternalTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.partition_count,
        replication_factor=topic.replication_factor or DEFAULT_REPLICATION_FACTOR,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in topic.configs],
    )


def _add_detail(response: StreamsGroupHeartbeatResponse, text: str) -> None:
    for each in response.status or ():
        if each.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            each.status_detail += text
