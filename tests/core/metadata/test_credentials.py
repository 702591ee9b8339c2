"""SCRAM credentials: the vector of RFC 7677, and what Apache Kafka 4.3 answers."""

from __future__ import annotations

from base64 import b64decode
from hashlib import pbkdf2_hmac

import pytest

from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.credentials import alter_credentials, credential, describe_credentials
from oncelog.errors import ErrorCode as E
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName


def upsertion(name="a", mechanism=1, iterations=4096, salted=b"p" * 32):
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=salted
    )


def altered(metadata, *upsertions, deletions=()):
    request = AlterUserScramCredentialsRequest(
        upsertions=list(upsertions),
        deletions=[ScramCredentialDeletion(name=name, mechanism=mechanism) for name, mechanism in deletions],
    )
    records, reply = alter_credentials(metadata.scram_credentials, request)
    for record in records:
        metadata.apply(record)
    return {each.user: E(each.error_code) for each in reply.results}


def described(metadata, *names):
    request = DescribeUserScramCredentialsRequest(users=[UserName(name=name) for name in names] or None)
    return {
        each.user: [(info.mechanism, info.iterations) for info in each.credential_infos] or E(each.error_code)
        for each in describe_credentials(metadata.scram_credentials, request).results
    }


def test_the_vector_of_rfc_7677():
    salt = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    kept = credential(
        ScramCredentialUpsertion(name="user", mechanism=1, iterations=4096, salt=salt, salted_password=salted)
    )
    assert kept.stored_key == b64decode("WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=")
    assert kept.server_key == b64decode("wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=")
    assert salted not in (kept.stored_key, kept.server_key, kept.salt)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (upsertion(), E.NONE),
        (upsertion(name="a\nlogin"), E.UNACCEPTABLE_CREDENTIAL),  # Kafka stores it; nobody could log in by it
        (upsertion(iterations=4095), E.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), E.UNACCEPTABLE_CREDENTIAL),
        (upsertion(name=""), E.UNACCEPTABLE_CREDENTIAL),
        (upsertion(salted=b""), E.UNACCEPTABLE_CREDENTIAL),
        (upsertion(mechanism=0), E.UNSUPPORTED_SASL_MECHANISM),
        (upsertion(mechanism=3), E.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_is_refused(asked, code):
    metadata = ClusterMetadata()
    assert altered(metadata, asked) == {asked.name: code}
    assert bool(metadata.scram_credentials) is (code is E.NONE)


def test_a_user_is_altered_once_in_a_request():
    metadata = ClusterMetadata()
    assert altered(metadata, upsertion(), upsertion(mechanism=2)) == {"a": E.DUPLICATE_RESOURCE}
    assert metadata.scram_credentials == {}
    assert altered(metadata, upsertion(mechanism=2, iterations=8192)) == {"a": E.NONE}
    assert altered(metadata, upsertion("b"), upsertion()) == {"a": E.NONE, "b": E.NONE}
    assert altered(metadata, upsertion("b"), deletions=[("b", 1)]) == {"b": E.DUPLICATE_RESOURCE}
    assert described(metadata) == {"a": [(1, 4096), (2, 8192)], "b": [(1, 4096)]}
    assert altered(metadata, deletions=[("a", 1), ("z", 1)]) == {"a": E.NONE, "z": E.RESOURCE_NOT_FOUND}
    assert described(metadata, "a", "z") == {"a": [(2, 8192)], "z": E.RESOURCE_NOT_FOUND}
    assert described(metadata, "a", "a") == {"a": E.DUPLICATE_RESOURCE}
