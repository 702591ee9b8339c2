"""DeleteAcls."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsRequest(Struct, key=31, versions=(1, 3), flexible=2):
    """Filters; every rule that matches one of them goes."""

    filters: list[DeleteAclsFilter] = EMPTY


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = EMPTY


class DeleteAclsResponse(Struct, key=31, versions=(1, 3), flexible=2):
    """The rules that went."""

    throttle_time_ms: Int32 = 0
    filter_results: list[DeleteAclsFilterResult] = EMPTY
