"""OffsetForLeaderEpoch: where a leader epoch ended, to find a truncated log (KIP-320)."""

from oncelog.wire.schema import EMPTY, Int16, Int32, Int64, String, Struct, field


class OffsetForLeaderPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = -1
    leader_epoch: Int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: String = ""
    partitions: list[OffsetForLeaderPartition] = EMPTY


class OffsetForLeaderEpochRequest(Struct, key=23, versions=(2, 4), flexible=4):
    """The leader epochs asked for."""

    replica_id: Int32 = field(since=3, ignorable=True, default=-2)
    topics: list[OffsetForLeaderTopic] = EMPTY


class EpochEndOffset(Struct):
    error_code: Int16 = 0
    partition: Int32 = 0
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: String = ""
    partitions: list[EpochEndOffset] = EMPTY


class OffsetForLeaderEpochResponse(Struct, key=23, versions=(2, 4), flexible=4):
    """The end offset of each."""

    throttle_time_ms: Int32 = 0
    topics: list[OffsetForLeaderTopicResult] = EMPTY
