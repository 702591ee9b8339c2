"""DeleteGroups."""

from oncelog.wire.schema import EMPTY, Int16, Int32, String, Struct


class DeleteGroupsRequest(Struct, key=42, versions=(0, 2), flexible=2):
    """The groups to delete; they must be empty."""

    groups_names: list[String] = EMPTY


class DeletableGroupResult(Struct):
    group_id: String = ""
    error_code: Int16 = 0


class DeleteGroupsResponse(Struct, key=42, versions=(0, 2), flexible=2):
    """One result per group."""

    throttle_time_ms: Int32 = 0
    results: list[DeletableGroupResult] = EMPTY
