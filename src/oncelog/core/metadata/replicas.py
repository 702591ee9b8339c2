"""What requests about replicas can mean on one node: elections, reassignments, moves between disks.

Every partition has its one replica here, which leads it: nothing is ever moved, and each wish gets Kafka's own answer.
"""

from __future__ import annotations

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.leadership import Leadership
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topics import assignment_fault
from oncelog.errors import ErrorCode
from oncelog.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from oncelog.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

_ELECTION_TYPES = (0, 1)  # preferred, unclean


def elect_leaders(metadata: ClusterMetadata, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Nobody is to be elected: every leader is the preferred one, and there."""
    if request.topic_partitions is None:  # all: only partitions that needed an election are answered
        names = metadata.topics
        return ElectLeadersResponse(replica_election_results=[ReplicaElectionResult(topic=name) for name in names])
    is_known = request.election_type in _ELECTION_TYPES
    unknown = Refusal(ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    results = []
    for asked in request.topic_partitions:
        result = ReplicaElectionResult(topic=asked.topic, partition_result=[])
        for index in asked.partitions:
            refusal = _not_elected(metadata, asked.topic, index) if is_known else unknown
            result.partition_result.append(
                PartitionResult(partition_id=index, error_code=refusal.error_code, error_message=refusal.message)
            )
        results.append(result)
    code = ErrorCode.NONE if is_known else unknown.error_code
    return ElectLeadersResponse(error_code=code, replica_election_results=results)


def _not_elected(metadata: ClusterMetadata, name: str, index: int) -> Refusal:
    topic = metadata.topics.get(name)
    if topic is None:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}")
    if not 0 <= index < topic.partition_count:
        return Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{index}")
    return Refusal(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")


def alter_reassignments(
    metadata: ClusterMetadata, request: AlterPartitionReassignmentsRequest, leadership: Leadership
) -> AlterPartitionReassignmentsResponse:
    """To be where it is can be asked of a partition; anything else is refused."""
    responses = []
    for topic in request.topics:
        answered = ReassignableTopicResponse(name=topic.name, partitions=[])
        known = metadata.topics.get(topic.name)
        for partition in topic.partitions:
            if known is None or not 0 <= partition.partition_index < known.partition_count:
                refusal: Refusal | None = Refusal(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _not_found(topic.name, partition, is_known=known is not None)
                )
            else:
                leader_id = leadership.leader_of(known, partition.partition_index)
                refusal = _not_reassigned(
                    partition, leader_id, may_change_factor=request.allow_replication_factor_change
                )
            answered.partitions.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=refusal.error_code if refusal else ErrorCode.NONE,
                    error_message=(refusal.message or None) if refusal else None,
                )
            )
        responses.append(answered)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        error_message=None,
        responses=responses,
    )


def _not_found(name: str, partition: ReassignablePartition, *, is_known: bool) -> str:
    if not is_known:
        return f"Unable to find a topic named {name}."
    return f"Unable to find partition {name}:{partition.partition_index}."


def _not_reassigned(partition: ReassignablePartition, node_id: int, *, may_change_factor: bool) -> Refusal | None:
    if partition.replicas is None:
        return Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "")
    fault = assignment_fault(partition.replicas, node_id)
    if fault is not None:
        return Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, fault)
    if len(partition.replicas) != 1 and not may_change_factor:
        return Refusal(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            "The replication factor is changed and it's not allowed.",
        )
    return None
