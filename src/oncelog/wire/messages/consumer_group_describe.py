"""ConsumerGroupDescribe: groups of the new protocol (KIP-848)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int8, Int16, Int32, String, Struct, Uuid, field


class ConsumerGroupDescribeRequest(Struct, key=69, versions=(0, 1), flexible=0):
    """Which groups."""

    group_ids: list[String] = EMPTY
    include_authorized_operations: Bool = False


class TopicPartitions(Struct):
    topic_id: Uuid = ZERO_UUID
    topic_name: String = ""
    partitions: list[Int32] = EMPTY


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = EMPTY


class Member(Struct):
    member_id: String = ""
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = EMPTY
    subscribed_topic_regex: String | None = None
    assignment: Assignment = Assignment()
    target_assignment: Assignment = Assignment()
    member_type: Int8 = field(since=1, ignorable=True, default=-1)


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = EMPTY
    authorized_operations: Int32 = -(1 << 31)


class ConsumerGroupDescribeResponse(Struct, key=69, versions=(0, 1), flexible=0):
    """Members with their present and target assignments."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = EMPTY
