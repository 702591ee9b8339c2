"""StreamsGroupDescribe: streams groups with their topology and the tasks of their members (KIP-1071)."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, Int64, String, Struct, Uint16


class StreamsGroupDescribeRequest(Struct, key=89, versions=(0, 0), flexible=0):
    """Which groups."""

    group_ids: list[String] = EMPTY
    include_authorized_operations: Bool = False


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


class Assignment(Struct):
    active_tasks: list[TaskIds] = EMPTY
    standby_tasks: list[TaskIds] = EMPTY
    warmup_tasks: list[TaskIds] = EMPTY


class KeyValue(Struct):
    key: String = ""
    value: String = ""


class TopicInfo(Struct):
    name: String = ""
    partitions: Int32 = 0
    replication_factor: Int16 = 0
    topic_configs: list[KeyValue] = EMPTY


class Subtopology(Struct):
    subtopology_id: String = ""
    source_topics: list[String] = EMPTY
    repartition_sink_topics: list[String] = EMPTY
    state_changelog_topics: list[TopicInfo] = EMPTY
    repartition_source_topics: list[TopicInfo] = EMPTY


class Topology(Struct):
    topology_epoch: Int32 = 0
    subtopologies: list[Subtopology] | None = None


class Member(Struct):
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    client_id: String = ""
    client_host: String = ""
    topology_epoch: Int32 = 0
    process_id: String = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = EMPTY
    task_offsets: list[TaskOffset] = EMPTY
    task_end_offsets: list[TaskOffset] = EMPTY
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    is_classic: Bool = False


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    topology: Topology | None = None
    members: list[Member] = EMPTY
    authorized_operations: Int32 = -(1 << 31)


class StreamsGroupDescribeResponse(Struct, key=89, versions=(0, 0), flexible=0):
    """Members with their present and target tasks."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = EMPTY
