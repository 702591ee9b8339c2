"""AddOffsetsToTxn: add a group's offsets partition to a transaction."""

from oncelog.wire.schema import Int16, Int32, Int64, String, Struct


class AddOffsetsToTxnRequest(Struct, key=25, versions=(0, 4), flexible=3):
    """Sent before TxnOffsetCommit up to v4 of that API."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    group_id: String = ""


class AddOffsetsToTxnResponse(Struct, key=25, versions=(0, 4), flexible=3):
    """Only an error code."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
