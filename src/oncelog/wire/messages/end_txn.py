"""EndTxn: commit or abort."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, Int64, String, Struct, field


class NeededPartition(Struct):
    partition_index: Int32 = 0
    last_sequence: Int32 = -1


class NeededTopic(Struct):
    name: String = ""
    partitions: list[NeededPartition] = EMPTY


class EndTxnRequest(Struct, key=26, versions=(0, 5), flexible=3):
    """`committed` False aborts."""

    transactional_id: String = ""
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    committed: Bool = False
    # A conditional commit: commit only if the transaction's last batch on each of these partitions is the one that ends with
    # `last_sequence` (feature `oncelog.conditional.commit`; Kafka has no field for it, and would not look).
    needed: list[NeededTopic] = field(since=5, tag=10000, default=EMPTY)
    # Each time a producer sends a conditional commit it has a higher number: one that was overtaken by a refusal is refused too.
    attempt: Int32 = field(since=5, tag=10001, default=0)


class EndTxnResponse(Struct, key=26, versions=(0, 5), flexible=3):
    """KIP-890: v5 returns the producer id and epoch to use for the next transaction."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = field(since=5, ignorable=True, default=-1)
    producer_epoch: Int16 = field(since=5, ignorable=True, default=-1)
