"""CreateTopics: decided by `core/metadata/topics.py`, remembered in the cluster's metadata."""

from __future__ import annotations

from collections import Counter
from collections.abc import Coroutine
from functools import cached_property
from typing import Any

from oncelog.broker.config.config_view import CreatedTopicConfigs
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Request
from oncelog.core.metadata.refusal import ChangeTimedOut, Refusal
from oncelog.core.metadata.topic_configs import collision
from oncelog.core.metadata.topics import NewTopic, create_topic
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import replace
from oncelog.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

TOPICS_OF_CHANGE_MAX = 1_000


def handle(node: Node, request: Request) -> Coroutine[Any, Any, CreateTopicsResponse]:
    """Create what may be created; each topic has its own result."""
    return _handle(node, request.message)


async def _handle(node: Node, message: CreateTopicsRequest) -> CreateTopicsResponse:
    try:
        results = await create(
            node, message.topics, is_only_checked=message.validate_only, timeout_ms=message.timeout_ms
        )
    except ChangeTimedOut:
        results = [
            CreatableTopicResult(
                name=topic.name, error_code=ErrorCode.REQUEST_TIMED_OUT, error_message=None, configs=[]
            )
            for topic in message.topics
        ]
    return CreateTopicsResponse(topics=results)


async def create(
    node: Node, topics: list[CreatableTopic], *, is_only_checked: bool = False, timeout_ms: int | None = None
) -> list[CreatableTopicResult]:
    """Create these; each has its own result. Raises ChangeTimedOut."""
    names = Counter(topic.name for topic in topics)
    async with node.store.changing(timeout_ms):
        results = [
            _refused(name, Refusal(ErrorCode.INVALID_REQUEST, "Duplicate topic name."))
            for name, count in names.items()
            if count > 1
        ]
        creation = _Creation(node)
        for asked in topics:
            if names[asked.name] == 1:
                await creation.decide(asked, is_only_checked=is_only_checked)
        await creation.store()
        results += [creation.results[asked.name] for asked in topics if names[asked.name] == 1]
    return results


class _Creation:
    """Many topics with one change of the metadata, and one sync: deciding does not see what is not stored yet, so what
    might depend on that is decided anew afterwards."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._decided: dict[str, NewTopic] = {}
        self._partition_count = 0  # of what is decided
        self.results: dict[str, CreatableTopicResult] = {}

    async def decide(self, asked: CreatableTopic, *, is_only_checked: bool) -> None:
        """Refuse a topic, or keep it for `store`."""
        if collision(asked.name, self._decided) or len(self._decided) >= TOPICS_OF_CHANGE_MAX:
            await self.store()
        node, defaults = self._node, self._node.topics.defaults(asked.name)
        less_room = replace(
            defaults,
            topic_count_max=defaults.topic_count_max - len(self._decided),
            partition_count_max=defaults.partition_count_max - self._partition_count,
        )
        outcome = create_topic(node.metadata, asked, less_room)
        if isinstance(outcome, Refusal) and outcome.limit and self._decided:
            await self.store()
            outcome = create_topic(node.metadata, asked, defaults)
        if isinstance(outcome, Refusal):
            node.topics.count_limit(outcome)
            self.results[asked.name] = _refused(asked.name, outcome)
        elif is_only_checked:
            self.results[asked.name] = self._created(outcome)
        else:
            self._decided[asked.name] = outcome
            self._partition_count += outcome.topic.partition_count

    async def store(self) -> None:
        """Make what was decided durable."""
        decided, self._decided, self._partition_count = self._decided, {}, 0
        if not decided:
            return
        refusal = await self._node.store.append_or_refuse(
            [record for each in decided.values() for record in each.records]
        )
        for name, each in decided.items():
            self.results[name] = self._created(each) if refusal is None else _refused(name, refusal)

    @cached_property
    def _configs(self) -> CreatedTopicConfigs:
        return CreatedTopicConfigs(self._node.config_values())  # nobody changes it before the last topic is answered

    def _created(self, created: NewTopic) -> CreatableTopicResult:
        topic = created.topic
        return CreatableTopicResult(
            name=topic.name,
            topic_id=topic.topic_id,
            error_message=None,
            num_partitions=topic.partition_count,
            replication_factor=1,
            configs=self._configs.of(topic),
        )


def _refused(name: str, refusal: Refusal) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refusal.error_code, error_message=refusal.message, configs=[])
