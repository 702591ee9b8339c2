"""SaslAuthenticate: one step of an authentication, after SaslHandshake v1."""

from oncelog.wire.schema import Bytes, Int16, Int64, String, Struct, field


class SaslAuthenticateRequest(Struct, key=36, versions=(0, 2), flexible=2):
    """The client's token."""

    auth_bytes: Bytes = b""


class SaslAuthenticateResponse(Struct, key=36, versions=(0, 2), flexible=2):
    """The server's token; v1 tells how long the session lives (KIP-368)."""

    error_code: Int16 = 0
    error_message: String | None = ""
    auth_bytes: Bytes = b""
    session_lifetime_ms: Int64 = field(since=1, ignorable=True, default=0)
