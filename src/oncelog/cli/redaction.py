"""What may leave a cluster in a report: settings without what could be secret. In doubt a value is hidden."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "(hidden)"
_NAME = re.compile(
    r"pass|secret|jaas|credential|token|\bkey\b|[._-]key([._-]|$)|private|certificate|auth", re.IGNORECASE
)
_URL_USER = re.compile(r"(?<=://)[^/\s@]*@")
_VALUE = re.compile(r"(pass\w*|secret|token|\bkey|credential\w*)\s*[=:]\s*\S|-----BEGIN|LoginModule", re.IGNORECASE)
# Of a client's own settings only these are told with their values: whatever else there is, is named only.
CLIENT_KEYS_TOLD = frozenset(
    (
        *("bootstrap.servers", "client.id", "security.protocol", "sasl.mechanism", "client.dns.lookup"),
        *("default.api.timeout.ms", "request.timeout.ms", "metadata.max.age.ms", "retry.backoff.ms"),
        *("ssl.endpoint.identification.algorithm", "ssl.protocol", "isolation.level", "group.protocol"),
    )
)


def setting_told(name: str, value: str | None, *, is_sensitive: bool = False) -> str | None:
    """A broker's or topic's setting: hidden where the broker, its name or its value says that it may be secret."""
    if value is None or value == "":
        return value
    if is_sensitive or _NAME.search(name) or _VALUE.search(value):
        return HIDDEN
    return _URL_USER.sub(f"{HIDDEN}@", value)


def client_settings_told(config: Mapping[str, object]) -> dict[str, str]:
    """A client's settings: all names, and the values that are known to be harmless."""
    return {
        key: setting_told(key, str(value)) or "" if key in CLIENT_KEYS_TOLD else HIDDEN for key, value in config.items()
    }
