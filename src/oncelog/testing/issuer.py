"""Who gives tokens in tests: a key of one process, its public half in a file. Needs `joserfc` (the extra `security`)."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from oncelog.host.clock import RealClock

LIFETIME_S = 3_600
KEY_ID = "test"


class TestIssuer:
    """Signs tokens for any name. Tests that want short ones say so."""

    __test__ = False

    def __init__(self, directory: str) -> None:
        from joserfc.jwk import ECKey

        self._key = ECKey.generate_key("P-256")
        path = Path(directory) / "keys.json"
        path.write_text(json.dumps({"keys": [{**self._key.as_dict(private=False), "kid": KEY_ID}]}), encoding="ascii")
        self.keys_file = str(path)

    def token(self, user: str, lifetime_s: float = LIFETIME_S) -> str:
        """A token that holds from now on."""
        from joserfc.jws import JWSRegistry

        now_s = RealClock().now_ms() / 1000
        parts = ({"alg": "ES256", "kid": KEY_ID}, {"sub": user, "iat": now_s, "exp": now_s + lifetime_s})
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_encoded(JWSRegistry.algorithms['ES256'].sign(signed.encode(), self._key))}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
