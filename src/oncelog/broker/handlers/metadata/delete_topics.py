"""DeleteTopics: the metadata forgets the topics, and in the same step their directories go (`Topics.deleted`)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.core.metadata.topics import delete_topics, states_to_delete
from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsResponse


def handle(node: Node, request: Request) -> Coroutine[Any, Any, DeleteTopicsResponse]:
    """Delete what may be deleted; each topic has its own result."""
    return _handle(node, request)


async def _handle(node: Node, request: Request) -> DeleteTopicsResponse:
    try:
        return await _delete(node, request)
    except ChangeTimedOut:
        late = DeletableTopicResult(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None)
        asked = states_to_delete(request.message, request.api_version)
        return DeleteTopicsResponse(responses=[late.replace(name=each.name, topic_id=each.topic_id) for each in asked])


async def _delete(node: Node, request: Request) -> DeleteTopicsResponse:
    async with node.store.changing(request.message.timeout_ms):
        found, results = delete_topics(
            node.metadata, request.message, request.api_version, is_enabled=node.config.delete_topic_enable
        )
        refusal = await node.store.append_or_refuse([record for _, record in found]) if found else None
    if refusal is not None:
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
        return DeleteTopicsResponse(responses=results)
    if found:
        await node.topics.forgotten()  # before anybody is told that they are gone
    return DeleteTopicsResponse(responses=results)
