"""OffsetDelete: committed offsets of a group are forgotten."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.errors import ErrorCode
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, OffsetDeleteResponse]:
    """Asked of the group's coordinator."""
    return _handle(node, request.message)


async def _handle(node: Node, message: OffsetDeleteRequest) -> OffsetDeleteResponse:
    unknown = _take_out_unknown(node, message)
    try:
        reply: OffsetDeleteResponse = await node.groups.ask(
            message.group_id, lambda machine, _now_ms: machine.delete_offsets(message)
        )
    except CoordinatorFailed as failed:
        return OffsetDeleteResponse(error_code=failed.error_code)
    if not reply.error_code:
        for name, results in unknown.items():
            known = next((topic for topic in reply.topics if topic.name == name), None)
            if known is None:
                reply.topics.append(OffsetDeleteResponseTopic(name=name, partitions=results))
            else:
                known.partitions.extend(results)
    return reply


def _take_out_unknown(node: Node, message: OffsetDeleteRequest) -> dict[str, list[OffsetDeleteResponsePartition]]:
    """The coordinator is asked about partitions that exist; the results of the others, by topic."""
    unknown: dict[str, list[OffsetDeleteResponsePartition]] = {}
    for topic in message.topics:
        found = node.metadata.topics.get(topic.name)
        count = 0 if found is None else found.partition_count
        for asked in [each for each in topic.partitions if not 0 <= each.partition_index < count]:
            result = OffsetDeleteResponsePartition(
                partition_index=asked.partition_index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
            unknown.setdefault(topic.name, []).append(result)
        topic.partitions = [each for each in topic.partitions if 0 <= each.partition_index < count]
    message.topics = [topic for topic in message.topics if topic.partitions or topic.name not in unknown]
    return unknown
