"""OAUTHBEARER between our two sides, and what a client does not send."""

from __future__ import annotations

import pytest

from oncelog.core.json_web_token import TOKEN_BYTES_MAX
from oncelog.core.login.oauthbearer import BearerInvalid, BearerLogin
from oncelog.core.sasl.exchange import Challenge, Proven, Refused
from oncelog.core.sasl.oauthbearer import BearerExchange, NotVerified, Verified, parse_client_message


def test_both_sides():
    server = BearerExchange(lambda token: Verified("olga", 1_000) if token == "good" else NotVerified("no"))
    login = BearerLogin("good", {"trace": "a b"})
    assert parse_client_message(login.first()).extensions == {"trace": "a b"}
    assert server.respond(login.first()) == Proven("olga", lifetime_ms=1_000)
    assert login.next(b"") is None


def test_a_refusal_is_taken_note_of():
    server = BearerExchange(lambda _token: NotVerified("no"))
    login = BearerLogin("bad", {})
    challenge = server.respond(login.first())
    assert isinstance(challenge, Challenge)
    assert isinstance(server.respond(login.next(challenge.token)), Refused)


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "a\n", "é", "=", "t" * (TOKEN_BYTES_MAX + 1)])
def test_what_is_no_token_is_not_sent(token):
    with pytest.raises(BearerInvalid) as refused:
        BearerLogin(token, {})
    assert repr(token) not in str(refused.value)


@pytest.mark.parametrize(
    "extensions", [{"auth": "x"}, {"Auth": "x"}, {"a1": "x"}, {"": "x"}, {"a": ""}, {"a": "x\x01"}]
)
def test_extensions_that_are_not_sent(extensions):
    with pytest.raises(BearerInvalid, match="extension"):
        BearerLogin("good", extensions)
