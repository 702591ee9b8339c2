"""DescribeGroups: state and members of classic groups."""

from oncelog.wire.schema import EMPTY, Bool, Bytes, Int16, Int32, String, Struct, field


class DescribeGroupsRequest(Struct, key=15, versions=(0, 6), flexible=5):
    """Which groups."""

    groups: list[String] = EMPTY
    include_authorized_operations: Bool = field(since=3, default=False)


class DescribedGroupMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(since=4, ignorable=True, default=None)
    client_id: String = ""
    client_host: String = ""
    member_metadata: Bytes = b""
    member_assignment: Bytes = b""


class DescribedGroup(Struct):
    error_code: Int16 = 0
    error_message: String | None = field(since=6, default=None)
    group_id: String = ""
    group_state: String = ""
    protocol_type: String = ""
    protocol_data: String = ""
    members: list[DescribedGroupMember] = EMPTY
    authorized_operations: Int32 = field(since=3, default=-(1 << 31))


class DescribeGroupsResponse(Struct, key=15, versions=(0, 6), flexible=5):
    """One description per group."""

    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    groups: list[DescribedGroup] = EMPTY
