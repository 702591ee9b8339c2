"""CreatePartitions: a topic's partition count can only grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.refusal import ChangeTimedOut, Refusal
from oncelog.core.metadata.topics import add_partitions, partitions_result
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)


def handle(node: Node, request: Request) -> Coroutine[Any, Any, CreatePartitionsResponse]:
    """Raise what may be raised; each topic has its own result."""
    return _handle(node, request.message)


async def _handle(node: Node, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    try:
        return await _create(node, message)
    except ChangeTimedOut:
        late = CreatePartitionsTopicResult(error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None)
        return CreatePartitionsResponse(results=[late.replace(name=asked.name) for asked in message.topics])


async def _create(node: Node, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    names = Counter(topic.name for topic in message.topics)
    results = []
    async with node.store.changing(message.timeout_ms):
        for asked in message.topics:
            if names[asked.name] > 1:
                refusal = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results.append(partitions_result(asked, refusal))
                continue
            outcome = add_partitions(node.metadata, asked, node.topics.defaults(asked.name))
            if isinstance(outcome, Refusal):
                node.topics.count_limit(outcome)
                results.append(partitions_result(asked, outcome))
                continue
            refused = None if message.validate_only else await node.store.append_or_refuse(outcome.records)
            results.append(partitions_result(asked, refused))
    return CreatePartitionsResponse(results=results)
