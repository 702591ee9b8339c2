"""Creating and deleting topics from inside: automatic ones, the coordinators' internal ones, and what a deletion drops."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.partition_files import internal_topic_configs
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.metadata.cluster import Topic
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topic_configs import (
    AUDIT_TOPIC,
    BROKER_WRITTEN_TOPICS,
    CONSUMER_OFFSETS_TOPIC,
    SHARE_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)
from oncelog.core.metadata.topics import Defaults, create_topic
from oncelog.errors import StorageError
from oncelog.host.randomness import Random, random_uuid
from oncelog.host.tasks import Tasks
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from oncelog.broker.metadata.followed_metadata import FollowedMetadata

_log = logging.getLogger("oncelog.topics")
NAMED_MAX = 10


class Topics:
    """What the broker does to topics on its own account."""

    def __init__(
        self,
        store: MetadataStore | FollowedMetadata,
        partitions: Partitions,
        config: Callable[[], BrokerConfig],
        random: Random,
        leadership: Leadership,
        forget: Callable[[Topic], Coroutine[Any, Any, None]],
        tasks: Tasks,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._store = store
        self._partitions = partitions
        self._config = config
        self._random = random
        self._leadership = leadership
        self._forget = forget
        self._tasks = tasks
        self._forgetting: set[asyncio.Task[None]] = set()

    def defaults(self, name: str) -> Defaults:
        """What a new topic gets where the request does not say."""
        config = self._config()
        counts = {
            TRANSACTION_STATE_TOPIC: config.transaction_state_log_num_partitions,
            CONSUMER_OFFSETS_TOPIC: config.offsets_topic_num_partitions,
            SHARE_STATE_TOPIC: config.share_coordinator_state_topic_num_partitions,
            AUDIT_TOPIC: 1,
        }
        return Defaults(
            counts.get(name, config.num_partitions),
            self._leadership.node_id if self._leadership.is_alone else None,
            lambda: random_uuid(self._random),
            config.oncelog_max_topics,
            config.oncelog_max_partitions,
            config.topic_default,
        )

    def count_limit(self, refusal: Refusal) -> None:
        """Count the limit that a refusal names."""
        if refusal.limit:
            self._metrics.limit_hit(refusal.limit)

    async def create_automatically(self, name: str) -> Topic | None:
        """Create `name` with the defaults unless it exists; None where that is refused. Raises StorageError."""
        topic = self._store.metadata.topics.get(name)
        if topic is not None:
            return topic
        asked = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        if name in BROKER_WRITTEN_TOPICS:
            configs = internal_topic_configs(name, self._config())
            asked.configs = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        async with self._store.changing() as metadata:
            outcome = create_topic(metadata, asked, self.defaults(name))
            if isinstance(outcome, Refusal):
                self.count_limit(outcome)
                return metadata.topics.get(name)
            await self._store.append(outcome.records)
            return outcome.topic

    async def internal(self, name: str) -> Topic:
        """An internal topic, created on its first use. Raises StorageError."""
        topic = await self.create_automatically(name)
        assert topic is not None, f"{name} can always be created"
        return topic

    def deleted(self, topics: Sequence[Topic]) -> None:
        """The metadata has just forgotten `topics`: their partitions go in the same step, before one of their names can be
        another topic's; everything else that refers to them begins to go (`forgotten`).

        All at once: each time the names in the directory and the checkpoints are synced, which for itself took a topic 40 ms.
        """
        try:
            self._partitions.remove(*topics)
        except StorageError as error:
            names = ", ".join(topic.name for topic in topics[:NAMED_MAX]) + (" ..." if len(topics) > NAMED_MAX else "")
            _log.error("deleted is %s, but files of it may stay until the next start: %s", names, error)
        forgetting = self._tasks.start(self._forget_all(topics), name="forget-topics")
        self._forgetting.add(forgetting)
        forgetting.add_done_callback(self._forgetting.discard)

    async def _forget_all(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            await self._forget(topic)

    async def forgotten(self) -> None:
        """Until nothing refers to topics that are deleted by now. Who is cancelled here only waits no longer."""
        if self._forgetting:
            await asyncio.wait(tuple(self._forgetting))
