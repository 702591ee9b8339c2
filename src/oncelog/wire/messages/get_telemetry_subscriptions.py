"""GetTelemetrySubscriptions: which metrics a client is to push, and how often (KIP-714)."""

from oncelog.wire.schema import EMPTY, ZERO_UUID, Bool, Int8, Int16, Int32, String, Struct, Uuid


class GetTelemetrySubscriptionsRequest(Struct, key=71, versions=(0, 0), flexible=0):
    """The zero id asks for a new one."""

    client_instance_id: Uuid = ZERO_UUID


class GetTelemetrySubscriptionsResponse(Struct, key=71, versions=(0, 0), flexible=0):
    """`requested_metrics` are prefixes; none: nothing is to be pushed, "*": everything."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    accepted_compression_types: list[Int8] = EMPTY
    push_interval_ms: Int32 = 0
    telemetry_max_bytes: Int32 = 0
    delta_temporality: Bool = False
    requested_metrics: list[String] = EMPTY
