"""IncrementalAlterConfigs: change single configuration keys (KIP-339)."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, String, Struct


class AlterableConfig(Struct):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class AlterConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[AlterableConfig] = EMPTY


class IncrementalAlterConfigsRequest(Struct, key=44, versions=(0, 1), flexible=1):
    """Operations: 0 set, 1 delete, 2 append, 3 subtract."""

    resources: list[AlterConfigsResource] = EMPTY
    validate_only: Bool = False


class AlterConfigsResourceResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsResponse(Struct, key=44, versions=(0, 1), flexible=1):
    """One result per resource."""

    throttle_time_ms: Int32 = 0
    responses: list[AlterConfigsResourceResponse] = EMPTY
