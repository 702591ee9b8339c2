"""JoinGroup: become a member, agree on a protocol."""

from oncelog.wire.schema import EMPTY, Bool, Bytes, Int16, Int32, String, Struct, field


class JoinGroupRequestProtocol(Struct):
    name: String = ""
    metadata: Bytes = b""


class JoinGroupRequest(Struct, key=11, versions=(0, 9), flexible=6):
    """A member without an id is told one first (KIP-394); `group_instance_id` makes it static (KIP-345)."""

    group_id: String = ""
    session_timeout_ms: Int32 = 0
    rebalance_timeout_ms: Int32 = field(since=1, ignorable=True, default=-1)
    member_id: String = ""
    group_instance_id: String | None = field(since=5, default=None)
    protocol_type: String = ""
    protocols: list[JoinGroupRequestProtocol] = EMPTY
    reason: String | None = field(since=8, ignorable=True, default=None)


class JoinGroupResponseMember(Struct):
    member_id: String = ""
    group_instance_id: String | None = field(since=5, ignorable=True, default=None)
    metadata: Bytes = b""


class JoinGroupResponse(Struct, key=11, versions=(0, 9), flexible=6):
    """Only the leader gets `members`."""

    throttle_time_ms: Int32 = field(since=2, ignorable=True, default=0)
    error_code: Int16 = 0
    generation_id: Int32 = -1
    protocol_type: String | None = field(since=7, ignorable=True, default=None)
    protocol_name: String | None = field(nullable_since=7, default="")
    leader: String = ""
    skip_assignment: Bool = field(since=9, default=False)
    member_id: String = ""
    members: list[JoinGroupResponseMember] = EMPTY
