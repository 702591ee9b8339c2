"""ShareGroupHeartbeat: membership and assignment of a share group in one call (KIP-932)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Int16, Int32, String, Struct, Uuid


class ShareGroupHeartbeatRequest(Struct, key=76, versions=(1, 1), flexible=0):
    """Fields that did not change are null; member epoch -1 leaves."""

    group_id: String = ""
    member_id: String = ""
    member_epoch: Int32 = 0
    rack_id: String | None = None
    subscribed_topic_names: list[String] | None = None


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    partitions: list[Int32] = EMPTY


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = EMPTY


class ShareGroupHeartbeatResponse(Struct, key=76, versions=(1, 1), flexible=0):
    """The assignment is null where it did not change."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    member_id: String | None = None
    member_epoch: Int32 = 0
    heartbeat_interval_ms: Int32 = 0
    assignment: Assignment | None = None
