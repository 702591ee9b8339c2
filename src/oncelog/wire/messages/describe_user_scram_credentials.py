"""DescribeUserScramCredentials (KIP-554)."""

from oncelog.wire.schema import EMPTY, Int8, Int16, Int32, String, Struct


class UserName(Struct):
    name: String = ""


class DescribeUserScramCredentialsRequest(Struct, key=50, versions=(0, 0), flexible=0):
    """Null or no users ask for all of them."""

    users: list[UserName] | None = EMPTY


class CredentialInfo(Struct):
    mechanism: Int8 = 0
    iterations: Int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
    credential_infos: list[CredentialInfo] = EMPTY


class DescribeUserScramCredentialsResponse(Struct, key=50, versions=(0, 0), flexible=0):
    """Mechanisms and iterations, never the secrets."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: list[DescribeUserScramCredentialsResult] = EMPTY
