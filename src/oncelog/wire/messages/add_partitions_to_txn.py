"""AddPartitionsToTxn: v0-3 from clients; v4+ between brokers, for several transactions (KIP-890)."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, Int64, String, Struct, field


class AddPartitionsToTxnTopic(Struct):
    name: String = ""
    partitions: list[Int32] = EMPTY


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    verify_only: Bool = False
    topics: list[AddPartitionsToTxnTopic] = EMPTY


class AddPartitionsToTxnRequest(Struct, key=24, versions=(0, 5), flexible=3):
    """`verify_only` asks whether partitions belong to an open transaction and changes nothing (KIP-890)."""

    transactions: list[AddPartitionsToTxnTransaction] = field(since=4, default=EMPTY)
    v3_and_below_transactional_id: String = field(until=3, default="")
    v3_and_below_producer_id: Int64 = field(until=3, default=0)
    v3_and_below_producer_epoch: Int16 = field(until=3, default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field(until=3, default=EMPTY)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: Int32 = 0
    partition_error_code: Int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: String = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = EMPTY


class AddPartitionsToTxnResult(Struct):
    transactional_id: String = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = EMPTY


class AddPartitionsToTxnResponse(Struct, key=24, versions=(0, 5), flexible=3):
    """One error code per partition; v4+ per transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=4, ignorable=True, default=0)
    results_by_transaction: list[AddPartitionsToTxnResult] = field(since=4, default=EMPTY)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field(until=3, default=EMPTY)
