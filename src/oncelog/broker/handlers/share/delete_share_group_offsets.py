"""DeleteShareGroupOffsets: a share group without members forgets topics (KIP-932)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.handlers.share.alter_share_group_offsets import UNKNOWN_PARTITION
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NOTHING_TO_DELETE = "There is no offset information to delete."
E = ErrorCode


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DeleteShareGroupOffsetsResponse]:
    """One result per topic."""
    return _handle(node, request.message)


async def _handle(node: Node, message: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return DeleteShareGroupOffsetsResponse(error_code=E.UNSUPPORTED_VERSION)
    if not message.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=E.INVALID_GROUP_ID, error_message="The group id is invalid.")
    try:
        machine = (await node.groups.coordinator_of(message.group_id)).machine
        refusal = machine.share_groups.refusal_to_change(message.group_id, may_create=False)
        if refusal is not None:
            return DeleteShareGroupOffsetsResponse(error_code=refusal[0], error_message=refusal[1])
        begun = machine.share_groups.by_id[message.group_id].begun
        return await _forget(node, message, frozenset(begun))
    except CoordinatorFailed as failed:
        return DeleteShareGroupOffsetsResponse(error_code=failed.error_code)


async def _forget(
    node: Node, message: DeleteShareGroupOffsetsRequest, begun: frozenset[bytes]
) -> DeleteShareGroupOffsetsResponse:
    responses, gone = [], []
    for asked in message.topics:
        topic = node.metadata.topics.get(asked.topic_name)
        result = DeleteShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        if topic is None:
            result.error_code, result.error_message = E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION
        elif topic.topic_id not in begun:
            result.error_code, result.error_message = E.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE
        else:
            result.topic_id = topic.topic_id
            gone.append(topic.topic_id)
        responses.append(result)

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        return Decision(records=tuple(machine.share_groups.forgotten(message.group_id, gone)))

    await node.groups.ask(message.group_id, decide)
    for topic_id in gone:
        await node.share_partitions.forget(message.group_id, topic_id)
    return DeleteShareGroupOffsetsResponse(responses=responses)
