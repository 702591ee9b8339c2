"""Metadata: brokers, topics, leaders."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int16, Int32, String, Struct, Uuid, field


class MetadataRequestTopic(Struct):
    topic_id: Uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    name: String | None = field(nullable_since=10, default="")


class MetadataRequest(Struct, key=3, versions=(0, 13), flexible=9):
    """Null topics ask for all of them (v1+); v0 asks so with an empty list."""

    topics: list[MetadataRequestTopic] | None = field(nullable_since=1, default=EMPTY)
    allow_auto_topic_creation: Bool = field(since=4, default=True)
    include_cluster_authorized_operations: Bool = field(since=8, until=10, default=False)
    include_topic_authorized_operations: Bool = field(since=8, default=False)


class MetadataResponseBroker(Struct):
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    rack: String | None = field(since=1, ignorable=True, default=None)


class MetadataResponsePartition(Struct):
    error_code: Int16 = 0
    partition_index: Int32 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = field(since=7, ignorable=True, default=-1)
    replica_nodes: list[Int32] = EMPTY
    isr_nodes: list[Int32] = EMPTY
    offline_replicas: list[Int32] = field(since=5, ignorable=True, default=EMPTY)


class MetadataResponseTopic(Struct, flexible=9):
    error_code: Int16 = 0
    name: String | None = field(nullable_since=12, default="")
    topic_id: Uuid = field(since=10, ignorable=True, default=ZERO_UUID)
    is_internal: Bool = field(since=1, ignorable=True, default=False)
    partitions: list[MetadataResponsePartition] = EMPTY
    topic_authorized_operations: Int32 = field(since=8, default=-(1 << 31))


class MetadataResponse(Struct, key=3, versions=(0, 13), flexible=9):
    """The cluster as the broker knows it."""

    throttle_time_ms: Int32 = field(since=3, ignorable=True, default=0)
    brokers: list[MetadataResponseBroker] = EMPTY
    cluster_id: String | None = field(since=2, ignorable=True, default=None)
    controller_id: Int32 = field(since=1, ignorable=True, default=-1)
    topics: list[MetadataResponseTopic] = EMPTY
    cluster_authorized_operations: Int32 = field(since=8, until=10, default=-(1 << 31))
    error_code: Int16 = field(since=13, ignorable=True, default=0)
