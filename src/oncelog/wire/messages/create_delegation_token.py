"""CreateDelegationToken (KIP-48)."""

from oncelog.wire.schema import EMPTY, Bytes, Int16, Int32, Int64, String, Struct, field


class CreatableRenewers(Struct):
    principal_type: String = ""
    principal_name: String = ""


class CreateDelegationTokenRequest(Struct, key=38, versions=(1, 3), flexible=2):
    """Whose token, and who may renew it."""

    owner_principal_type: String | None = field(since=3, default="")
    owner_principal_name: String | None = field(since=3, default="")
    renewers: list[CreatableRenewers] = EMPTY
    max_lifetime_ms: Int64 = 0


class CreateDelegationTokenResponse(Struct, key=38, versions=(1, 3), flexible=2):
    """The token."""

    error_code: Int16 = 0
    principal_type: String = ""
    principal_name: String = ""
    token_requester_principal_type: String = field(since=3, default="")
    token_requester_principal_name: String = field(since=3, default="")
    issue_timestamp_ms: Int64 = 0
    expiry_timestamp_ms: Int64 = 0
    max_timestamp_ms: Int64 = 0
    token_id: String = ""
    hmac: Bytes = b""
    throttle_time_ms: Int32 = 0
