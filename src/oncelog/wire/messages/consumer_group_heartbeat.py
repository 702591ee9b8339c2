"""ConsumerGroupHeartbeat: membership and assignment in one call (KIP-848)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, String, Struct, Uuid, field


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = EMPTY


class ConsumerGroupHeartbeatRequest(Struct, key=68, versions=(0, 1), flexible=0):
    """Fields that did not change are null or -1; member epoch -1 leaves."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    instance_id: String | None = None
    rack_id: String | None = None
    rebalance_timeout_ms: Int32 = -1
    subscribed_topic_names: list[String] | None = None
    subscribed_topic_regex: String | None = field(since=1, default=None)
    server_assignor: String | None = None
    topic_partitions: list[TopicPartitions] | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = EMPTY


class ConsumerGroupHeartbeatResponse(Struct, key=68, versions=(0, 1), flexible=0):
    """The assignment is null where it did not change."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
