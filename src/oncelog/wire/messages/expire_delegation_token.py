"""ExpireDelegationToken (KIP-48)."""

from oncelog.wire.schema import Bytes, Int16, Int32, Int64, Struct


class ExpireDelegationTokenRequest(Struct, key=40, versions=(1, 2), flexible=2):
    """The token, by its HMAC."""

    hmac: Bytes = b""
    expiry_time_period_ms: Int64 = 0


class ExpireDelegationTokenResponse(Struct, key=40, versions=(1, 2), flexible=2):
    """When it ends."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
