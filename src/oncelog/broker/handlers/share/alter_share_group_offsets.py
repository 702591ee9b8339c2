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
    return _handle(node, request.message)


async def _handle(node: Node, message: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return AlterShareGroupOffsetsResponse(error_code=E.UNSUPPORTED_VERSION)
    if not message.group_id:
        return AlterShareGroupOffsetsResponse(error_code=E.INVALID_GROUP_ID, error_message="The group id is invalid.")
    try:
        await node.groups.admit(message.group_id)
        machine = (await node.groups.coordinator_of(message.group_id)).machine
        refusal = machine.share_groups.refusal_to_change(message.group_id, may_create=True)
        if refusal is not None:
            return AlterShareGroupOffsetsResponse(error_code=refusal[0], error_message=refusal[1])
        return await _alter(node, message)
    except CoordinatorFailed as failed:
        return AlterShareGroupOffsetsResponse(error_code=failed.error_code)


async def _alter(node: Node, message: AlterShareGroupOffsetsRequest) -> AlterShareGroupOffsetsResponse:
    begun: dict[bytes, frozenset[int]] = {}
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
                begun[topic_id] = begun.get(topic_id, frozenset()) | {each.partition_index}
                await node.share_partitions.move(
                    ShareKey(message.group_id, topic_id, each.partition_index), each.start_offset
                )
            partitions.append(result)
        responses.append(
            AlterShareGroupOffsetsResponseTopic(topic_name=asked.topic_name, topic_id=topic_id, partitions=partitions)
        )

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        return Decision(records=tuple(machine.share_groups.altered(message.group_id, begun)))

    await node.groups.ask(message.group_id, decide)
    return AlterShareGroupOffsetsResponse(responses=responses)
