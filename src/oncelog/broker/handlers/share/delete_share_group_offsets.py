"""DeleteShareGroupOffsets: a share group without members forgets topics (KIP-932)."""

from __future__ import annotations

from collections.abc import Container, Coroutine
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.handlers.share.alter_share_group_offsets import UNKNOWN_PARTITION
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.decision import Decision
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

NOTHING_TO_DELETE = "There is no offset information to delete."
E = ErrorCode


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DeleteShareGroupOffsetsResponse]:
    """One result per topic."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> DeleteShareGroupOffsetsResponse:
    message: DeleteShareGroupOffsetsRequest = request.message
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return DeleteShareGroupOffsetsResponse(error_code=E.UNSUPPORTED_VERSION)
    if not message.group_id:
        return DeleteShareGroupOffsetsResponse(error_code=E.INVALID_GROUP_ID, error_message="The group id is invalid.")
    try:
        changes = node.share_partitions.changes
        response: DeleteShareGroupOffsetsResponse = await changes.run(
            request.connection.tasks, message.group_id, lambda: _forget(node, message)
        )
        return response
    except CoordinatorFailed as failed:
        return DeleteShareGroupOffsetsResponse(error_code=failed.error_code)


async def _forget(node: Node, message: DeleteShareGroupOffsetsRequest) -> DeleteShareGroupOffsetsResponse:
    gone: set[ShareKey] = set()

    def decide(machine: GroupCoordinator, _now_ms: int) -> Decision:
        groups = machine.share_groups
        refusal = groups.refusal_to_change(message.group_id, may_create=False)
        if refusal is not None:
            return Decision(reply=DeleteShareGroupOffsetsResponse(error_code=refusal[0], error_message=refusal[1]))
        begun = groups.by_id[message.group_id].begun
        response = _judged(node, message, begun)
        topic_ids = [each.topic_id for each in response.responses if not each.error_code]
        gone.update(ShareKey(message.group_id, each, index) for each in topic_ids for index in begun[each])
        return Decision(records=tuple(groups.forgotten(message.group_id, topic_ids)), reply=response)

    response: DeleteShareGroupOffsetsResponse = await node.groups.ask(message.group_id, decide)
    await node.share_partitions.forget(gone)
    return response


def _judged(
    node: Node, message: DeleteShareGroupOffsetsRequest, begun: Container[bytes]
) -> DeleteShareGroupOffsetsResponse:
    responses = []
    for asked in message.topics:
        topic = node.metadata.topics.get(asked.topic_name)
        result = DeleteShareGroupOffsetsResponseTopic(topic_name=asked.topic_name)
        if topic is None:
            result.error_code, result.error_message = E.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION
        elif topic.topic_id not in begun:
            result.error_code, result.error_message = E.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_DELETE
        else:
            result.topic_id = topic.topic_id
        responses.append(result)
    return DeleteShareGroupOffsetsResponse(responses=responses)
