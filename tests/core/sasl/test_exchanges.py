"""PLAIN and SCRAM between our two sides, and what the server's side refuses."""

from __future__ import annotations

import hashlib
import hmac
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.login.mechanisms import LoginRefused, PlainLogin, ScramLogin, login_of
from oncelog.core.metadata.credentials import credential
from oncelog.core.sasl.exchange import Challenge, Proven, Refused
from oncelog.core.sasl.plain import PlainExchange, digests_of
from oncelog.core.sasl.scram_exchange import ScramExchange
from oncelog.core.sasl.token_login import TokenKeys, derived_keys
from oncelog.core.scram import HASHES, base64_text, parse_server_first
from oncelog.wire.messages.alter_user_scram_credentials import ScramCredentialUpsertion

USERS = {"alice": "wonder,land=", "jürgen": "schlüssel"}
NUMBERS = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
ITERATIONS = 4096


def keys(mechanism):
    found = {}
    for user, password in USERS.items():
        salt = hashlib.sha256(user.encode()).digest()
        salted = hashlib.pbkdf2_hmac(HASHES[mechanism], password.encode(), salt, ITERATIONS)
        found[user] = credential(
            ScramCredentialUpsertion(
                name=user, mechanism=NUMBERS[mechanism], iterations=ITERATIONS, salt=salt, salted_password=salted
            )
        )
    return found


KEYS = {mechanism: keys(mechanism) for mechanism in HASHES}


def scram(mechanism="SCRAM-SHA-256", nonce="server-nonce", secret=b"s"):
    return ScramExchange(mechanism, KEYS[mechanism].get, nonce=nonce, secret=secret)


@pytest.mark.parametrize("mechanism", HASHES)
@pytest.mark.parametrize("user", USERS)
def test_both_sides_of_scram(mechanism, user):
    server, client = scram(mechanism), login_of(mechanism, user, USERS[user], b"n" * 24)
    challenge = server.respond(client.first())
    assert isinstance(challenge, Challenge)
    proof = client.next(challenge.token)
    assert proof is not None
    proven = server.respond(proof)
    assert isinstance(proven, Proven)
    assert proven.user == user
    assert client.next(proven.token) is None


@pytest.mark.parametrize(("user", "reason"), [("alice", "wrong password"), ("nobody", "unknown user")])
def test_unknown_users_and_wrong_passwords_look_alike(user, reason):
    server, client = scram(), ScramLogin("SCRAM-SHA-256", user, "wrong", "client")
    challenge = server.respond(client.first())
    assert isinstance(challenge, Challenge)
    assert parse_server_first(challenge.token).iterations == ITERATIONS
    refused = server.respond(client.next(challenge.token))
    assert isinstance(refused, Refused)
    assert (refused.reason, refused.user) == (reason, user)
    assert refused.words == "authentication failed: invalid credentials for SASL mechanism SCRAM-SHA-256"


def test_an_unknown_user_has_one_salt():
    salts = {
        secret: [
            parse_server_first(scram(nonce=f"n{time}", secret=secret).respond(b"n,,n=nobody,r=c").token).salt
            for time in range(2)
        ]
        for secret in (b"one", b"other")
    }
    assert salts[b"one"][0] == salts[b"one"][1] != salts[b"other"][0]
    assert scram(secret=b"one").respond(b"n,,n=somebody,r=c") != scram(secret=b"one").respond(b"n,,n=nobody,r=c")


def last_message(server, client, change):
    challenge = server.respond(client.first())
    text = client.next(challenge.token).decode()
    return server.respond(change(text).encode())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: text.replace("c=biws", "c=eSws"), "another channel binding than the first message's"),
        (lambda text: text.replace("c=biws", "c="), "another channel binding than the first message's"),
        (lambda text: text.replace("r=client", "r=Client"), "another nonce"),
        (lambda text: text.replace(",p=", ",x=1,p="), "wrong password"),
        (lambda text: text[: text.index(",p=") + 3] + base64_text(b"short"), "wrong password"),
        (lambda text: text[: text.index(",p=")] + ",q=YQ==", "expected p="),
    ],
)
def test_a_last_message_that_was_changed(change, reason):
    refused = last_message(scram(), ScramLogin("SCRAM-SHA-256", "alice", USERS["alice"], "client"), change)
    assert isinstance(refused, Refused)
    assert refused.reason == reason


@pytest.mark.parametrize("token", [b"n,a=bob,n=alice,r=c", b"n,,n=alice,r=c,m=x", b"p=x,,n=alice,r=c"])
def test_a_first_message_that_is_refused(token):
    assert isinstance(scram().respond(token), Refused)


def test_a_server_that_does_not_know_the_keys_is_not_believed():
    client = ScramLogin("SCRAM-SHA-256", "alice", USERS["alice"], "client")
    client.first()
    assert client.next(b"r=clientserver,s=YQ==,i=4096") is not None
    with pytest.raises(LoginRefused, match="signature"):
        client.next(b"v=" + base64_text(bytes(32)).encode())


@pytest.mark.parametrize(
    "token",
    [
        b"r=other,s=YQ==,i=4096",
        b"r=client,s=YQ==,i=4096",
        b"r=clientx,s=YQ==,i=4095",
        b"r=clientx,s=YQ==,i=1000001",
        b"x",
    ],
)
def test_a_server_whose_first_message_is_not_believed(token):
    client = ScramLogin("SCRAM-SHA-256", "alice", "p", "client")
    with pytest.raises(LoginRefused):
        client.next(token)


def test_plain():
    server = PlainExchange(digests_of(USERS))
    for user, password in USERS.items():
        proven = server.respond(PlainLogin(user, password).first())
        assert proven == Proven(user)
    assert server.respond(b"alice\0alice\0wonder,land=") == Proven("alice")
    assert PlainLogin("a", "b").next(b"") is None


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\0alice",
        b"\0alice\0wonder,land=\0",
        b"\0\0x",
        b"\0alice\0",
        b"\xff\0alice\0x",
        b"bob\0alice\0wonder,land=",
    ],
)
def test_plain_refuses(token):
    refused = PlainExchange(digests_of(USERS)).respond(token)
    assert isinstance(refused, Refused)
    assert "wonder" not in repr(refused)


def test_plain_tells_unknown_users_and_wrong_passwords_in_one_text():
    server = PlainExchange(digests_of(USERS))
    unknown, wrong = server.respond(b"\0nobody\0x"), server.respond(b"\0alice\0x")
    assert isinstance(unknown, Refused)
    assert isinstance(wrong, Refused)
    assert unknown.words == wrong.words
    assert server.respond(b"\0" + b"a" * 70_000 + b"\0x").reason.startswith("a message of")


@settings(max_examples=200)
@given(st.lists(st.binary(max_size=120), max_size=4), st.sampled_from(["PLAIN", *HASHES]))
def test_nothing_that_is_sent_raises_or_proves(tokens, mechanism):
    server = PlainExchange(digests_of(USERS)) if mechanism == "PLAIN" else scram(mechanism)
    for token in tokens:
        outcome = server.respond(token)
        assert not isinstance(outcome, Proven)
        if isinstance(outcome, Refused):
            break


def test_a_stored_key_is_not_a_password():
    """Who has read the broker's metadata cannot log in with it (RFC 5802 §9)."""
    stored = KEYS["SCRAM-SHA-256"]["alice"]
    server, client = scram(), ScramLogin("SCRAM-SHA-256", "alice", "?", "client")
    challenge = server.respond(client.first())
    signed = f"n=alice,r=client,{challenge.token.decode()},c=biws,r=clientserver-nonce".encode()
    signature = hmac.digest(stored.stored_key, signed, "sha256")
    forged = bytes(a ^ b for a, b in zip(stored.stored_key, signature, strict=True))
    outcome = server.respond(f"c=biws,r=clientserver-nonce,p={base64_text(forged)}".encode())
    assert isinstance(outcome, Refused)


MAC = bytes(range(64))


def token_keys(mechanism):
    def keys_of(token_id, salt):
        return TokenKeys("olga", 5_000, salt, *derived_keys(mechanism, MAC, salt)) if token_id == "tid" else None

    return keys_of


def log_in(mechanism, user, password, *, is_token, text=None):
    """The server's last word to a client."""
    server = ScramExchange(mechanism, KEYS[mechanism].get, token_keys(mechanism), nonce="server", secret=b"s")
    client = ScramLogin(mechanism, user, password, "client", is_token=is_token)
    challenge = server.respond(client.first() if text is None else text)
    return server.respond(client.next(challenge.token)) if isinstance(challenge, Challenge) else challenge


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_delegation_token_speaks_for_its_owner(mechanism):
    password = base64_text(MAC)
    proven = log_in(mechanism, "tid", password, is_token=True)
    assert isinstance(proven, Proven)
    assert (proven.user, proven.lifetime_ms, proven.token_id) == ("olga", 5_000, "tid")


@pytest.mark.parametrize(
    ("user", "password", "is_token"),
    [
        ("tid", base64_text(MAC), False),  # a token without saying so
        ("alice", USERS["alice"], True),  # a password that says that it is one
        ("tid", base64_text(MAC[::-1]), True),
        ("other", base64_text(MAC), True),
        ("olga", base64_text(MAC), True),
        ("tid", "", True),
    ],
)
def test_tokens_and_passwords_never_prove_one_another(user, password, is_token):
    refused = log_in("SCRAM-SHA-256", user, password, is_token=is_token)
    assert isinstance(refused, Refused)
    assert refused.words == "authentication failed: invalid credentials for SASL mechanism SCRAM-SHA-256"


def test_known_and_unknown_tokens_look_alike():
    server = partial(ScramExchange, "SCRAM-SHA-256", KEYS["SCRAM-SHA-256"].get, nonce="server", secret=b"s")
    told = [
        server(keys).respond(b"n,,n=tid,r=c,tokenauth=TRUE").token
        for keys in (token_keys("SCRAM-SHA-256"), lambda _token_id, _salt: None)
    ]
    assert told[0] == told[1]
    assert parse_server_first(told[0]).iterations == 4096


@pytest.mark.parametrize("authorization_id", ["olga", "alice"])
def test_a_token_has_no_other_authorization_id_than_its_own(authorization_id):
    text = f"n,a={authorization_id},n=tid,r=client,tokenauth=true".encode()
    assert isinstance(log_in("SCRAM-SHA-256", "tid", base64_text(MAC), is_token=True, text=text), Refused)
