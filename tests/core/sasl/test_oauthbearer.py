"""OAUTHBEARER's messages, between our two sides and as strangers send them."""

from __future__ import annotations

import pytest
from evidence.world.identity_provider import message
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.sasl.connection import Mechanism, SaslConnection, State
from oncelog.core.sasl.exchange import Challenge, Proven, Refused
from oncelog.core.sasl.oauthbearer import (
    DOCUMENT,
    INVALID,
    MESSAGE_BYTES_MAX,
    BearerExchange,
    BearerMessageInvalid,
    NotVerified,
    Verified,
    parse_client_message,
)

TOKENS = {"good.to.ken": Verified("olga", 60_000)}


def exchange():
    return BearerExchange(lambda token: TOKENS.get(token, NotVerified("its signature is wrong", "mallory")))


def test_a_good_token_is_proof_enough():
    assert exchange().respond(message("good.to.ken")) == Proven("olga", lifetime_ms=60_000)
    assert exchange().respond(message("good.to.ken", name="olga")) == Proven("olga", lifetime_ms=60_000)


def test_a_refusal_takes_two_steps():
    server = exchange()
    assert server.respond(message("bad")) == Challenge(DOCUMENT.encode())
    assert server.respond(b"\x01") == Refused(DOCUMENT, "token: its signature is wrong", "mallory")


@pytest.mark.parametrize("second", [message("good.to.ken"), b"", b"\x01\x01", b"n,,\x01\x01"])
def test_behind_a_refused_token_nothing_else_is_taken(second):
    """Apache Kafka takes another token there, any number of them without a delay."""
    server = exchange()
    server.respond(message("bad"))
    assert server.respond(second) == Refused(INVALID, "another message behind a refused token")


def test_the_first_message_may_be():
    for text in (b"n,,\x01auth=Bearer t\x01\x01", b"n,,\x01auth=bEaReR   t\x01\x01"):
        assert parse_client_message(text).token == "t"
    read = parse_client_message(b"n,a=x=2Cy=3Dz,\x01trace=a b\t\r\n\x01auth=Bearer a.b-_~+/9==\x01k=v=w\x01\x01")
    assert (read.authorization_id, read.token) == ("x,y=z", "a.b-_~+/9==")
    assert read.extensions == {"trace": "a b\t\r\n", "k": "v=w"}
    assert "a.b" not in repr(read)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01",
        b"n,,\x01\x01",
        b"n,,\x01\x01\x01",
        b"y,,\x01auth=Bearer t\x01\x01",
        b"p=tls-unique,,\x01auth=Bearer t\x01\x01",
        b"n,\x01auth=Bearer t\x01\x01",
        b"n,a=,\x01auth=Bearer t\x01\x01",
        b"n,a=x=y,\x01auth=Bearer t\x01\x01",
        b"n,b=x,\x01auth=Bearer t\x01\x01",
        b"n,,\x01auth=Basic t\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"n,,\x01auth=Bearer t\x01",
        b"n,,\x01auth=Bearer t",
        b"n,,\x01auth=Bearer t\x01auth=Bearer u\x01\x01",
        b"n,,\x01auth=Bearer t\x01k=v\x01k=v\x01\x01",
        b"n,,\x01auth=Bearer t\x01k1=v\x01\x01",
        b"n,,\x01auth=Bearer t\x01k\x01\x01",
        b"n,,\x01auth=Bearer t\x01k=\x01\x01",
        b"n,,\x01host=x\x01\x01",
        b"n,,\x01auth=Bearer t\x00\x01\x01",
        "n,,\x01auth=Bearer é\x01\x01".encode(),
        b"n,,\x01auth=Bearer t\x01\x01\x01",
        b"n,,\x01auth=Bearer " + b"t" * MESSAGE_BYTES_MAX + b"\x01\x01",
    ],
)
def test_a_first_message_that_is_refused(text):
    with pytest.raises(BearerMessageInvalid):
        parse_client_message(text)
    refused = exchange().respond(text)
    assert isinstance(refused, Refused)
    assert refused.words == INVALID


def test_nobody_speaks_for_somebody_else():
    refused = exchange().respond(message("good.to.ken", name="admin"))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.user) == ("another authorization id", "olga")


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=120), max_size=3))
def test_nothing_that_is_sent_raises_or_proves(messages):
    server = exchange()
    for each in messages:
        outcome = server.respond(each)
        assert not isinstance(outcome, Proven)
        if isinstance(outcome, Refused):
            break


@pytest.mark.parametrize(("session_ms", "lifetime_ms"), [(0, 60_000), (90_000, 60_000), (20_000, 20_000)])
def test_a_session_is_no_longer_than_its_token(session_ms, lifetime_ms):
    connection = SaslConnection({"OAUTHBEARER": Mechanism(exchange, session_ms)})
    connection.handshake(1, "OAUTHBEARER", 1_000.0)
    step = connection.authenticate(2, message("good.to.ken"), 1_000.0)
    assert step.reply.session_lifetime_ms == lifetime_ms
    assert connection.may_ask(1_000.0 + lifetime_ms)
    assert not connection.may_ask(1_001.0 + lifetime_ms)
    assert connection.state is State.AUTHENTICATED
