"""CreateTopics: decided by `core/topic_admin`, remembered in the cluster's metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.broker.config_view import created_topic_configs
from oncelog.broker.request import Request
from oncelog.core.topic_admin import NewTopic, Refusal, create_topic
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


def handle(broker: Broker, request: Request) -> Coroutine[Any, Any, CreateTopicsResponse]:
    """Create what may be created; each topic has its own result."""
    return _handle(broker, request.message)


async def _handle(broker: Broker, message: CreateTopicsRequest) -> CreateTopicsResponse:
    names = Counter(topic.name for topic in message.topics)
    async with broker.store.changing():
        results = [
            _refused(name, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            for name, count in names.items()
            if count > 1
        ]
        for asked in message.topics:
            if names[asked.name] == 1:
                results.append(await _create(broker, asked, is_only_checked=message.validate_only))
    return CreateTopicsResponse(topics=results)


async def _create(broker: Broker, asked: CreatableTopic, *, is_only_checked: bool) -> CreatableTopicResult:
    outcome = create_topic(broker.metadata, asked, broker.topics.defaults(asked.name))
    if isinstance(outcome, Refusal):
        broker.topics.count_limit(outcome)
        return _refused(asked.name, outcome)
    if not is_only_checked:
        refusal = await broker.store.append_or_refuse(outcome.records)
        if refusal is not None:
            return _refused(asked.name, refusal)
    return _created(broker, outcome)


def _created(broker: Broker, created: NewTopic) -> CreatableTopicResult:
    topic = created.topic
    return CreatableTopicResult(
        name=topic.name,
        topic_id=topic.topic_id,
        error_message=None,
        num_partitions=topic.partition_count,
        replication_factor=1,
        configs=created_topic_configs(topic, broker.config_values()),
    )


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error_code, error_message=refusal.message, configs=[])
