"""SaslHandshake: agree on a mechanism. After v0, raw tokens follow without Kafka headers."""

from oncelog.wire.schema import EMPTY, Int16, String, Struct


class SaslHandshakeRequest(Struct, key=17, versions=(0, 1)):
    """The mechanism that the client wants."""

    mechanism: String = ""


class SaslHandshakeResponse(Struct, key=17, versions=(0, 1)):
    """The mechanisms that there are."""

    error_code: Int16 = 0
    mechanisms: list[String] = EMPTY
