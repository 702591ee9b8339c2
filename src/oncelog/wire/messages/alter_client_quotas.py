"""AlterClientQuotas (KIP-546)."""

from oncelog.wire.schema import EMPTY, Bool, Float64, Int16, Int32, String, Struct


class EntityData(Struct):
    entity_type: String = ""
    entity_name: String | None = ""


class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class EntryData(Struct):
    entity: list[EntityData] = EMPTY
    ops: list[OpData] = EMPTY


class AlterClientQuotasRequest(Struct, key=49, versions=(0, 1), flexible=1):
    """Quotas to set or remove."""

    entries: list[EntryData] = EMPTY
    validate_only: Bool = False


class EntryDataResponse(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: list[EntityData] = EMPTY


class AlterClientQuotasResponse(Struct, key=49, versions=(0, 1), flexible=1):
    """One result per entity."""

    throttle_time_ms: Int32 = 0
    entries: list[EntryDataResponse] = EMPTY
