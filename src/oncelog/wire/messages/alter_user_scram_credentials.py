"""AlterUserScramCredentials (KIP-554)."""

from oncelog.wire.schema import EMPTY, Bytes, Int8, Int16, Int32, String, Struct


class ScramCredentialDeletion(Struct):
    name: String = ""
    mechanism: Int8 = 0


class ScramCredentialUpsertion(Struct):
    name: String = ""
    mechanism: Int8 = 0
    iterations: Int32 = 0
    salt: Bytes = b""
    salted_password: Bytes = b""


class AlterUserScramCredentialsRequest(Struct, key=51, versions=(0, 0), flexible=0):
    """Credentials to remove and to set."""

    deletions: list[ScramCredentialDeletion] = EMPTY
    upsertions: list[ScramCredentialUpsertion] = EMPTY


class AlterUserScramCredentialsResult(Struct):
    user: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""


class AlterUserScramCredentialsResponse(Struct, key=51, versions=(0, 0), flexible=0):
    """One result per user."""

    throttle_time_ms: Int32 = 0
    results: list[AlterUserScramCredentialsResult] = EMPTY
