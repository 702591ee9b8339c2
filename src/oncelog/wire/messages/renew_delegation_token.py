"""RenewDelegationToken (KIP-48)."""

from oncelog.wire.schema import Bytes, Int16, Int32, Int64, Struct


class RenewDelegationTokenRequest(Struct, key=39, versions=(1, 2), flexible=2):
    """The token, by its HMAC."""

    hmac: Bytes = b""
    renew_period_ms: Int64 = 0


class RenewDelegationTokenResponse(Struct, key=39, versions=(1, 2), flexible=2):
    """Until when it holds."""

    error_code: Int16 = 0
    expiry_timestamp_ms: Int64 = 0
    throttle_time_ms: Int32 = 0
