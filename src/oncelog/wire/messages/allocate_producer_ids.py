"""AllocateProducerIds: a broker takes a block of producer ids from the controller (KIP-730)."""

from oncelog.wire.schema import Int16, Int32, Int64, Struct


class AllocateProducerIdsRequest(Struct, key=67, versions=(0, 0), flexible=0):
    """The broker that asks."""

    broker_id: Int32 = 0
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Struct, key=67, versions=(0, 0), flexible=0):
    """First id and size of the block."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0
