"""What the cluster's metadata is, as records applied: topics, their ids and configs, features, producer-id blocks.

Pure state: `apply` is the only way to change it, live and at start alike. Deciding what a request may change is in
`topic_admin` and `config_admin`; the log it is kept in belongs to the broker's `MetadataStore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import (
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    TopicRecord,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: its id (16 bytes) never comes back after a deletion, so a recreated topic is another one."""

    name: str
    topic_id: bytes
    partition_count: int
    configs: Mapping[str, str] = field(default_factory=dict)

    def partitions(self) -> Iterator[TopicPartition]:
        """Every partition of the topic, in order."""
        return (TopicPartition(self.name, index) for index in range(self.partition_count))


class ClusterMetadata:
    """The metadata as of the last applied record."""

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.next_producer_id = 0

    def apply(self, record: MetadataRecord) -> None:
        """Take over one committed record."""
        if isinstance(record, TopicRecord):
            old = self.topics_by_id.get(record.topic_id)
            configs = old.configs if old else {}
            self._put(Topic(record.name, record.topic_id, record.partition_count, configs))
        elif isinstance(record, RemoveTopicRecord):
            topic = self.topics_by_id.pop(record.topic_id, None)
            if topic is not None:
                del self.topics[topic.name]
        elif isinstance(record, ConfigRecord):
            self._apply_config(record)
        elif isinstance(record, FeatureLevelRecord):
            self.features[record.name] = record.level
            self.features_epoch = max(self.features_epoch, record.features_epoch)
        else:
            assert isinstance(record, ProducerIdsRecord)
            assert record.next_producer_id >= self.next_producer_id, "producer ids never go back"
            self.next_producer_id = record.next_producer_id

    def _put(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic

    def _apply_config(self, record: ConfigRecord) -> None:
        if record.resource_type == TOPIC_RESOURCE:
            topic = self.topics.get(record.resource_name)
            if topic is not None:
                self._put(replace(topic, configs=_changed(topic.configs, record)))
        else:
            old = self.broker_configs.get(record.resource_name, {})
            self.broker_configs[record.resource_name] = _changed(old, record)

    def topic(self, name: str | None, topic_id: bytes = bytes(16)) -> Topic | None:
        """The topic of this name, or (where the name is empty) of this id."""
        return self.topics.get(name) if name else self.topics_by_id.get(topic_id)

    def dynamic_broker_configs(self, node_id: int) -> dict[str, str]:
        """The dynamic broker configs in force on a node: the cluster's default below the node's own."""
        return {**self.broker_configs.get("", {}), **self.broker_configs.get(str(node_id), {})}


def _changed(configs: Mapping[str, str], record: ConfigRecord) -> dict[str, str]:
    changed = {name: value for name, value in configs.items() if name != record.name}
    if record.value is not None:
        changed[record.name] = record.value
    return changed


def snapshot_records(metadata: ClusterMetadata) -> list[MetadataRecord]:
    """Records that bring an empty `ClusterMetadata` to this state."""
    records: list[MetadataRecord] = []
    for topic in metadata.topics.values():
        records.append(TopicRecord(name=topic.name, topic_id=topic.topic_id, partition_count=topic.partition_count))
        records += _config_records(TOPIC_RESOURCE, topic.name, topic.configs)
    for name, configs in metadata.broker_configs.items():
        records += _config_records(BROKER_RESOURCE, name, configs)
    for name, level in metadata.features.items():
        records.append(FeatureLevelRecord(name=name, level=level, features_epoch=metadata.features_epoch))
    if metadata.next_producer_id:
        records.append(ProducerIdsRecord(next_producer_id=metadata.next_producer_id))
    return records


def _config_records(resource_type: int, name: str, configs: Mapping[str, str]) -> list[ConfigRecord]:
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    ]
