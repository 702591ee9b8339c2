"""AlterShareGroupOffsets: an operator has a share group without members go on elsewhere (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from oncelog.wire.schema import ZERO_UUID

UNKNOWN_PARTITION = "This server does not host this topic-partition."
E = ErrorCode


def handle(node: Node, request: Request) -> Coroutine[Any, Any, AlterShareGroupOffsetsResponse]:
    """A group that is not there is made; one with members is refused."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> AlterShareGroupOffsetsResponse:
    message: AlterShareGroupOffsetsRequest = request.message
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return AlterShareGroupOffsetsResponse(error_code=E.UNSUPPORTED_VERSION)
    if not message.group_id:
        return AlterShareGroupOffsetsResponse(error_code=E.INVALID_GROUP_ID, error_message="The group id is invalid.")
    try:
        await node.groups.admit(message.group_id)
        changes = node.share_partitions.changes
        response: AlterShareGroupOffsetsResponse = await changes.run(
            request.connection.tasks, message.group_id, lambda: _alter(node, message)
        )
        return response
    except CoordinatorFailed as failed:
        return AlterShareGroupOffsetsResponse(error_code=failed.error_code)


async def _alter(node: Node, message: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    machine = (await node.groups.coordinator_of(message.group_id)).machine
    refused = _refused(machine, message.group_id)
    if refused is not None:
        return refused
    response, starts = _judged(node, message)
    begun: dict[bytes, frozenset[int]] = {}
    for key in starts:
        begun[key.topic_id] = begun.get(key.topic_id, frozenset()) | {key.partition}
    await node.share_partitions.move(starts)

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        refused = _refused(machine, message.group_id)  # where a group of another kind has begun meanwhile
        if refused is not None:
            return Decision(reply=refused)
        return Decision(records=tuple(machine.share_groups.altered(message.group_id, begun)), reply=response)

    reply: AlterShareGroupOffsetsResponse = await node.groups.ask(message.group_id, decide)
    await node.share_partitions.forget({key for key in starts if not machine.share_groups.has_begun(key)})
    return reply


def _refused(machine: GroupCoordinator, group_id: str) -> AlterShareGroupOffsetsResponse | None:
    refusal = machine.share_groups.refusal_to_change(group_id, may_create=True)
    return refusal and AlterShareGroupOffsetsResponse(error_code=refusal[0], error_message=refusal[1])


def _judged(
    node: Node, message: AlterShareGroupOffsetsRequest
) -> tuple[AlterShareGroupOffsetsResponse, dict[ShareKey, int]]:
    """The answer, and where the partitions go on that can be moved."""
    starts: dict[ShareKey, int] = {}
    responses = []
    for asked in message.topics:
        topic = node.metadata.topics.get(asked.topic_name)
        topic_id = ZERO_UUID if topic is None else topic.topic_id
        partitions = []
        for each in asked.partitions:
            result = AlterShareGroupOffsetsResponsePartition(partition_index=each.partition_index)
            if node.metadata.topic_of(TopicPartition(asked.topic_name, each.partition_index)) is None:
                result.error_code, result.error_message = E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION
            elif each.start_offset < 0:
                result.error_code, result.error_message = E.INVALID_REQUEST, "An offset is 0 or more."
            else:
                starts[ShareKey(message.group_id, topic_id, each.partition_index)] = each.start_offset
            partitions.append(result)
        responses.append(
            AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions)
        )
    return AlterShareGroupOffsetsResponse(responses=responses), starts
