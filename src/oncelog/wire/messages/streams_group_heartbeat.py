"""StreamsGroupHeartbeat: membership, topology and tasks of a Kafka Streams application in one call (KIP-1071)."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, Int64, String, Struct, Uint16


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class TopicInfo(Struct):
    """A topic that the broker creates for the application; 0 partitions: as many as what it reads."""

    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = EMPTY


class Endpoint(Struct):
    host: String = ""
    port: Uint16 = 0


class TaskOffset(Struct):
    subtopology_id: String = ""
    partition: Int32 = 0
    offset: Int64 = 0


class TaskIds(Struct):
    subtopology_id: String = ""
    partitions: list[Int32] = EMPTY


class CopartitionGroup(Struct):
    """Source topics with equal partition counts, as indexes into the subtopology's lists."""

    source_topics: list[Int16] = EMPTY
    source_topic_regex: list[Int16] = EMPTY
    repartition_source_topics: list[Int16] = EMPTY


class Subtopology(Struct):
    subtopology_id: String = ""
    source_topics: list[String] = EMPTY
    source_topic_regex: list[String] = EMPTY
    state_changelog_topics: list[TopicInfo] = EMPTY
    repartition_sink_topics: list[String] = EMPTY
    repartition_source_topics: list[TopicInfo] = EMPTY
    copartition_groups: list[CopartitionGroup] = EMPTY


class Topology(Struct):
    topology_epoch: Int32 = 0
    subtopologies: list[Subtopology] = EMPTY


class StreamsGroupHeartbeatRequest(Struct, key=88, versions=(0, 0), flexible=0):
    """Fields that did not change are null or -1; member epoch -1 leaves. The topology comes with epoch 0 only."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    endpoint_information_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: String | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: Bool = False


class Status(Struct):
    status_code: Int8 = 0
    status_detail: String = ""


class TopicPartition(Struct):
    topic: String = ""
    partitions: list[Int32] = EMPTY


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = Endpoint()
    active_partitions: list[TopicPartition] = EMPTY
    standby_partitions: list[TopicPartition] = EMPTY


class StreamsGroupHeartbeatResponse(Struct, key=88, versions=(0, 0), flexible=0):
    """Tasks are null where they did not change."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String = ""
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    acceptable_recovery_lag: Int32 = 0
    task_offset_interval_ms: Int32 = 0
    status: list[Status] | None = EMPTY
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    endpoint_information_epoch: Int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
