"""SCRAM's arithmetic against the vectors of RFC 7677, and what its messages may be."""

from __future__ import annotations

import contextlib
import hashlib
import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.scram import (
    ScramInvalid,
    auth_message,
    base64_text,
    client_proof,
    is_proof,
    parse_client_final,
    parse_client_first,
    parse_server_final,
    parse_server_first,
    salted_password_of,
    saslname,
    server_signature,
)

# RFC 7677 §3
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_the_vector_of_rfc_7677():
    first, server, final = (
        parse_client_first(CLIENT_FIRST),
        parse_server_first(SERVER_FIRST),
        parse_client_final(CLIENT_FINAL),
    )
    assert (first.user, first.gs2_header, server.iterations) == ("user", "n,,", 4096)
    assert final.binding == b"n,,"
    salted = salted_password_of("sha256", "pencil", server.salt, server.iterations)
    signed = auth_message(first.bare, server.text, final.without_proof)
    assert client_proof("sha256", salted, signed) == final.proof
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    assert server_signature("sha256", server_key, signed) == parse_server_final(SERVER_FINAL)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    assert is_proof("sha256", stored_key, signed, final.proof)
    assert not is_proof("sha256", stored_key, signed, bytes(32))
    assert not is_proof("sha256", stored_key, signed, final.proof[:-1])


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"n",
        b"n,,n=user",
        b"x,,n=user,r=abc",
        b"p=tls-unique,,n=user,r=abc",
        b"n,user,n=user,r=abc",
        b"n,,n=,r=abc",
        b"n,,m=1,n=user,r=abc",
        b"n,,n=a=b,r=abc",
        b"n,,n=a=2cb,r=abc",
        b"n,,n=user,r=",
        b"n,,n=user,r=a\x7fb",
        b"n,,n=us\ner,r=abc",
        "n,,n=us\u2028er,r=abc".encode(),
        b"n,,n=user,r=" + b"a" * 257,
        b"n,,n=" + b"u" * 1025 + b",r=abc",
        b"n,,n=user,r=abc," + b"x=" + b"y" * 5000,
        b"n,,n=user,r=abc,1=2",
        b"n,,n=us\xffer,r=abc",
    ],
)
def test_a_first_message_that_is_none(token):
    with pytest.raises(ScramInvalid):
        parse_client_first(token)


def test_what_a_first_message_may_have():
    first = parse_client_first(b"y,a=x=2Cy=3D,n=x=2Cy=3D,r=abc,tokenauth=true,u=1")
    assert (first.user, first.authorization_id, first.gs2_header) == ("x,y=", "x,y=", "y,a=x=2Cy=3D,")
    assert first.bare == "n=x=2Cy=3D,r=abc,tokenauth=true,u=1"
    assert first.extensions == {"tokenauth": "true", "u": "1"}
    assert parse_client_first("n,,n=jürgen,r=abc".encode()).user == "jürgen"


@pytest.mark.parametrize("token", [b"", b"r=a", b"r=a,s=!,i=1", b"r=a,s=YQ==,i=-1", b"r=a,s=YQ==,i=\xc2\xb2", b"e=no"])
def test_a_servers_message_that_is_none(token):
    with pytest.raises(ScramInvalid):
        parse_server_first(token)
    with pytest.raises(ScramInvalid):
        parse_server_final(token)


@pytest.mark.parametrize(
    "token", [b"", b"c=biws", b"c=biws,p=YQ==", b"c=!,r=a,p=YQ==", b"c=biws,r=a,p=", b"r=a,c=biws,p=YQ=="]
)
def test_a_last_message_that_is_none(token):
    if token == b"c=biws,r=a,p=":
        assert parse_client_final(token).proof == b""
        return
    with pytest.raises(ScramInvalid):
        parse_client_final(token)


@given(st.text(min_size=1, max_size=100).filter(lambda name: name.isprintable()))
def test_a_name_comes_back_as_it_was(name):
    assert parse_client_first(f"n,,n={saslname(name)},r=abc".encode()).user == name


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(token):
    for parse in (parse_client_first, parse_server_first, parse_client_final, parse_server_final):
        with contextlib.suppress(ScramInvalid):
            parse(token)
    assert base64_text(b"a") == "YQ=="
