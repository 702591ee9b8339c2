"""TxnOffsetCommit: store a group's positions as part of a transaction."""

from oncelog.wire.schema import EMPTY, Int16, Int32, Int64, String, Struct, field


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(since=2, ignorable=True, default=-1)
    committed_metadata: String | None = ""


class TxnOffsetCommitRequestTopic(Struct):
    name: String = ""
    partitions: list[TxnOffsetCommitRequestPartition] = EMPTY


class TxnOffsetCommitRequest(Struct, key=28, versions=(0, 5), flexible=3):
    """v3 fences members of an older generation (KIP-447); v5 adds the offsets partition by itself (KIP-890)."""

    transactional_id: String = ""
    group_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    generation_id: Int32 = field(since=3, default=-1)
    member_id: String = field(since=3, default="")
    group_instance_id: String | None = field(since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = EMPTY


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class TxnOffsetCommitResponseTopic(Struct):
    name: String = ""
    partitions: list[TxnOffsetCommitResponsePartition] = EMPTY


class TxnOffsetCommitResponse(Struct, key=28, versions=(0, 5), flexible=3):
    """One error code per partition."""

    throttle_time_ms: Int32 = 0
    topics: list[TxnOffsetCommitResponseTopic] = EMPTY
