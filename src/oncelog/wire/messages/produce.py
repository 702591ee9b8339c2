"""Produce: append record batches. v12 adds partitions to the transaction itself (KIP-890), v13 names topics by id."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, Int64, Records, String, Struct, Uuid, field


class PartitionProduceData(Struct):
    index: Int32 = 0
    records: Records | None = None


class TopicProduceData(Struct):
    name: String = field(until=12, ignorable=True, default="")
    topic_id: Uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partition_data: list[PartitionProduceData] = EMPTY


class ProduceRequest(Struct, key=0, versions=(3, 13), flexible=9):
    """Batches for several partitions; `acks` 0 gets no answer at all."""

    transactional_id: String | None = None
    acks: Int16 = 0
    timeout_ms: Int32 = 0
    topic_data: list[TopicProduceData] = EMPTY


class BatchIndexAndErrorMessage(Struct):
    batch_index: Int32 = 0
    batch_index_error_message: String | None = None


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class PartitionProduceResponse(Struct):
    index: Int32 = 0
    error_code: Int16 = 0
    base_offset: Int64 = 0
    log_append_time_ms: Int64 = -1
    log_start_offset: Int64 = field(since=5, ignorable=True, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = field(since=8, ignorable=True, default=EMPTY)
    error_message: String | None = field(since=8, ignorable=True, default=None)
    current_leader: LeaderIdAndEpoch = field(since=10, tag=0, default=LeaderIdAndEpoch())


class TopicProduceResponse(Struct):
    name: String = field(until=12, ignorable=True, default="")
    topic_id: Uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partition_responses: list[PartitionProduceResponse] = EMPTY


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class ProduceResponse(Struct, key=0, versions=(3, 13), flexible=9):
    """One result per partition; v10 tells where the leader went (KIP-951)."""

    responses: list[TopicProduceResponse] = EMPTY
    throttle_time_ms: Int32 = 0
    node_endpoints: list[NodeEndpoint] = field(since=10, tag=0, default=EMPTY)
