"""ShareGroupDescribe: share groups with their members (KIP-932)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int16, Int32, String, Struct, Uuid


class ShareGroupDescribeRequest(Struct, key=77, versions=(1, 1), flexible=0):
    """The groups asked for."""

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
    rack_id: String | None = None
    member_epoch: Int32 = 0
    client_id: String = ""
    client_host: String = ""
    subscribed_topic_names: list[String] = EMPTY
    assignment: Assignment = Assignment()


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = None
    group_id: String = ""
    group_state: String = ""
    group_epoch: Int32 = 0
    assignment_epoch: Int32 = 0
    assignor_name: String = ""
    members: list[Member] = EMPTY
    authorized_operations: Int32 = -2147483648


class ShareGroupDescribeResponse(Struct, key=77, versions=(1, 1), flexible=0):
    """One result per group."""

    throttle_time_ms: Int32 = 0
    groups: list[DescribedGroup] = EMPTY
