"""SCRAM credentials: what AlterUserScramCredentials may change, and what DescribeUserScramCredentials tells (KIP-554).

The client sends the salted password; what is kept proves it without being it (RFC 5802): StoredKey and ServerKey.
"""

from __future__ import annotations

import hmac
import re
from collections import Counter
from collections.abc import Mapping
from hashlib import new as new_hash

from oncelog.core.metadata.refusal import Refusal, limit_refusal
from oncelog.core.scram import salted_password_of
from oncelog.errors import ErrorCode
from oncelog.wire.log_records.cluster_metadata import RemoveScramCredentialRecord, ScramCredentialRecord
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

SCRAM_SHA_256, SCRAM_SHA_512 = 1, 2
_HASHES = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
ITERATION_COUNT_MIN, ITERATION_COUNT_MAX = 4096, 16384
SALT_SIZE_BYTES_MAX = 1024  # Kafka stores any; its tools draw some 30 bytes
DEFAULT_COUNT_MAX = 10_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")

Credentials = Mapping[tuple[str, int], ScramCredentialRecord]
ScramRecord = ScramCredentialRecord | RemoveScramCredentialRecord


def upsertion_of(
    user: str, mechanism: int, password: str, *, salt: bytes, iterations: int = ITERATION_COUNT_MIN
) -> ScramCredentialUpsertion:
    """What a client asks for that sets a password: some milliseconds of work."""
    salted_password = salted_password_of(_HASHES[mechanism], password, salt, iterations)
    return ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted_password
    )


def credential(upsertion: ScramCredentialUpsertion) -> ScramCredentialRecord:
    """What is kept of a salted password."""
    hash_name = _HASHES[upsertion.mechanism]
    salted_password = bytes(upsertion.salted_password)
    client_key = hmac.digest(salted_password, b"Client Key", hash_name)
    return ScramCredentialRecord(
        user=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=bytes(upsertion.salt),
        stored_key=new_hash(hash_name, client_key).digest(),
        server_key=hmac.digest(salted_password, b"Server Key", hash_name),
        iterations=upsertion.iterations,
    )


def alter_credentials(
    known: Credentials, request: AlterUserScramCredentialsRequest, count_max: int = DEFAULT_COUNT_MAX
) -> tuple[list[ScramRecord], AlterUserScramCredentialsResponse]:
    """The records to write, and one result per user in the order of the request, deletions first.

    Credentials beyond `count_max` are refused, POLICY_VIOLATION.
    """
    count = len(known)
    asked: list[ScramCredentialDeletion | ScramCredentialUpsertion] = [*request.deletions, *request.upsertions]
    refusals: dict[str, Refusal | None] = {}
    records: dict[str, ScramRecord] = {}
    for each in asked:
        if refusals.get(each.name) is not None:
            continue
        refusal = _refusal(known, each)
        if refusal is None and each.name in refusals:
            refusal = Refusal(
                ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
        if refusal is None and isinstance(each, ScramCredentialUpsertion) and (each.name, each.mechanism) not in known:
            count += 1
            if count > count_max:
                refusal = limit_refusal("oncelog.max.scram.credentials", count_max, "credentials")
        refusals[each.name] = refusal
        if refusal is not None:
            records.pop(each.name, None)
        elif isinstance(each, ScramCredentialUpsertion):
            records[each.name] = credential(each)
        else:
            count -= 1
            records[each.name] = RemoveScramCredentialRecord(user=each.name, mechanism=each.mechanism)
    return list(records.values()), AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=refusal.error_code if refusal else ErrorCode.NONE,
                error_message=refusal.message if refusal else None,
            )
            for user, refusal in refusals.items()
        ]
    )


def _refusal(known: Credentials, asked: ScramCredentialDeletion | ScramCredentialUpsertion) -> Refusal | None:
    if not asked.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if asked.mechanism not in _HASHES:
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(asked, ScramCredentialUpsertion):
        if _CONTROL.search(asked.name):  # it could never log in; Kafka stores it
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not have control characters")
        if asked.iterations < ITERATION_COUNT_MIN:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if asked.iterations > ITERATION_COUNT_MAX:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if len(asked.salt) > SALT_SIZE_BYTES_MAX:
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The salt is longer than {SALT_SIZE_BYTES_MAX} bytes")
        if not asked.salted_password:  # Kafka: UNKNOWN_SERVER_ERROR
            return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    elif (asked.name, asked.mechanism) not in known:
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return None


def describe_credentials(
    known: Credentials, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    """Mechanisms and iterations of the users asked for, or of all; never the secrets."""
    by_user: dict[str, list[CredentialInfo]] = {}
    for (user, mechanism), stored in sorted(known.items(), key=lambda item: item[0]):
        info = CredentialInfo(mechanism=mechanism, iterations=stored.iterations)
        by_user.setdefault(user, []).append(info)
    times = Counter([user.name for user in request.users or []] or list(by_user))
    return DescribeUserScramCredentialsResponse(
        results=[_described(user, count, by_user) for user, count in times.items()]
    )


def _described(
    user: str, times: int, by_user: Mapping[str, list[CredentialInfo]]
) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user, credential_infos=[])
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
    elif user not in by_user:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
    else:
        result.credential_infos = by_user[user]
    return result
