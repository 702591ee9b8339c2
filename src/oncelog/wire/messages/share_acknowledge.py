"""ShareAcknowledge: say what became of acquired records without fetching (KIP-932, KIP-1222)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int8, Int16, Int32, Int64, String, Struct, Uuid, field


class AcknowledgementBatch(Struct):
    first_offset: Int64 = 0
    last_offset: Int64 = 0
    acknowledge_types: list[Int8] = EMPTY


class AcknowledgePartition(Struct):
    partition_index: Int32 = 0
    acknowledgement_batches: list[AcknowledgementBatch] = EMPTY


class AcknowledgeTopic(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[AcknowledgePartition] = EMPTY


class ShareAcknowledgeRequest(Struct, key=79, versions=(1, 2), flexible=0):
    """Of a session that ShareFetch opened; epoch -1 ends it."""

    group_id: String | None = None
    member_id: String | None = ""
    share_session_epoch: Int32 = 0
    is_renew_ack: Bool = field(since=2, default=False)
    topics: list[AcknowledgeTopic] = EMPTY


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    current_leader: LeaderIdAndEpoch = LeaderIdAndEpoch()


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[PartitionData] = EMPTY


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ShareAcknowledgeResponse(Struct, key=79, versions=(1, 2), flexible=0):
    """One result per partition."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    acquisition_lock_timeout_ms: Int32 = field(since=2, default=0, ignorable=True)
    responses: list[ShareAcknowledgeTopicResponse] = EMPTY
    node_endpoints: list[NodeEndpoint] = EMPTY
