"""DescribeAcls."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct


class DescribeAclsRequest(Struct, key=29, versions=(1, 3), flexible=2):
    """A filter; null names match everything."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class AclDescription(Struct):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: list[AclDescription] = EMPTY


class DescribeAclsResponse(Struct, key=29, versions=(1, 3), flexible=2):
    """The matching rules."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: list[DescribeAclsResource] = EMPTY
