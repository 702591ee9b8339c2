"""CreateAcls."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Struct, key=30, versions=(1, 3), flexible=2):
    """The rules to add."""

    creations: list[AclCreation] = EMPTY


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""


class CreateAclsResponse(Struct, key=30, versions=(1, 3), flexible=2):
    """One result per rule."""

    throttle_time_ms: Int32 = 0
    results: list[AclCreationResult] = EMPTY
