"""Metadata as records applied: a snapshot's records bring an empty one to the same state."""

from __future__ import annotations

import random

import pytest

from oncelog.core.metadata.acl import AclBinding
from oncelog.core.metadata.cluster import ClusterMetadata, acl_record, alters_configs, quota_entity, snapshot_records
from oncelog.wire.log_records.cluster_metadata import (
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    MetadataRecord,
    ProducerIdsRecord,
    RemoveAclRecord,
    RemoveScramCredentialRecord,
    RemoveTopicRecord,
    ScramCredentialRecord,
    TopicRecord,
    record_from_value,
    record_to_value,
)


def config(resource_type: int, name: str) -> ConfigRecord:
    return ConfigRecord(resource_type=resource_type, resource_name=name, name="key", value="1")


ACL = AclBinding(2, "t", 3, "User:a", "*", 3, 3)
ENTITY = frozenset({("user", "a"), ("client-id", None)})
RECORDS = [
    TopicRecord(name="t", topic_id=b"t" * 16, partition_count=3),
    TopicRecord(name="gone", topic_id=b"g" * 16, partition_count=1),
    RemoveTopicRecord(topic_id=b"g" * 16),
    ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
    ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="2"),
    ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value="3"),
    ConfigRecord(resource_type=4, resource_name="1", name="log.retention.ms", value=None),
    ConfigRecord(resource_type=16, resource_name="m", name="interval.ms", value="500"),
    ConfigRecord(resource_type=32, resource_name="g", name="consumer.session.timeout.ms", value="50000"),
    FeatureLevelRecord(name="transaction.version", level=2, features_epoch=4),
    ProducerIdsRecord(next_producer_id=2000),
    acl_record(b"a" * 16, ACL),
    acl_record(b"b" * 16, ACL._replace(host="1.2.3.4")),
    RemoveAclRecord(acl_id=b"b" * 16),
    ClientQuotaRecord(entity=quota_entity(ENTITY), key="producer_byte_rate", value=5.0),
    ClientQuotaRecord(entity=quota_entity(ENTITY), key="consumer_byte_rate", value=7.0),
    ClientQuotaRecord(entity=quota_entity(ENTITY), key="consumer_byte_rate", is_removed=True),
    ScramCredentialRecord(user="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
    ScramCredentialRecord(user="a", mechanism=2, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096),
    RemoveScramCredentialRecord(user="a", mechanism=2),
]


def applied(records):
    metadata = ClusterMetadata()
    for record in records:
        metadata.apply(record)
    return metadata


def test_records_applied():
    metadata = applied(RECORDS)
    assert list(metadata.topics) == ["t"]
    assert metadata.topics["t"].configs == {"retention.ms": "1"}
    assert metadata.broker_configs == {"": {"log.retention.ms": "2"}}, "a resource without configs is not there"
    assert metadata.client_metrics_configs == {"m": {"interval.ms": "500"}}
    assert metadata.group_configs == {"g": {"consumer.session.timeout.ms": "50000"}}
    assert metadata.acls == {b"a" * 16: ACL}
    assert metadata.client_quotas == {ENTITY: {"producer_byte_rate": 5.0}}
    assert list(metadata.scram_credentials) == [("a", 1)]


def test_partitions_are_counted_through_every_change():
    drawn, metadata = random.Random("partitions"), ClusterMetadata()
    for _ in range(500):
        topic_id = bytes([drawn.randrange(5)]) * 16
        name = f"t{topic_id[0]}"
        count = drawn.randrange(1, 9)
        change = drawn.choice(
            [
                TopicRecord(name=name, topic_id=topic_id, partition_count=count),
                RemoveTopicRecord(topic_id=topic_id),
                ConfigRecord(resource_type=2, resource_name=name, name="retention.ms", value=str(count)),
            ]
        )
        metadata.apply(change)
        assert metadata.partition_count == sum(topic.partition_count for topic in metadata.topics.values())


def test_a_snapshot_is_the_same_state():
    metadata = applied(RECORDS)
    again = applied(snapshot_records(metadata))
    again.topics_version = metadata.topics_version  # counts changes, not what came of them
    again.acls_version = metadata.acls_version
    assert vars(again) == vars(metadata)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: type(record).__name__)
def test_records_survive_their_bytes(record):
    assert record_from_value(record_to_value(record)) == record


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([], False),
        ([TopicRecord(name="new", topic_id=bytes(16), partition_count=1)], False),
        ([TopicRecord(name="new", topic_id=bytes(16), partition_count=1), config(2, "new")], False),
        ([TopicRecord(name="new", topic_id=bytes(16), partition_count=1), config(2, "other")], True),
        ([TopicRecord(name="new", topic_id=bytes(16), partition_count=1), config(32, "new")], True),
        ([config(4, "")], True),
        ([FeatureLevelRecord(name="f", level=1, features_epoch=1)], True),
    ],
)
def test_what_alters_a_configuration_that_is_in_force(records: list[MetadataRecord], expected: bool) -> None:
    assert alters_configs(records) is expected
