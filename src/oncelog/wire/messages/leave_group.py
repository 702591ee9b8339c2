"""LeaveGroup: end memberships, from v3 of several members."""

from oncelog.wire.schema import EMPTY, Int16, Int32, String, Struct, field


class MemberIdentity(Struct):
    member_id: String = ""
    group_instance_id: String | None = None
    reason: String | None = field(since=5, ignorable=True, default=None)


class LeaveGroupRequest(Struct, key=13, versions=(0, 5), flexible=4):
    """The members that leave."""

    group_id: String = ""
    member_id: String = field(until=2, default="")
    members: list[MemberIdentity] = field(since=3, default=EMPTY)


class MemberResponse(Struct):
    member_id: String = ""
    group_instance_id: String | None = ""
    error_code: Int16 = 0


class LeaveGroupResponse(Struct, key=13, versions=(0, 5), flexible=4):
    """One result per member (v3+)."""

    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    error_code: Int16 = 0
    members: list[MemberResponse] = field(since=3, default=EMPTY)
