"""ShareFetch: acknowledge records of a share group, and acquire more (KIP-932, KIP-1206, KIP-1222)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int8, Int16, Int32, Int64, Records, String, Struct, Uuid, field


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = EMPTY


class FetchPartition(Struct):
    partition_index: Int32 = 0
    partition_max_bytes: Int32 = field(until=0, default=0)
    acknowledgement_batches: list[AcknowledgementBatch] = EMPTY


class FetchTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[FetchPartition] = EMPTY


class ForgottenTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = EMPTY


class ShareFetchRequest(Struct, key=78, versions=(1, 2), flexible=0):
    """Session epoch 0 opens a session, -1 ends it; partitions are those that are new or have something to acknowledge."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = 2147483647
    max_records: Int32 = 0
    batch_size: Int32 = 0
    share_acquire_mode: Int8 = field(since=2, default=0, ignorable=True)
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[FetchTopic] = EMPTY
    forgotten_topics_data: list[ForgottenTopic] = EMPTY


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class AcquiredRecords(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_count: Int16 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acknowledge_error_code: Int16 = 0
    acknowledge_error_message: String | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()
    records: Records
    acquired_records: list[AcquiredRecords] = EMPTY


class ShareFetchableTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = EMPTY


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareFetchResponse(Struct, key=78, versions=(1, 2), flexible=0):
    """Records come whole batches at a time; those that may be used are named by offset in `acquired_records`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = 0
    responses: list[ShareFetchableTopicResponse] = EMPTY
    node_endpoints: list[NodeEndpoint] = EMPTY
