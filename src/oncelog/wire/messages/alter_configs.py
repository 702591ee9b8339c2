"""AlterConfigs: replace a whole configuration. IncrementalAlterConfigs (KIP-339) changes parts of it."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, String, Struct


class AlterableConfig(Struct):
    name: String = ""
    value: String | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = EMPTY


class AlterConfigsRequest(Struct, key=33, versions=(0, 2), flexible=2):
    """What is not listed falls back to its default."""

    resources: list[AlterConfigsResource] = EMPTY
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class AlterConfigsResponse(Struct, key=33, versions=(0, 2), flexible=2):
    """One result per resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = EMPTY
