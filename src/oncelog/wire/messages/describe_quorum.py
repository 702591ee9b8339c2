"""DescribeQuorum: the voters of the metadata log (KIP-595)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, Int64, String, Struct, Uint16, Uuid, field


class PartitionDataRequest(Struct):
    partition_index: Int32 = 0


class TopicDataRequest(Struct):
    topic_name: String = ""
    partitions: list[PartitionDataRequest] = EMPTY


class DescribeQuorumRequest(Struct, key=55, versions=(0, 2), flexible=0):
    """The metadata partition."""

    topics: list[TopicDataRequest] = EMPTY


class ReplicaState(Struct):
    replica_id: Int32 = 0
    replica_directory_id: Uuid = field(since=2, default=ZERO_UUID)
    log_end_offset: Int64 = 0
    last_fetch_timestamp: Int64 = field(since=1, ignorable=True, default=-1)
    last_caught_up_timestamp: Int64 = field(since=1, ignorable=True, default=-1)


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = field(since=2, ignorable=True, default="")
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = EMPTY
    observers: list[ReplicaState] = EMPTY


class TopicData(Struct):
    topic_name: String = ""
    partitions: list[PartitionData] = EMPTY


class Listener(Struct):
    name: String = ""
    host: String = ""
    port: Uint16 = 0


class Node(Struct):
    node_id: Int32 = 0
    listeners: list[Listener] = EMPTY


class DescribeQuorumResponse(Struct, key=55, versions=(0, 2), flexible=0):
    """Leader, voters, observers."""

    error_code: Int16 = 0
    error_message: String | None = field(since=2, ignorable=True, default="")
    topics: list[TopicData] = EMPTY
    nodes: list[Node] = field(since=2, default=EMPTY)
