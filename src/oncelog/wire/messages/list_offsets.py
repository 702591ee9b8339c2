"""ListOffsets: offsets by time, or the first and last."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, Int64, String, Struct, field


class ListOffsetsPartition(Struct):
    partition_index: Int32 = 0
    current_leader_epoch: Int32 = field(since=4, ignorable=True, default=-1)
    timestamp: Int64 = 0


class ListOffsetsTopic(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartition] = EMPTY


class ListOffsetsRequest(Struct, key=2, versions=(1, 11), flexible=6):
    """Timestamps below zero ask for special offsets: -1 latest, -2 earliest, -3 largest timestamp."""

    replica_id: Int32 = 0
    isolation_level: Int8 = field(since=2, default=0)
    topics: list[ListOffsetsTopic] = EMPTY
    timeout_ms: Int32 = field(since=10, ignorable=True, default=0)


class ListOffsetsPartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    timestamp: Int64 = -1
    offset: Int64 = -1
    leader_epoch: Int32 = field(since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: String = ""
    partitions: list[ListOffsetsPartitionResponse] = EMPTY


class ListOffsetsResponse(Struct, key=2, versions=(1, 11), flexible=6):
    """One offset per partition; with read committed the latest is the last stable offset."""

    throttle_time_ms: Int32 = field(since=2, ignorable=True, default=0)
    topics: list[ListOffsetsTopicResponse] = EMPTY
