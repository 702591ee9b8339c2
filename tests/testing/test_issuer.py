"""Tokens for tests are believed by the file beside them, and only so long."""

from __future__ import annotations

import pathlib

from oncelog.core.json_web_token import parse_token
from oncelog.host.json_web_keys import GOOD, JsonWebKeys
from oncelog.testing.issuer import TestIssuer


def test_a_token(tmp_path: pathlib.Path) -> None:
    issuer = TestIssuer(str(tmp_path))
    token = parse_token(issuer.token("olga", 60))
    assert (token.claims["sub"], token.claims["exp"] - token.claims["iat"]) == ("olga", 60)
    keys = JsonWebKeys.parse(pathlib.Path(issuer.keys_file).read_bytes())
    assert keys.verdict(token.algorithm, token.key_id, token.signed, token.signature) == GOOD
    assert b'"d"' not in pathlib.Path(issuer.keys_file).read_bytes()
