"""What Metadata says of each topic, made and encoded once: clients ask for the same topics again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.leadership import Leadership
from oncelog.types import TopicPartition
from oncelog.wire.schema import Encoded, Struct


class _Kept(NamedTuple):
    topic: Topic
    partitions: tuple[TopicPartition, ...]
    encoded: Encoded


Describe = Callable[[Topic, bool, Leadership, Callable[[TopicPartition], bool]], Struct]
"""Makes the answer: of a topic, with its operations or not, who leads what, and which partitions are offline."""


class DescribedTopics:
    """Answers by topic and question; one is made anew when its topic is another one, or has changed."""

    def __init__(
        self,
        metadata: Callable[[], ClusterMetadata],
        leadership: Leadership,
        is_offline: Callable[[TopicPartition], bool],
    ) -> None:
        self._metadata = metadata
        self._leadership = leadership
        self._is_offline = is_offline
        self._kept: dict[tuple[str, bool], _Kept] = {}
        self._topics_version = -1

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, topic: Topic, asks_operations: bool, describe: Describe) -> Encoded | None:
        """The answer where every partition can be served, else None."""
        kept = self._kept.get((topic.name, asks_operations))
        if kept is None or kept.topic is not topic:
            kept = self._keep(topic, asks_operations, describe)
        is_offline = self._is_offline
        for partition in kept.partitions:
            if is_offline(partition):
                return None
        return kept.encoded

    def _keep(self, topic: Topic, asks_operations: bool, describe: Describe) -> _Kept:
        metadata = self._metadata()
        if metadata.topics_version != self._topics_version:  # those that are gone must not stay here
            self._topics_version = metadata.topics_version
            topics = metadata.topics
            self._kept = {key: each for key, each in self._kept.items() if topics.get(key[0]) is each.topic}
        encoded = Encoded(describe(topic, asks_operations, self._leadership, lambda _: False))
        kept = self._kept[topic.name, asks_operations] = _Kept(topic, tuple(topic.partitions()), encoded)
        return kept
