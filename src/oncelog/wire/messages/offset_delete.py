"""OffsetDelete: forget a group's committed offsets (KIP-496). Never flexible."""

from oncelog.wire.schema import EMPTY, Int16, Int32, String, Struct


class OffsetDeleteRequestPartition(Struct):
    partition_index: Int32 = 0


class OffsetDeleteRequestTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteRequestPartition] = EMPTY


class OffsetDeleteRequest(Struct, key=47, versions=(0, 0)):
    """Group and partitions."""

    group_id: String = ""
    topics: list[OffsetDeleteRequestTopic] = EMPTY


class OffsetDeleteResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: String = ""
    partitions: list[OffsetDeleteResponsePartition] = EMPTY


class OffsetDeleteResponse(Struct, key=47, versions=(0, 0)):
    """One error code per partition."""

    error_code: Int16 = 0
    throttle_time_ms: Int32 = 0
    topics: list[OffsetDeleteResponseTopic] = EMPTY
