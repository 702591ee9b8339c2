"""ElectLeaders: elect the preferred replica or, uncleanly, any."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct, field


class TopicPartitions(Struct):
    topic: String = ""
    partitions: list[Int32] = EMPTY


class ElectLeadersRequest(Struct, key=43, versions=(0, 2), flexible=2):
    """Null partitions ask for all of them."""

    election_type: Int8 = field(since=1, default=0)
    topic_partitions: list[TopicPartitions] | None = EMPTY
    timeout_ms: Int32 = 60000


class PartitionResult(Struct):
    partition_id: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReplicaElectionResult(Struct):
    topic: String = ""
    partition_result: list[PartitionResult] = EMPTY


class ElectLeadersResponse(Struct, key=43, versions=(0, 2), flexible=2):
    """One result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=1, default=0)
    replica_election_results: list[ReplicaElectionResult] = EMPTY
