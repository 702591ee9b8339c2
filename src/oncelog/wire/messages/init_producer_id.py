"""InitProducerId: get a producer id and fence older instances of a transactional id."""

from oncelog.wire.schema import Bool, Int16, Int32, Int64, String, Struct, field


class InitProducerIdRequest(Struct, key=22, versions=(0, 6), flexible=2):
    """v3 carries the present id to have its epoch bumped (KIP-360); v6 keeps a prepared transaction (KIP-939)."""

    transactional_id: String | None = ""
    transaction_timeout_ms: Int32 = 0
    producer_id: Int64 = field(since=3, default=-1)
    producer_epoch: Int16 = field(since=3, default=-1)
    enable_2pc: Bool = field(since=6, default=False)
    keep_prepared_txn: Bool = field(since=6, default=False)


class InitProducerIdResponse(Struct, key=22, versions=(0, 6), flexible=2):
    """v6 tells the producer id of the transaction that was kept open (KIP-939)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = -1
    producer_epoch: Int16 = 0
    ongoing_txn_producer_id: Int64 = field(since=6, default=-1)
    ongoing_txn_producer_epoch: Int16 = field(since=6, default=-1)
