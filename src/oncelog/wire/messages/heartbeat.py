"""Heartbeat: stay a member."""

from oncelog.wire.schema import Int16, Int32, String, Struct, field


class HeartbeatRequest(Struct, key=12, versions=(0, 4), flexible=4):
    """One sign of life."""

    group_id: String = ""
    generation_id: Int32 = 0
    member_id: String = ""
    group_instance_id: String | None = field(since=3, default=None)


class HeartbeatResponse(Struct, key=12, versions=(0, 4), flexible=4):
    """REBALANCE_IN_PROGRESS asks the member to join again."""

    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    error_code: Int16 = 0
