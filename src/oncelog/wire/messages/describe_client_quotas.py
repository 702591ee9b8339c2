"""DescribeClientQuotas (KIP-546)."""

from oncelog.wire.schema import EMPTY, Bool, Float64, Int8, Int16, Int32, String, Struct


class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasRequest(Struct, key=48, versions=(0, 1), flexible=1):
    """Entity filters."""

    components: list[ComponentData] = EMPTY
    strict: Bool = False


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0


class EntryData(Struct):
    entity: list[EntityData] = EMPTY
    values: list[ValueData] = EMPTY


class DescribeClientQuotasResponse(Struct, key=48, versions=(0, 1), flexible=1):
    """Quotas by entity; null entries where nothing matches."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: list[EntryData] | None = EMPTY
