"""OffsetFetch: read the positions of groups, from v8 of several at once."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int16, Int32, Int64, String, Struct, Uuid, field


class OffsetFetchRequestTopic(Struct):
    name: String = ""
    partition_indexes: list[Int32] = EMPTY


class OffsetFetchRequestTopics(Struct):
    name: String = field(until=9, ignorable=True, default="")
    topic_id: Uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partition_indexes: list[Int32] = EMPTY


class OffsetFetchRequestGroup(Struct):
    group_id: String = ""
    member_id: String | None = field(since=9, ignorable=True, default=None)
    member_epoch: Int32 = field(since=9, ignorable=True, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = EMPTY


class OffsetFetchRequest(Struct, key=9, versions=(1, 10), flexible=6):
    """`require_stable` refuses offsets that an open transaction may still change (KIP-447)."""

    group_id: String = field(until=7, default="")
    topics: list[OffsetFetchRequestTopic] | None = field(until=7, nullable_since=2, default=EMPTY)
    groups: list[OffsetFetchRequestGroup] = field(since=8, default=EMPTY)
    require_stable: Bool = field(since=7, default=False)


class OffsetFetchResponsePartition(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = field(since=5, ignorable=True, default=-1)
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: String = ""
    partitions: list[OffsetFetchResponsePartition] = EMPTY


class OffsetFetchResponsePartitions(Struct):
    partition_index: Int32 = 0
    committed_offset: Int64 = 0
    committed_leader_epoch: Int32 = -1
    metadata: String | None = ""
    error_code: Int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: String = field(until=9, ignorable=True, default="")
    topic_id: Uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    partitions: list[OffsetFetchResponsePartitions] = EMPTY


class OffsetFetchResponseGroup(Struct):
    group_id: String = ""
    topics: list[OffsetFetchResponseTopics] = EMPTY
    error_code: Int16 = 0


class OffsetFetchResponse(Struct, key=9, versions=(1, 10), flexible=6):
    """Offset -1 where nothing is committed."""

    throttle_time_ms: Int32 = field(since=3, ignorable=True, default=0)
    topics: list[OffsetFetchResponseTopic] = field(until=7, default=EMPTY)
    error_code: Int16 = field(since=2, until=7, ignorable=True, default=0)
    groups: list[OffsetFetchResponseGroup] = field(since=8, default=EMPTY)
