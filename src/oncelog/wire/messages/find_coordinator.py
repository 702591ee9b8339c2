"""FindCoordinator: which broker serves a group or a transactional id."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct, field


class FindCoordinatorRequest(Struct, key=10, versions=(0, 6), flexible=3):
    """Key type 0 is a group, 1 a transactional id; v4+ asks for several keys."""

    key: String = field(until=3, default="")
    key_type: Int8 = field(since=1, default=0)
    coordinator_keys: list[String] = field(since=4, default=EMPTY)


class Coordinator(Struct):
    key: String = ""
    node_id: Int32 = 0
    host: String = ""
    port: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""


class FindCoordinatorResponse(Struct, key=10, versions=(0, 6), flexible=3):
    """Node -1 beside an error."""

    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    error_code: Int16 = field(until=3, default=0)
    error_message: String | None = field(since=1, until=3, ignorable=True, default="")
    node_id: Int32 = field(until=3, default=0)
    host: String = field(until=3, default="")
    port: Int32 = field(until=3, default=0)
    coordinators: list[Coordinator] = field(since=4, default=EMPTY)
