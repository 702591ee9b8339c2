"""Fetch: read record batches, from v7 within a session (KIP-227), from v13 by topic id."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int8, Int16, Int32, Int64, Records, String, Struct, Uuid, field

SESSIONS_SINCE_VERSION = 7


class ReplicaState(Struct):
    replica_id: Int32 = -1
    replica_epoch: Int64 = -1


class FetchPartition(Struct):
    partition: Int32 = 0
    current_leader_epoch: Int32 = field(since=9, ignorable=True, default=-1)
    fetch_offset: Int64 = 0
    last_fetched_epoch: Int32 = field(since=12, default=-1)
    log_start_offset: Int64 = field(since=5, ignorable=True, default=-1)
    partition_max_bytes: Int32 = 0
    replica_directory_id: Uuid = field(since=17, tag=0, ignorable=True, default=ZERO_UUID)
    high_watermark: Int64 = field(since=18, tag=1, ignorable=True, default=(1 << 63) - 1)


class FetchTopic(Struct):
    topic: String = field(until=12, ignorable=True, default="")
    topic_id: Uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partitions: list[FetchPartition] = EMPTY


class ForgottenTopic(Struct):
    topic: String = field(until=12, ignorable=True, default="")
    topic_id: Uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partitions: list[Int32] = EMPTY


class FetchRequest(Struct, key=1, versions=(4, 18), flexible=12):
    """`isolation_level` 1 (read committed) ends at the last stable offset."""

    cluster_id: String | None = field(since=12, tag=0, ignorable=True, default=None)
    replica_id: Int32 = field(until=14, default=-1)
    replica_state: ReplicaState = field(since=15, tag=1, default=ReplicaState())
    max_wait_ms: Int32 = 0
    min_bytes: Int32 = 0
    max_bytes: Int32 = (1 << 31) - 1
    isolation_level: Int8 = 0
    session_id: Int32 = field(since=7, ignorable=True, default=0)
    session_epoch: Int32 = field(since=7, ignorable=True, default=-1)
    topics: list[FetchTopic] = EMPTY
    forgotten_topics_data: list[ForgottenTopic] = field(since=7, default=EMPTY)
    rack_id: String = field(since=11, ignorable=True, default="")


class EpochEndOffset(Struct):
    leader_epoch: Int32 = -1
    end_offset: Int64 = -1


class LeaderIdAndEpoch(Struct):
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1


class SnapshotId(Struct):
    end_offset: Int64 = -1
    leader_epoch: Int32 = -1


class AbortedTransaction(Struct):
    producer_id: Int64 = 0
    first_offset: Int64 = 0


class PartitionData(Struct):
    partition_index: Int32 = 0
    error_code: Int16 = 0
    high_watermark: Int64 = 0
    last_stable_offset: Int64 = -1
    log_start_offset: Int64 = field(since=5, ignorable=True, default=-1)
    diverging_epoch: EpochEndOffset = field(since=12, tag=0, default=EpochEndOffset())
    current_leader: LeaderIdAndEpoch = field(since=12, tag=1, default=LeaderIdAndEpoch())
    snapshot_id: SnapshotId = field(since=12, tag=2, default=SnapshotId())
    aborted_transactions: list[AbortedTransaction] | None = EMPTY
    preferred_read_replica: Int32 = field(since=11, default=-1)
    records: Records | None = None


class FetchableTopicResponse(Struct):
    topic: String = field(until=12, ignorable=True, default="")
    topic_id: Uuid = field(since=13, ignorable=True, default=ZERO_UUID)
    partitions: list[PartitionData] = EMPTY


class NodeEndpoint(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = None


class FetchResponse(Struct, key=1, versions=(4, 18), flexible=12):
    """`aborted_transactions` lets a read-committed reader drop what was rolled back (KIP-98)."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = field(since=7, ignorable=True, default=0)
    session_id: Int32 = field(since=7, default=0)
    responses: list[FetchableTopicResponse] = EMPTY
    node_endpoints: list[NodeEndpoint] = field(since=16, tag=0, default=EMPTY)
