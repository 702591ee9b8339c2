"""CreatePartitions: a topic's partition count can only grow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.requests.request import Request
from oncelog.core.metadata.topics import Refusal, add_partitions, partitions_result
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, CreatePartitionsResponse]:
    """Raise what may be raised; each topic has its own result."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: CreatePartitionsRequest) -> CreatePartitionsResponse:
    names = Counter(topic.name for topic in message.topics)
    results = []
    async with broker.store.changing():
        for asked in message.topics:
            if names[asked.name] > 1:
                refusal = Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
                results.append(partitions_result(asked, refusal))
                continue
            outcome = add_partitions(broker.metadata, asked, broker.topics.defaults(asked.name))
            if isinstance(outcome, Refusal):
                broker.topics.count_limit(outcome)
                results.append(partitions_result(asked, outcome))
                continue
            refused = None if message.validate_only else await broker.store.append_or_refuse(outcome.records)
            results.append(partitions_result(asked, refused))
    return CreatePartitionsResponse(results=results)
