"""DeleteTopics: first the metadata forgets the topic, then its directories go."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.topics import delete_topics
from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_topics import DeleteTopicsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, DeleteTopicsResponse]:
    """Delete what may be deleted; each topic has its own result."""
    return _handle(broker, request)


async def _handle(broker: Broker, request: Request) -> DeleteTopicsResponse:
    async with broker.store.changing():
        found, results = delete_topics(
            broker.metadata, request.message, request.api_version, is_enabled=broker.config.delete_topic_enable
        )
        refusal = await broker.store.append_or_refuse([record for _, record in found]) if found else None
    if refusal is not None:
        for result in results:
            if result.error_code == ErrorCode.NONE:
                result.error_code, result.error_message = refusal.error_code, refusal.message
        return DeleteTopicsResponse(responses=results)
    for topic, _ in found:
        await broker.topics.deleted(topic)
    return DeleteTopicsResponse(responses=results)
