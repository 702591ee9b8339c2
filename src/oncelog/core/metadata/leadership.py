"""Which broker leads a partition, where several processes of one machine share them (`oncelog serve --processes N`).

Nothing is elected and nothing stored: who leads follows from the topic and the partition's number alone, so that every process
knows it of every other. A partition whose process is down has no leader until that process is back, since its log is there.
"""

from __future__ import annotations

from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.topic_configs import BROKER_WRITTEN_TOPICS
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class Leadership:
    """What `node_id` leads among `node_ids`, of which the first is the controller: it keeps the cluster's metadata."""

    node_id: int
    node_ids: tuple[int, ...]

    @property
    def is_alone(self) -> bool:
        """Whether there is no other process."""
        return len(self.node_ids) == 1

    @property
    def controller_id(self) -> int:
        """Who keeps the cluster's metadata."""
        return self.node_ids[0]

    @property
    def is_controller(self) -> bool:
        """Whether this is the one who keeps the cluster's metadata."""
        return self.node_id == self.controller_id

    @property
    def others(self) -> tuple[int, ...]:
        """Every process but this one."""
        return tuple(each for each in self.node_ids if each != self.node_id)

    def leader_of(self, topic: Topic, index: int) -> int:
        """The node that leads a partition. A topic's partitions go round, beginning with a node that its id draws, or small
        topics would all be one process's; those of the coordinators begin with the first."""
        if len(self.node_ids) == 1:
            return self.node_id
        first = 0 if topic.name in BROKER_WRITTEN_TOPICS else int.from_bytes(topic.topic_id[-4:], "big")
        return self.node_ids[(first + index) % len(self.node_ids)]

    def leads(self, topic: Topic, index: int) -> bool:
        """Whether this node leads a partition."""
        return len(self.node_ids) == 1 or self.leader_of(topic, index) == self.node_id


class Led:
    """The partitions that one node leads, of the topics that there are."""

    def __init__(self, metadata: ClusterMetadata, leadership: Leadership) -> None:
        self._metadata = metadata
        self._leadership = leadership

    def topic_of(self, name: TopicPartition) -> Topic | None:
        """The topic of a partition that is led here, else None."""
        topic = self._metadata.topic_of(name)
        return topic if topic is not None and self._leadership.leads(topic, name.partition) else None

    def why_not(self, name: TopicPartition) -> ErrorCode:
        """What is said of a partition that is not led here: another process leads it, or nobody has it."""
        known = self._metadata.topic_of(name) is not None
        return ErrorCode.NOT_LEADER_OR_FOLLOWER if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def alone(node_id: int) -> Leadership:
    """One process: it leads everything."""
    return Leadership(node_id, (node_id,))
