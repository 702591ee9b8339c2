"""OffsetCommit: store a group's positions outside of a transaction."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, Int64, String, Struct, Uuid, field


class OffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(since=6, ignorable=True, default=-1)
    committed_metadata: String | None = ""


class OffsetCommitRequestTopic(Struct):
    name: String = field(until=9, ignorable=True, default="")
    topic_id: Uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partitions: list[OffsetCommitRequestPartition] = EMPTY


class OffsetCommitRequest(Struct, key=8, versions=(2, 10), flexible=8):
    """The generation is the member epoch in groups of the new protocol (KIP-848)."""

    group_id: String = ""
    generation_id_or_member_epoch: Int32 = -1
    member_id: String = ""
    group_instance_id: String | None = field(since=7, default=None)
    retention_time_ms: Int64 = field(until=4, ignorable=True, default=-1)
    topics: list[OffsetCommitRequestTopic] = EMPTY


class OffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: String = field(until=9, ignorable=True, default="")
    topic_id: Uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partitions: list[OffsetCommitResponsePartition] = EMPTY


class OffsetCommitResponse(Struct, key=8, versions=(2, 10), flexible=8):
    """One error code per partition."""

    throttle_time_ms: Int32 = field(since=3, ignorable=True, default=0)
    topics: list[OffsetCommitResponseTopic] = EMPTY
