"""AlterPartitionReassignments: give partitions other replicas (KIP-455)."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, String, Struct, field


class ReassignablePartition(Struct):
    partition_index: Int32 = 0
    replicas: list[Int32] | None = None


class ReassignableTopic(Struct):
    name: String = ""
    partitions: list[ReassignablePartition] = EMPTY


class AlterPartitionReassignmentsRequest(Struct, key=45, versions=(0, 1), flexible=0):
    """Null replicas cancel a reassignment."""

    timeout_ms: Int32 = 60000
    allow_replication_factor_change: Bool = field(since=1, default=True)
    topics: list[ReassignableTopic] = EMPTY


class ReassignablePartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class ReassignableTopicResponse(Struct):
    name: String = ""
    partitions: list[ReassignablePartitionResponse] = EMPTY


class AlterPartitionReassignmentsResponse(Struct, key=45, versions=(0, 1), flexible=0):
    """One result per partition."""

    throttle_time_ms: Int32 = 0
    allow_replication_factor_change: Bool = field(since=1, ignorable=True, default=True)
    error_code: Int16 = 0
    error_message: String | None = ""
    responses: list[ReassignableTopicResponse] = EMPTY
