"""DescribeProducers: what a partition remembers of producers, to find hanging transactions (KIP-664)."""

from oncelog.wire.schema import EMPTY, Int16, Int32, Int64, String, Struct


class TopicRequest(Struct):
    name: String = ""
    partition_indexes: list[Int32] = EMPTY


class DescribeProducersRequest(Struct, key=61, versions=(0, 0), flexible=0):
    """The partitions to look at."""

    topics: list[TopicRequest] = EMPTY


class ProducerState(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int32 = 0
    last_sequence: Int32 = -1
    last_timestamp: Int64 = -1
    coordinator_epoch: Int32 = 0
    current_txn_start_offset: Int64 = -1


class PartitionResponse(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    active_producers: list[ProducerState] = EMPTY


class TopicResponse(Struct):
    name: String = ""
    partitions: list[PartitionResponse] = EMPTY


class DescribeProducersResponse(Struct, key=61, versions=(0, 0), flexible=0):
    """`current_txn_start_offset` is -1 where no transaction is open."""

    throttle_time_ms: Int32 = 0
    topics: list[TopicResponse] = EMPTY
