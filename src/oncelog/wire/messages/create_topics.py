"""CreateTopics."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int8, Int16, Int32, String, Struct, Uuid, field


class CreatableReplicaAssignment(Struct):
    partition_index: Int32 = 0
    broker_ids: list[Int32] = EMPTY


class CreatableTopicConfig(Struct):
    name: String = ""
    value: String | None = ""


class CreatableTopic(Struct):
    name: String = ""
    num_partitions: Int32 = 0
    replication_factor: Int16 = 0
    assignments: list[CreatableReplicaAssignment] = EMPTY
    configs: list[CreatableTopicConfig] = EMPTY


class CreateTopicsRequest(Struct, key=19, versions=(2, 7), flexible=5):
    """Either counts (-1: the broker's default) or explicit assignments."""

    topics: list[CreatableTopic] = EMPTY
    timeout_ms: Int32 = 60000
    validate_only: Bool = False


class CreatableTopicConfigs(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False


class CreatableTopicResult(Struct):
    name: String = ""
    topic_id: Uuid = field(since=7, ignorable=True, default=ZERO_UUID)
    error_code: Int16 = 0
    error_message: String | None = ""
    topic_config_error_code: Int16 = field(since=5, tag=0, ignorable=True, default=0)
    num_partitions: Int32 = field(since=5, ignorable=True, default=-1)
    replication_factor: Int16 = field(since=5, ignorable=True, default=-1)
    configs: list[CreatableTopicConfigs] | None = field(since=5, ignorable=True, default=EMPTY)


class CreateTopicsResponse(Struct, key=19, versions=(2, 7), flexible=5):
    """One result per topic; from v5 with its configuration (KIP-525)."""

    throttle_time_ms: Int32 = 0
    topics: list[CreatableTopicResult] = EMPTY
