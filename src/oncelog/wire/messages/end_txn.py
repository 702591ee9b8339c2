"""EndTxn: commit or abort."""

from oncelog.wire.schema import Bool, Int16, Int32, Int64, String, Struct, field


class EndTxnRequest(Struct, key=26, versions=(0, 5), flexible=3):
    """`committed` False aborts."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False


class EndTxnResponse(Struct, key=26, versions=(0, 5), flexible=3):
    """KIP-890: v5 returns the producer id and epoch to use for the next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(since=5, ignorable=True, default=-1)
    producer_epoch: Int16 = field(since=5, ignorable=True, default=-1)
