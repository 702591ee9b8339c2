"""What a client knows of the cluster from Metadata responses: brokers, topics, leaders. Plain values, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field, replace

from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.metadata import MetadataResponse, MetadataResponseTopic
from oncelog.wire.schema import ZERO_UUID


@dataclass(frozen=True, slots=True)
class PartitionView:
    """Where a partition is led; leader_id -1: nowhere now."""

    partition: int
    leader_id: int
    leader_epoch: int
    replica_nodes: tuple[int, ...] = ()
    isr_nodes: tuple[int, ...] = ()
    offline_nodes: tuple[int, ...] = ()

    @property
    def is_offline(self) -> bool:
        """Whether it has no leader, or its leader says that its disk failed or a batch is damaged."""
        return self.leader_id < 0 or self.leader_id in self.offline_nodes


@dataclass(frozen=True, slots=True)
class TopicView:
    """A topic as Metadata tells it; `topic_id` is all zeroes where the broker gives none."""

    name: str
    topic_id: bytes
    is_internal: bool
    error_code: int
    partitions: dict[int, PartitionView] = field(default_factory=dict)

    @property
    def led_partitions(self) -> list[int]:
        """Partitions that can be written now."""
        return [p.partition for p in self.partitions.values() if p.leader_id >= 0]

    @property
    def can_be_written(self) -> bool:
        """Whether some partition of it can be written now."""
        return not self.error_code and any(p.leader_id >= 0 for p in self.partitions.values())


def offline_partitions(topics: Iterable[TopicView]) -> list[TopicPartition]:
    """Those without a leader, and those whose leader says that it cannot serve them, in order."""
    return sorted(
        TopicPartition(view.name, number)
        for view in topics
        for number, each in view.partitions.items()
        if each.is_offline
    )


class ClusterView:
    """Brokers and topics, the newest that is known. A leader of an older leader epoch never replaces a newer one."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.topics: dict[str, TopicView] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None

    def update(self, response: MetadataResponse, *, is_complete: bool) -> None:
        """Take a Metadata response; `is_complete`: it lists every topic."""
        if response.brokers:
            self.nodes = {b.node_id: Node(b.node_id, b.host, b.port) for b in response.brokers}
        self.controller_id = response.controller_id
        self.cluster_id = response.cluster_id
        seen = {}
        for topic in response.topics:
            if topic.name is not None:
                seen[topic.name] = self._topic(topic)
        self.topics = seen if is_complete else self.topics | seen

    def forget(self, names: Collection[str]) -> None:
        """Nobody uses these topics."""
        if names:  # exchanged, not changed: who looked something up in it sees that
            self.topics = {name: topic for name, topic in self.topics.items() if name not in names}

    def _topic(self, topic: MetadataResponseTopic) -> TopicView:
        assert topic.name is not None
        known = self.topics.get(topic.name)
        partitions = {}
        for each in topic.partitions:
            index = each.partition_index
            leader_id = each.leader_id if each.error_code in (ErrorCode.NONE, ErrorCode.REPLICA_NOT_AVAILABLE) else -1
            nodes = (each.replica_nodes, each.isr_nodes, each.offline_replicas)
            view = PartitionView(index, leader_id, each.leader_epoch, *map(tuple, nodes))
            old = known.partitions.get(index) if known and known.topic_id == topic.topic_id else None
            is_older = old is not None and old.leader_epoch > view.leader_epoch >= 0
            partitions[index] = old if old is not None and (is_older or old == view) else view
        found = TopicView(topic.name, bytes(topic.topic_id), topic.is_internal, topic.error_code, partitions)
        return known if known == found else found  # who keeps lists of several moments keeps one of each

    def leader_of(self, topic_partition: TopicPartition) -> PartitionView | None:
        """The partition with its leader; None where none is known."""
        topic = self.topics.get(topic_partition.topic)
        found = topic.partitions.get(topic_partition.partition) if topic else None
        return found if found is not None and found.leader_id >= 0 else None

    def set_leader(self, topic_partition: TopicPartition, leader_id: int, leader_epoch: int) -> None:
        """A response told where the leader went (KIP-951)."""
        topic = self.topics.get(topic_partition.topic)
        old = topic.partitions.get(topic_partition.partition) if topic else None
        if topic is None or old is None or leader_id < 0 or leader_epoch <= old.leader_epoch:
            return
        view = replace(old, leader_id=leader_id, leader_epoch=leader_epoch)
        topic.partitions[old.partition] = view

    def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes] | None:
        """The ids of all these topics; None when one of them is not known."""
        found = {}
        for name in topics:
            topic = self.topics.get(name)
            if topic is None or topic.topic_id == ZERO_UUID:
                return None
            found[name] = topic.topic_id
        return found
