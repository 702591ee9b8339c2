"""Connections on their way to a principal, as transcripts: what comes, and what follows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.sasl.connection import Mechanism, SaslConnection, State
from oncelog.core.sasl.exchange import Challenge, Proven, Refused
from oncelog.errors import ErrorCode as E


class Said:
    """A conversation in words: `who` proves, `more` goes on, anything else is refused."""

    def respond(self, token):
        if token == b"more":
            return Challenge(b"go on")
        if token.startswith(b"i am "):
            return Proven(token[5:].decode(), b"welcome")
        return Refused("no", "not known", "mallory")


def connection(session_ms=0, *others):
    return SaslConnection({name: Mechanism(Said, session_ms) for name in ("WORDS", *others)})


def login(sasl, who="alice", now_ms=0.0, version=2):
    assert sasl.handshake(1, "WORDS", now_ms).reply.error_code == 0
    return sasl.authenticate(version, b"i am " + who.encode(), now_ms)


def test_the_usual_way():
    sasl = connection(0, "OTHER")
    assert sasl.may_ask_versions(0)
    sasl.versions_told()
    assert not sasl.may_ask_versions(0), "once"
    assert not sasl.may_ask(0)
    step = sasl.handshake(1, "WORDS", 0)
    assert (step.reply.error_code, step.reply.mechanisms, step.is_over) == (0, ["OTHER", "WORDS"], False)
    step = sasl.authenticate(2, b"more", 0)
    assert (step.reply.error_code, step.reply.auth_bytes, step.has_begun_session) == (0, b"go on", False)
    assert not sasl.is_authenticated
    step = sasl.authenticate(2, b"i am alice", 0)
    assert (step.reply.error_code, step.reply.error_message, step.reply.auth_bytes) == (0, "", b"welcome")
    assert (step.reply.session_lifetime_ms, step.has_begun_session) == (0, True)
    assert (sasl.user, sasl.session_ends_ms, sasl.is_authenticated) == ("alice", None, True)
    assert sasl.may_ask(10**9)
    assert sasl.may_ask_versions(10**9)


def test_a_client_asks_for_versions_again_after_an_error():
    sasl = connection()
    assert sasl.may_ask_versions(0)  # answered 35: versions_told is not called
    assert sasl.may_ask_versions(0)


def test_a_mechanism_that_there_is_not():
    for name in ("", "words", "PLAIN"):
        step = connection().handshake(1, name, 0)
        assert (step.reply.error_code, step.reply.mechanisms) == (E.UNSUPPORTED_SASL_MECHANISM, ["WORDS"])
        assert step.is_over


def test_a_handshake_in_the_middle():
    sasl = connection()
    sasl.handshake(1, "WORDS", 0)
    step = sasl.handshake(1, "WORDS", 0)
    assert (step.reply.error_code, step.reply.mechanisms, step.is_over) == (E.ILLEGAL_SASL_STATE, [], True)


def test_a_refusal_is_told_and_ends_the_connection():
    sasl = connection()
    sasl.handshake(1, "WORDS", 0)
    step = sasl.authenticate(0, b"nonsense", 0)
    assert (step.reply.error_code, step.reply.error_message) == (E.SASL_AUTHENTICATION_FAILED, "no")
    assert (step.reply.auth_bytes, step.is_over, step.refused.user) == (b"", True, "mallory")
    assert sasl.state is State.OVER
    assert not sasl.may_ask(0)
    assert sasl.authenticate(0, b"i am alice", 0).is_over


def test_authenticate_before_the_handshake():
    step = connection().authenticate(0, b"i am alice", 0)
    assert (step.reply, step.is_over) == (None, True)


def test_tokens_are_counted():
    sasl = connection()
    sasl.handshake(1, "WORDS", 0)
    steps = [sasl.authenticate(1, b"more", 0) for _ in range(4)]
    assert [step.is_over for step in steps] == [False, False, False, True]


def test_tokens_without_requests():
    sasl = connection(5_000)
    assert sasl.handshake(0, "WORDS", 0).reply.error_code == 0
    assert sasl.state is State.RAW
    assert sasl.raw_token(b"more", 0).reply == b"go on"
    step = sasl.raw_token(b"i am alice", 0)
    assert (step.reply, step.has_begun_session, sasl.session_ends_ms) == (b"welcome", True, 5_000)
    sasl = connection()
    sasl.handshake(0, "WORDS", 0)
    step = sasl.raw_token(b"nonsense", 0)
    assert (step.reply, step.is_over) == (None, True)


def test_without_an_end_of_the_session_nothing_begins_again():
    sasl = connection()
    login(sasl)
    step = sasl.handshake(1, "WORDS", 5_000)
    assert (step.reply.error_code, step.is_over) == (E.ILLEGAL_SASL_STATE, False)
    step = sasl.authenticate(1, b"i am mallory", 5_000)
    assert (step.reply.error_code, step.is_over, sasl.user) == (E.ILLEGAL_SASL_STATE, False, "alice")
    assert sasl.may_ask(5_000)


def test_a_session_ends_and_begins_again():
    sasl = connection(5_000)
    assert login(sasl).reply.session_lifetime_ms == 5_000
    assert sasl.may_ask(5_000)
    assert not sasl.may_ask(5_001)
    assert not sasl.may_ask_versions(5_001)
    assert sasl.handshake(1, "WORDS", 6_000).reply.error_code == 0, "also after its end"
    assert sasl.is_authenticated
    assert not sasl.may_ask(6_000), "only SaslAuthenticate"
    step = sasl.authenticate(1, b"i am alice", 6_000)
    assert (step.has_begun_session, sasl.session_ends_ms) == (True, 11_000)
    assert sasl.may_ask(11_000)


def test_old_clients_are_told_no_end_and_have_one():
    sasl = connection(5_000)
    assert login(sasl, version=0).reply.session_lifetime_ms == 0
    assert not sasl.may_ask(5_001)


def test_a_session_does_not_begin_again_twice_at_once():
    sasl = connection(5_000)
    login(sasl)
    login(sasl, now_ms=10)
    step = sasl.handshake(1, "WORDS", 1_009)
    assert (step.reply.error_code, step.is_over) == (E.ILLEGAL_SASL_STATE, False)
    assert sasl.may_ask(1_009)
    assert sasl.handshake(1, "WORDS", 1_010).reply.error_code == 0


def test_a_session_goes_on_as_the_same_user_by_the_same_mechanism():
    sasl = connection(5_000, "OTHER")
    login(sasl)
    assert sasl.handshake(1, "OTHER", 2_000) == sasl.handshake(1, "OTHER", 2_000) or sasl.state is State.OVER
    sasl = connection(5_000)
    login(sasl)
    step = login(sasl, "mallory", 2_000)
    assert (step.reply.error_code, step.is_over, sasl.user) == (E.SASL_AUTHENTICATION_FAILED, True, "alice")
    sasl = connection(5_000)
    login(sasl)
    assert sasl.handshake(0, "WORDS", 2_000).is_over


WHAT = st.sampled_from(
    ["versions", "handshake", "old handshake", "other mechanism", "more", "alice", "mallory", "no", "wait"]
)


@given(st.lists(WHAT, max_size=12), st.sampled_from([0, 5_000]))
def test_nobody_is_somebody_without_proof(what, session_ms):
    """Whatever comes in whatever order: requests are served only to who was proven last, and never after the end."""
    sasl, now_ms, proven = connection(session_ms), 0.0, None
    for each in what:
        if sasl.state is State.OVER:
            break
        token = {"alice": b"i am alice", "mallory": b"i am mallory"}.get(each, each.encode())
        if each == "wait":
            now_ms += 3_000
        elif each == "versions":
            if sasl.may_ask_versions(now_ms):
                sasl.versions_told()
        elif "handshake" in each or each == "other mechanism":
            sasl.handshake(0 if "old" in each else 1, "WORDS" if "handshake" in each else "OTHER", now_ms)
        else:
            before = sasl.state
            step = sasl.raw_token(token, now_ms) if before is State.RAW else sasl.authenticate(1, token, now_ms)
            if step.has_begun_session:
                assert before in (State.RAW, State.UNDER_WAY, State.AGAIN)
                assert token.startswith(b"i am ")
                assert proven in (None, each)
                proven = each
        if sasl.may_ask(now_ms):
            assert proven == sasl.user
            assert sasl.session_ends_ms is None or now_ms <= sasl.session_ends_ms


@pytest.mark.parametrize("state", [State.NEW, State.VERSIONS_KNOWN])
def test_a_new_connection_has_nobody(state):
    sasl = connection()
    sasl.state = state
    assert not sasl.is_authenticated
    assert (sasl.user, sasl.mechanism) == ("", "")


def test_no_proof_makes_somebody_anonymous():
    """Rules and super users name who came without a name so; Apache Kafka lets a token for that name in as it."""
    sasl = connection()
    step = login(sasl, "ANONYMOUS")
    assert (step.reply.error_code, step.is_over, step.refused.reason) == (
        E.SASL_AUTHENTICATION_FAILED,
        True,
        "the name ANONYMOUS",
    )
    assert not sasl.is_authenticated
