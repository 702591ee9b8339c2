"""DescribeDelegationToken (KIP-48)."""

from oncelog.wire.schema import EMPTY, Bytes, Int16, Int32, Int64, String, Struct, field


class DescribeDelegationTokenOwner(Struct):
    principal_type: String = ""
    principal_name: String = ""


class DescribeDelegationTokenRequest(Struct, key=41, versions=(1, 3), flexible=2):
    """Null owners ask for all tokens."""

    owners: list[DescribeDelegationTokenOwner] | None = EMPTY


class DescribedDelegationTokenRenewer(Struct):
    principal_type: String = ""
    principal_name: String = ""


class DescribedDelegationToken(Struct):
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp: Int64 = 0
    expiry_timestamp: Int64 = 0
    max_timestamp: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = EMPTY


class DescribeDelegationTokenResponse(Struct, key=41, versions=(1, 3), flexible=2):
    """The tokens."""

    error_code: Int16 = 0
    tokens: list[DescribedDelegationToken] = EMPTY
    throttle_time_ms: Int32 = 0
