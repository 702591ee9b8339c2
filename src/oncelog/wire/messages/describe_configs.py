"""DescribeConfigs: configuration of topics, brokers and groups."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, String, Struct, field


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: list[String] | None = EMPTY


class DescribeConfigsRequest(Struct, key=32, versions=(1, 4), flexible=4):
    """Null keys ask for all of them."""

    resources: list[DescribeConfigsResource] = EMPTY
    include_synonyms: Bool = False
    include_documentation: Bool = field(since=3, default=False)


class DescribeConfigsSynonym(Struct):
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: list[DescribeConfigsSynonym] = EMPTY
    config_type: Int8 = field(since=3, ignorable=True, default=0)
    documentation: String | None = field(since=3, ignorable=True, default="")


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: list[DescribeConfigsResourceResult] = EMPTY


class DescribeConfigsResponse(Struct, key=32, versions=(1, 4), flexible=4):
    """Sources of values are Kafka's `ConfigSource` numbers."""

    throttle_time_ms: Int32 = 0
    results: list[DescribeConfigsResult] = EMPTY
