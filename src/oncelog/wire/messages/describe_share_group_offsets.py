"""DescribeShareGroupOffsets: where share groups stand in each partition (KIP-932, KIP-1226)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, Int64, String, Struct, Uuid, field


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: String = ""
    partitions: list[Int32] = EMPTY


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = EMPTY


class DescribeShareGroupOffsetsRequest(Struct, key=90, versions=(0, 1), flexible=0):
    """Topics are null for all that a group has a state of."""

    groups: list[DescribeShareGroupOffsetsRequestGroup] = EMPTY


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: Int32 = 0
    start_offset: Int64 = 0
    leader_epoch: Int32 = 0
    lag: Int64 = field(since=1, default=-1, ignorable=True)
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: String = ""
    topic_id: Uuid = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = EMPTY


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: String = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = EMPTY
    error_code: Int16 = 0
    error_message: String | None = None


class DescribeShareGroupOffsetsResponse(Struct, key=90, versions=(0, 1), flexible=0):
    """One result per group and partition; -1 where nothing is known."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = EMPTY
