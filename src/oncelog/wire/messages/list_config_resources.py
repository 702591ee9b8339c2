"""ListConfigResources: names of things that have a configuration (v0 was ListClientMetricsResources)."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct, field


class ListConfigResourcesRequest(Struct, key=74, versions=(0, 1), flexible=0):
    """Types of resources; none asks for all."""

    resource_types: list[Int8] = field(since=1, default=EMPTY)


class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = field(since=1, ignorable=True, default=16)


class ListConfigResourcesResponse(Struct, key=74, versions=(0, 1), flexible=0):
    """Names and types."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: list[ConfigResource] = EMPTY
