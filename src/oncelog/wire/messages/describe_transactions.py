"""DescribeTransactions: state of transactional ids at their coordinator (KIP-664)."""

from oncelog.wire.schema import EMPTY, Int16, Int32, Int64, String, Struct


class DescribeTransactionsRequest(Struct, key=65, versions=(0, 0), flexible=0):
    """The transactional ids."""

    transactional_ids: list[String] = EMPTY


class TopicData(Struct):
    topic: String = ""
    partitions: list[Int32] = EMPTY


class TransactionState(Struct):
    error_code: Int16 = 0
    transactional_id: String = ""
    transaction_state: String = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[TopicData] = EMPTY


class DescribeTransactionsResponse(Struct, key=65, versions=(0, 0), flexible=0):
    """One state per transactional id asked for."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[TransactionState] = EMPTY
