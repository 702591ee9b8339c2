"""PushTelemetry: a client's metrics as OpenTelemetry's MetricsData (KIP-714)."""

from oncelog.wire.schema import ZERO_UUID, Bool, Bytes, Int8, Int16, Int32, Struct, Uuid


class PushTelemetryRequest(Struct, key=72, versions=(0, 0), flexible=0):
    """`terminating`: the client's last push."""

    client_instance_id: Uuid = ZERO_UUID
    subscription_id: Int32 = 0
    terminating: Bool = False
    compression_type: Int8 = 0
    metrics: Bytes = b""


class PushTelemetryResponse(Struct, key=72, versions=(0, 0), flexible=0):
    """Whether it was taken."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
