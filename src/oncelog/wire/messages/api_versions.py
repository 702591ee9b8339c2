"""ApiVersions: which APIs and features a broker has. Its response header is always version 0."""

from oncelog.wire.schema import EMPTY, Bool, Int16, Int32, Int64, String, Struct, field


class ApiVersionsRequest(Struct, key=18, versions=(0, 4), flexible=3):
    """v3 names the client's software (KIP-511)."""

    client_software_name: String = field(since=3, ignorable=True, default="")
    client_software_version: String = field(since=3, ignorable=True, default="")


class ApiVersion(Struct):
    api_key: Int16 = 0
    min_version: Int16 = 0
    max_version: Int16 = 0


class SupportedFeatureKey(Struct):
    name: String = ""
    min_version: Int16 = 0
    max_version: Int16 = 0


class FinalizedFeatureKey(Struct):
    name: String = ""
    max_version_level: Int16 = 0
    min_version_level: Int16 = 0


class ApiVersionsResponse(Struct, key=18, versions=(0, 4), flexible=3):
    """Finalized `transaction.version` >= 2 turns on the protocol of KIP-890 in clients."""

    error_code: Int16 = 0
    api_keys: list[ApiVersion] = EMPTY
    throttle_time_ms: Int32 = field(since=1, ignorable=True, default=0)
    supported_features: list[SupportedFeatureKey] = field(since=3, tag=0, ignorable=True, default=EMPTY)
    finalized_features_epoch: Int64 = field(since=3, tag=1, ignorable=True, default=-1)
    finalized_features: list[FinalizedFeatureKey] = field(since=3, tag=2, ignorable=True, default=EMPTY)
    zk_migration_ready: Bool = field(since=3, tag=3, ignorable=True, default=False)
