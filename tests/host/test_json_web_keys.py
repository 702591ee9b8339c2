"""Key sets as providers publish them, and as attackers would like them; signatures of every algorithm."""

from __future__ import annotations

import json

import pytest
from evidence.world.identity_provider import claims, encoded, key, key_set, public, signed

from oncelog.core.json_web_token import parse_token
from oncelog.host.json_web_keys import (
    ALGORITHMS,
    GOOD,
    KEYS_MAX,
    KEYS_TRIED_MAX,
    NO_KEY,
    UNKNOWN_KEY,
    WRONG,
    JsonWebKeys,
    KeysInvalid,
)


def verdict(keys, text):
    token = parse_token(text)
    return JsonWebKeys.parse(key_set(*keys)).verdict(token.algorithm, token.key_id, token.signed, token.signature)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm(algorithm):
    kind = algorithm if algorithm.startswith("ES") else "RS256"
    keys = [public("other"), public("first", kind)]
    text = signed(algorithm=algorithm)
    assert verdict(keys, text) == GOOD
    header, _, signature = text.split(".")
    assert verdict(keys, f"{text[:-8]}AAAAAAAA") == WRONG
    assert verdict(keys, f"{header}.{encoded(claims(sub='admin'))}.{signature}") == WRONG
    assert verdict(keys, text.removesuffix(signature)) == WRONG
    assert verdict([public("first", "ES256" if kind != "ES256" else "ES384")], text) == NO_KEY


def test_which_key_is_taken():
    assert verdict([public("first"), public("other")], signed(name="first")) == GOOD
    assert verdict([public("first"), public("other")], signed(name="other", with_key=key("first"))) == WRONG
    assert verdict([public("first")], signed(name="other")) == UNKNOWN_KEY
    unnamed = {"kid": None}
    assert verdict([public("other"), public("first")], signed(header=unnamed)) == GOOD
    assert verdict([public("other")], signed(header=unnamed)) == WRONG
    twice = [public("other", kid="same"), public("first", kid="same")]
    assert verdict(twice, signed(header={"kid": "same"})) == GOOD, "a provider that gives two keys one name"
    many = [public("other", kid=f"k{at}") for at in range(KEYS_TRIED_MAX)]
    assert verdict([*many, public("first")], signed(header=unnamed)) == WRONG, "not all are tried"
    assert verdict([public("first", alg="RS512")], signed()) == NO_KEY
    assert verdict([public("first", alg="RS256", use="sig", key_ops=["verify"])], signed()) == GOOD


@pytest.mark.parametrize(
    "members",
    [
        {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"},
        {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "RSA", "n": "AQAB", "e": "AQAB"},
        {"kty": "RSA", "n": 7, "e": "AQAB"},
        {"kty": None},
        {"kty": ["RSA"]},
        public("first", use="enc"),
        public("first", key_ops=["sign"]),
        public("first", key_ops="verify"),
        public("first", alg="HS256"),
        public("first", alg="none"),
        public("first", kid=7),
        {"kty": "RSA", "n": encoded(b"\x81" * 128), "e": "AQAB"},
        {"kty": "RSA", "n": encoded(b"\x81" * 2048), "e": "AQAB"},
    ],
)
def test_keys_that_are_left_out(members):
    assert len(JsonWebKeys.parse(key_set(members, public()))) == 1
    with pytest.raises(KeysInvalid, match="no key for signatures"):
        JsonWebKeys.parse(key_set(members))


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"{}", b'{"keys": {}}', b'{"keys": []}', b'{"keys": [7]}', b"[" * 100_000, b"\xff", b"<html>"]
)
def test_documents_that_are_none(text):
    with pytest.raises(KeysInvalid):
        JsonWebKeys.parse(text)


def test_a_set_is_bounded():
    with pytest.raises(KeysInvalid, match="101 keys"):
        JsonWebKeys.parse(key_set(*[public()] * (KEYS_MAX + 1)))


def test_private_parts_stay_out():
    """A provider that publishes its private key by mistake: signatures are checked, and nothing of it is kept."""
    private = key().as_dict(private=True)
    keys = JsonWebKeys.parse(key_set({**private, "kid": "first"}))
    assert all(not each.key.is_private for each in keys._keys)
    assert private["d"] not in repr(keys._keys)
    assert json.loads(key_set({**private, "kid": "first"}))["keys"][0]["d"] == private["d"]


def test_no_secret_is_made_of_a_public_key():
    """The oldest of all: HMAC with the public key as its secret."""
    pem = key().as_pem(private=False)
    text = signed(algorithm="HS256", with_key=pem)
    token = parse_token(text)
    with pytest.raises(AssertionError):
        JsonWebKeys.parse(key_set()).verdict(token.algorithm, "", token.signed, token.signature)
