"""ListGroups: the groups of one coordinator."""

from oncelog.wire.schema import EMPTY, Int16, Int32, String, Struct, field


class ListGroupsRequest(Struct, key=16, versions=(0, 5), flexible=3):
    """Filters by state (v4) and type (v5)."""

    states_filter: list[String] = field(since=4, default=EMPTY)
    types_filter: list[String] = field(since=5, default=EMPTY)


class ListedGroup(Struct):
    group_id: String = ""
    protocol_type: String = ""
    group_state: String = field(since=4, ignorable=True, default="")
    group_type: String = field(since=5, ignorable=True, default="")


class ListGroupsResponse(Struct, key=16, versions=(0, 5), flexible=3):
    """Names, protocols, states."""

    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    error_code: Int16 = 0
    groups: list[ListedGroup] = EMPTY
