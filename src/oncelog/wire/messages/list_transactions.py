"""ListTransactions: the transactional ids of one coordinator (KIP-664)."""

from oncelog.wire.schema import EMPTY, Int16, Int32, Int64, String, Struct, field


class ListTransactionsRequest(Struct, key=66, versions=(0, 2), flexible=0):
    """Filters by state and producer id, v1 by duration, v2 by name."""

    state_filters: list[String] = EMPTY
    producer_id_filters: list[Int64] = EMPTY
    duration_filter: Int64 = field(since=1, default=-1)
    transactional_id_pattern: String | None = field(since=2, default=None)


class TransactionState(Struct):
    transactional_id: String = ""
    producer_id: Int64 = 0
    transaction_state: String = ""


class ListTransactionsResponse(Struct, key=66, versions=(0, 2), flexible=0):
    """What passed all filters."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    unknown_state_filters: list[String] = EMPTY
    transaction_states: list[TransactionState] = EMPTY
