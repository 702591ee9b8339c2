"""SyncGroup: the leader hands out assignments, everybody gets one."""

from oncelog.wire.schema import EMPTY, Bytes, Int16, Int32, String, Struct, field


class SyncGroupRequestAssignment(Struct):
    member_id: String = ""
    assignment: Bytes = b""


class SyncGroupRequest(Struct, key=14, versions=(0, 5), flexible=4):
    """Assignments come from the leader only."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(since=3, default=None)
    protocol_type: String | None = field(since=5, ignorable=True, default=None)
    protocol_name: String | None = field(since=5, ignorable=True, default=None)
    assignments: list[SyncGroupRequestAssignment] = EMPTY


class SyncGroupResponse(Struct, key=14, versions=(0, 5), flexible=4):
    """This member's assignment, as opaque bytes."""

    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    error_code: Int16 = 0
    protocol_type: String | None = field(since=5, ignorable=True, default=None)
    protocol_name: String | None = field(since=5, ignorable=True, default=None)
    assignment: Bytes = b""
