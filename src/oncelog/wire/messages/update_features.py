"""UpdateFeatures: finalize feature levels such as `transaction.version` (KIP-584)."""

from oncelog.wire.schema import EMPTY, Bool, Int8, Int16, Int32, String, Struct, field


class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = field(until=0, default=False)
    upgrade_type: Int8 = field(since=1, default=1)


class UpdateFeaturesRequest(Struct, key=57, versions=(0, 2), flexible=0):
    """Upgrade type 1 upgrades, 2 downgrades safely, 3 unsafely."""

    timeout_ms: Int32 = 60000
    feature_updates: list[FeatureUpdateKey] = EMPTY
    validate_only: Bool = field(since=1, default=False)


class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class UpdateFeaturesResponse(Struct, key=57, versions=(0, 2), flexible=0):
    """Results per feature in v0 and v1 only."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[UpdatableFeatureResult] = field(until=1, ignorable=True, default=EMPTY)
