"""Tokens as they may be and as attackers send them: read strictly, judged by literal times."""

from __future__ import annotations

import contextlib

import pytest
from evidence.world.identity_provider import encoded
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.json_web_token import (
    NAME_BYTES_MAX,
    TOKEN_BYTES_MAX,
    TokenInvalid,
    TokenRules,
    claimed_name,
    expiry_of,
    holder_of,
    parse_token,
    unsigned_token,
)

NOW_S = 1_800_000_000.0
GOOD = {"sub": "olga", "iss": "us", "aud": ["x", "oncelog"], "iat": NOW_S - 5, "exp": NOW_S + 60, "scope": "read"}
RULES = TokenRules(("RS256",), audiences=("oncelog",), issuer="us")


def token(claims, header=None):
    return f"{encoded(header or {'alg': 'RS256', 'kid': 'k'})}.{encoded(claims)}.{encoded(b'sig')}"


def holder(rules=RULES, **changes):
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not None}
    return holder_of(parse_token(token(claims)), rules, NOW_S)


def test_a_good_token():
    read = parse_token(token(GOOD))
    assert (read.algorithm, read.key_id, read.signature) == ("RS256", "k", b"sig")
    assert read.signed == token(GOOD).rpartition(".")[0].encode()
    found = holder_of(read, RULES, NOW_S)
    assert (found.user, found.expires_s) == ("olga", NOW_S + 60)
    assert "olga" not in repr(read)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": "oncelog"},
        {"scope": ["a", "b"]},
        {"scope": None},
        {"exp": NOW_S + 0.5},
        {"iat": NOW_S + 30, "nbf": NOW_S + 30},
        {"sub": "jürgen"},
        {"sub": " a b "},
    ],
)
def test_what_is_taken(changes):
    assert holder(**changes).user == changes.get("sub", "olga")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"exp": NOW_S}, "it has expired"),
        ({"exp": NOW_S - 10}, "it has expired"),  # within the skew: of a session nothing would be left
        ({"exp": None}, "exp is no time"),
        ({"exp": "1900000000"}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": 10**400}, "exp is no time"),
        ({"exp": [1]}, "exp is no time"),
        ({"iat": None}, "iat is no time"),
        ({"iat": NOW_S + 31}, "it was issued in the future"),
        ({"nbf": NOW_S + 31}, "it does not hold yet"),
        ({"nbf": "soon"}, "nbf is no time"),
        ({"iss": "them"}, "its issuer is not the expected one"),
        ({"iss": None}, "its issuer is not the expected one"),
        ({"iss": ["us"]}, "its issuer is not the expected one"),
        ({"aud": "other"}, "it is for another audience"),
        ({"aud": None}, "it is for another audience"),
        ({"aud": []}, "it is for another audience"),
        ({"aud": ["oncelog", 1]}, "aud is neither a text nor a list of texts"),
        ({"aud": {"oncelog": 1}}, "aud is neither a text nor a list of texts"),
        ({"sub": None}, "sub is no name"),
        ({"sub": ""}, "sub is no name"),
        ({"sub": " \t"}, "sub is no name"),
        ({"sub": 7}, "sub is no name"),
        ({"sub": ["olga"]}, "sub is no name"),
        ({"sub": "a\nb"}, "sub is no name"),
        ({"sub": "\ud800"}, "sub is no name"),
        ({"sub": "x" * (NAME_BYTES_MAX + 1)}, f"sub is longer than {NAME_BYTES_MAX} bytes"),
        ({"scope": 1}, "scope is neither a text nor a list of texts"),
    ],
)
def test_claims_that_are_refused(changes, reason):
    with pytest.raises(TokenInvalid, match=f"^{reason}$"):
        holder(**changes)


def test_other_names_of_claims():
    rules = TokenRules(("RS256",), sub_claim="client_id", scope_claim="scp")
    assert holder(rules, client_id="batch", scope=1).user == "batch"
    with pytest.raises(TokenInvalid, match="client_id is no name"):
        holder(rules)
    with pytest.raises(TokenInvalid, match="scp is neither"):
        holder(rules, client_id="batch", scp=7)
    assert claimed_name(parse_token(token(GOOD)), RULES) == "olga"
    assert claimed_name(parse_token(token(GOOD)), rules) == ""


def compact(header, payload, signature=""):
    return f"{encoded(header)}.{encoded(payload)}.{signature}"


RSA = {"alg": "RS256"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "..",
        "a.b",
        "a.b.c",
        "a.b.c.d.e",
        "not a token",
        compact(RSA, GOOD, "a+b/"),
        compact(RSA, GOOD, "YQ=="),
        compact(RSA, GOOD, "a"),
        compact(RSA, []),
        compact(RSA, "7"),
        compact('{"alg": "RS256"', GOOD),
        compact(b"{\xff}", GOOD),
        compact(RSA, '{"exp": NaN}'),
        compact(RSA, '{"exp": Infinity}'),
        compact(RSA, '{"sub": "a", "sub": "b"}'),
        compact(RSA, '{"x": {"y": 1, "y": 2}}'),
        compact('{"alg": "RS256", "alg": "none"}', GOOD),
        compact({"alg": None}, GOOD),
        compact({"alg": "RS256", "kid": 7}, GOOD),
        compact({"kid": "k"}, GOOD),
        compact({"alg": "RS256", "crit": ["exp"]}, GOOD),
        compact({"alg": "RS256", "b64": False}, GOOD),
        compact(RSA, "[" * 40_000),
        compact(RSA, '{"exp": ' + "9" * 10_000 + "}"),
        "a" * (TOKEN_BYTES_MAX + 1),
    ],
)
def test_texts_that_are_no_token(text):
    with pytest.raises(TokenInvalid) as raised:
        parse_token(text)
    assert "olga" not in str(raised.value)


def test_huge_numbers_are_no_time():
    text = compact(RSA, '{"sub": "a", "iat": 0, "exp": 1e400}')
    with pytest.raises(TokenInvalid, match="exp is no time"):
        holder_of(parse_token(text), TokenRules(("RS256",)), NOW_S)


def test_when_a_token_ends():
    assert expiry_of(token(GOOD)) == NOW_S + 60
    assert expiry_of(token({"sub": "a"})) is None
    assert expiry_of("opaque") is None
    assert parse_token(unsigned_token(GOOD)).claims == GOOD
    assert parse_token(unsigned_token(GOOD)).algorithm == "none"


@settings(max_examples=300)
@given(st.text(max_size=200) | st.builds(compact, st.binary(max_size=60), st.binary(max_size=60)))
def test_whatever_comes_is_a_token_or_not(text):
    with contextlib.suppress(TokenInvalid):
        assert parse_token(text).claims is not None
