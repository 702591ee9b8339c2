"""What the cluster's metadata is, as records applied: topics, configs, features, access rules, quotas, credentials.

Pure state: `apply` is the only way to change it, live and at start alike. Deciding what a request may change is in
`topic_admin` and its like; the log it is kept in belongs to the broker's `MetadataStore`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from oncelog.core.metadata.acl import AclBinding
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import (
    AclRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveAclRecord,
    RemoveDelegationTokenRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    ScramCredentialRecord,
    TopicRecord,
)

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
BROKER_LOGGER_RESOURCE = 8
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32

REQUEST_PERCENTAGE = "request_percentage"

Entity = frozenset[tuple[str, str | None]]  # whom a quota is for: (type, name), the name None for the type's default


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
        self.partition_count = 0  # of all topics
        self.topics_version = 0  # grows with every change of a topic: who depends on topics looks again
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        self.broker_configs: dict[str, dict[str, str]] = {}
        self.group_configs: dict[str, dict[str, str]] = {}
        self.client_metrics_configs: dict[str, dict[str, str]] = {}
        self.client_metrics_version = 0  # grows with every change of a client-metrics subscription
        self.next_producer_id = 0
        self.acls: dict[bytes, AclBinding] = {}
        self.acls_version = 0  # grows with every change of a rule
        self.client_quotas: dict[Entity, dict[str, float]] = {}
        self.has_request_quotas = False  # whether one of them is a request_percentage
        self.scram_credentials: dict[tuple[str, int], ScramCredentialRecord] = {}
        self.delegation_tokens: dict[str, DelegationTokenRecord] = {}

    def apply(self, record: MetadataRecord) -> None:
        """Take over one committed record."""
        if isinstance(record, TopicRecord):
            old = self.topics_by_id.get(record.topic_id)
            configs = old.configs if old else {}
            self._put(Topic(record.name, record.topic_id, record.partition_count, configs))
        elif isinstance(record, RemoveTopicRecord):
            topic = self.topics_by_id.pop(record.topic_id, None)
            if topic is not None:
                self.partition_count -= self.topics.pop(topic.name).partition_count
                self.topics_version += 1
        elif isinstance(record, ConfigRecord):
            self._apply_config(record)
        elif isinstance(record, FeatureLevelRecord):
            self.features[record.name] = record.level
            self.features_epoch = max(self.features_epoch, record.features_epoch)
        elif isinstance(record, ProducerIdsRecord):
            assert record.next_producer_id >= self.next_producer_id, "producer ids never go back"
            self.next_producer_id = record.next_producer_id
        else:
            self._apply_security(record)

    def _apply_security(
        self,
        record: AclRecord
        | RemoveAclRecord
        | ClientQuotaRecord
        | ScramCredentialRecord
        | RemoveScramCredentialRecord
        | DelegationTokenRecord
        | RemoveDelegationTokenRecord,
    ) -> None:
        if isinstance(record, AclRecord):
            self.acls[record.acl_id] = acl_of(record)
            self.acls_version += 1
        elif isinstance(record, RemoveAclRecord):
            self.acls.pop(record.acl_id, None)
            self.acls_version += 1
        elif isinstance(record, ClientQuotaRecord):
            self._apply_quota(record)
        elif isinstance(record, ScramCredentialRecord):
            self.scram_credentials[record.user, record.mechanism] = record
        elif isinstance(record, RemoveScramCredentialRecord):
            self.scram_credentials.pop((record.user, record.mechanism), None)
        elif isinstance(record, DelegationTokenRecord):
            self.delegation_tokens[record.token_id] = record
        else:
            self.delegation_tokens.pop(record.token_id, None)

    def _apply_quota(self, record: ClientQuotaRecord) -> None:
        entity = frozenset((part.entity_type, part.entity_name) for part in record.entity)
        values = {key: value for key, value in self.client_quotas.get(entity, {}).items() if key != record.key}
        if not record.is_removed:
            values[record.key] = record.value
        if values:
            self.client_quotas[entity] = values
        else:
            self.client_quotas.pop(entity, None)
        if record.key == REQUEST_PERCENTAGE:
            self.has_request_quotas = any(REQUEST_PERCENTAGE in each for each in self.client_quotas.values())

    def _put(self, topic: Topic) -> None:
        before = self.topics.get(topic.name)
        self.partition_count += topic.partition_count - (before.partition_count if before is not None else 0)
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self.topics_version += 1

    def _apply_config(self, record: ConfigRecord) -> None:
        if record.resource_type == TOPIC_RESOURCE:
            topic = self.topics.get(record.resource_name)
            if topic is not None:
                self._put(replace(topic, configs=_changed(topic.configs, record)))
            return
        if record.resource_type == CLIENT_METRICS_RESOURCE:
            self.client_metrics_version += 1
        configs = self.configs_of(record.resource_type)
        changed = _changed(configs.get(record.resource_name, {}), record)
        if changed:
            configs[record.resource_name] = changed
        else:
            configs.pop(record.resource_name, None)

    def configs_of(self, resource_type: int) -> dict[str, dict[str, str]]:
        """The dynamic configs of all resources of a type other than topics, by the resource's name."""
        return {
            BROKER_RESOURCE: self.broker_configs,
            GROUP_RESOURCE: self.group_configs,
            CLIENT_METRICS_RESOURCE: self.client_metrics_configs,
        }[resource_type]

    def topic(self, name: str | None, topic_id: bytes = bytes(16)) -> Topic | None:
        """The topic of this name, or (where the name is empty) of this id."""
        return self.topics.get(name) if name else self.topics_by_id.get(topic_id)

    def topic_of(self, where: TopicPartition) -> Topic | None:
        """The topic of a partition; None where there is no such partition."""
        topic = self.topics.get(where.topic)
        return topic if topic is not None and 0 <= where.partition < topic.partition_count else None

    def dynamic_broker_configs(self, node_id: int) -> dict[str, str]:
        """The dynamic broker configs in force on a node: the cluster's default below the node's own."""
        return {**self.broker_configs.get("", {}), **self.broker_configs.get(str(node_id), {})}

    def become(self, other: ClusterMetadata) -> None:
        """Be what `other` is, in the same tables; whoever compares versions looks again."""
        versions = {
            name: max(getattr(self, name), getattr(other, name)) + 1
            for name in ("topics_version", "acls_version", "client_metrics_version")
        }
        for name, value in vars(other).items():
            own = getattr(self, name)
            if isinstance(own, dict):
                own.clear()
                own.update(value)
            else:
                setattr(self, name, versions.get(name, value))


def removed_topics(metadata: ClusterMetadata, records: Sequence[MetadataRecord]) -> list[Topic]:
    """The topics that these records will remove, before they are applied."""
    ids = [record.topic_id for record in records if isinstance(record, RemoveTopicRecord)]
    return [metadata.topics_by_id[each] for each in ids if each in metadata.topics_by_id]


def alters_configs(records: Sequence[MetadataRecord]) -> bool:
    """Whether these records change what is in force for anything that was there before: a new topic's own configuration is
    looked at when its partitions are made."""
    made = {record.name for record in records if isinstance(record, TopicRecord)}
    return any(
        isinstance(record, FeatureLevelRecord)
        or (
            isinstance(record, ConfigRecord)
            and not (record.resource_type == TOPIC_RESOURCE and record.resource_name in made)
        )
        for record in records
    )


def acl_of(record: AclRecord) -> AclBinding:
    """The rule of a record."""
    return AclBinding(
        record.resource_type,
        record.resource_name,
        record.pattern_type,
        record.principal,
        record.host,
        record.operation,
        record.permission_type,
    )


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
    for resource_type in (BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE):
        for name, configs in metadata.configs_of(resource_type).items():
            records += _config_records(resource_type, name, configs)
    for name, level in metadata.features.items():
        records.append(FeatureLevelRecord(name=name, level=level, features_epoch=metadata.features_epoch))
    if metadata.next_producer_id:
        records.append(ProducerIdsRecord(next_producer_id=metadata.next_producer_id))
    records += [acl_record(acl_id, binding) for acl_id, binding in metadata.acls.items()]
    for entity, values in metadata.client_quotas.items():
        records += [
            ClientQuotaRecord(entity=quota_entity(entity), key=key, value=value) for key, value in values.items()
        ]
    records += metadata.scram_credentials.values()
    records += metadata.delegation_tokens.values()
    return records


def acl_record(acl_id: bytes, binding: AclBinding) -> AclRecord:
    """The record of a rule."""
    return AclRecord(
        acl_id=acl_id,
        resource_type=binding.resource_type,
        resource_name=binding.resource_name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission_type,
    )


def quota_entity(entity: Entity) -> list[QuotaEntity]:
    """An entity as records and requests carry it, in the order of types."""
    return [QuotaEntity(entity_type=kind, entity_name=name) for kind, name in sorted(entity, key=lambda part: part[0])]


def _config_records(resource_type: int, name: str, configs: Mapping[str, str]) -> list[ConfigRecord]:
    return [
        ConfigRecord(resource_type=resource_type, resource_name=name, name=key, value=value)
        for key, value in configs.items()
    ]
