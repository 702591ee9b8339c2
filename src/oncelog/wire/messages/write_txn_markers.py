"""WriteTxnMarkers: a coordinator, or an operator (KIP-664), ends transactions on partitions."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, Int64, String, Struct, field


class WritableTxnMarkerTopic(Struct):
    name: String = ""
    partition_indexes: list[Int32] = EMPTY
    # KIP-664 compares the transaction's start offset with what DescribeProducers showed; Kafka has no field for it.
    # Parallel to partition_indexes; -1: not compared.
    txn_start_offsets: list[Int64] = field(tag=10000, default=EMPTY)


class WritableTxnMarker(Struct):
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    transaction_result: Bool = False
    topics: list[WritableTxnMarkerTopic] = EMPTY
    coordinator_epoch: Int32 = 0
    transaction_version: Int8 = field(since=2, ignorable=True, default=0)


class WriteTxnMarkersRequest(Struct, key=27, versions=(1, 2), flexible=1):
    """`transaction_result` True commits."""

    markers: list[WritableTxnMarker] = EMPTY


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: String = ""
    partitions: list[WritableTxnMarkerPartitionResult] = EMPTY


class WritableTxnMarkerResult(Struct):
    producer_id: Int64 = 0
    topics: list[WritableTxnMarkerTopicResult] = EMPTY


class WriteTxnMarkersResponse(Struct, key=27, versions=(1, 2), flexible=1):
    """One error code per partition."""

    markers: list[WritableTxnMarkerResult] = EMPTY
