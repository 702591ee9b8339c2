"""Elections and reassignments on one node, as Apache Kafka 4.3 answers them there."""

from __future__ import annotations

import pytest

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import alone
from oncelog.core.metadata.replicas import alter_reassignments, elect_leaders
from oncelog.errors import ErrorCode as E
from oncelog.wire.log_records.cluster_metadata import TopicRecord
from oncelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from oncelog.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions


@pytest.fixture
def metadata():
    made = ClusterMetadata()
    made.apply(TopicRecord(name="t", topic_id=b"t" * 16, partition_count=2))
    return made


def test_nobody_needs_to_be_elected(metadata):
    asked = [TopicPartitions(topic="t", partitions=[0, 9]), TopicPartitions(topic="nosuch", partitions=[0])]
    for election_type in (0, 1):
        reply = elect_leaders(metadata, ElectLeadersRequest(election_type=election_type, topic_partitions=asked))
        codes = [part.error_code for topic in reply.replica_election_results for part in topic.partition_result]
        assert codes == [E.ELECTION_NOT_NEEDED, E.UNKNOWN_TOPIC_OR_PARTITION, E.UNKNOWN_TOPIC_OR_PARTITION]
    reply = elect_leaders(metadata, ElectLeadersRequest(topic_partitions=None))
    assert [(each.topic, each.partition_result) for each in reply.replica_election_results] == [("t", [])]
    reply = elect_leaders(metadata, ElectLeadersRequest(election_type=7, topic_partitions=asked[:1]))
    assert reply.error_code == E.INVALID_REQUEST
    assert reply.replica_election_results[0].partition_result[0].error_message == "Unknown election type 7"


@pytest.mark.parametrize(
    ("name", "index", "replicas", "code", "says"),
    [
        ("t", 0, [1], E.NONE, None),
        ("t", 0, None, E.NO_REASSIGNMENT_IN_PROGRESS, None),
        ("t", 0, [], E.INVALID_REPLICA_ASSIGNMENT, "an empty replica list"),
        ("t", 0, [1, 1], E.INVALID_REPLICA_ASSIGNMENT, "the broker 1 more than once"),
        ("t", 0, [1, 2], E.INVALID_REPLICA_ASSIGNMENT, "broker 2, but no such broker"),
        ("t", 9, [1], E.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:9."),
        ("nosuch", 0, [1], E.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named nosuch."),
    ],
)
def test_a_partition_can_only_stay(metadata, name, index, replicas, code, says):
    topic = ReassignableTopic(name=name, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
    reply = alter_reassignments(metadata, AlterPartitionReassignmentsRequest(topics=[topic]), alone(1))
    found = reply.responses[0].partitions[0]
    assert found.error_code == code
    assert found.error_message is says is None or says in found.error_message
