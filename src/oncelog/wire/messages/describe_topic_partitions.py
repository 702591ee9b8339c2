"""DescribeTopicPartitions: partitions of topics, in pages (KIP-966)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int16, Int32, String, Struct, Uuid


class TopicRequest(Struct):
    name: String = ""


class Cursor(Struct):
    topic_name: String = ""
    partition_index: Int32 = 0


class DescribeTopicPartitionsRequest(Struct, key=75, versions=(0, 0), flexible=0):
    """`cursor` is where the page before this one ended."""

    topics: list[TopicRequest] = EMPTY
    response_partition_limit: Int32 = 2000
    cursor: Cursor | None = None


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = -1
    replica_nodes: list[Int32] = EMPTY
    isr_nodes: list[Int32] = EMPTY
    eligible_leader_replicas: list[Int32] | None = None
    last_known_elr: list[Int32] | None = None
    offline_replicas: list[Int32] = EMPTY


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: Int16 = 0
    name: String | None = ""
    topic_id: Uuid = ZERO_UUID
    is_internal: Bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = EMPTY
    topic_authorized_operations: Int32 = -(1 << 31)


class DescribeTopicPartitionsResponse(Struct, key=75, versions=(0, 0), flexible=0):
    """`next_cursor` is null on the last page."""

    throttle_time_ms: Int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = EMPTY
    next_cursor: Cursor | None = None
