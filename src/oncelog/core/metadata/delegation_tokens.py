"""Delegation tokens (KIP-48, KIP-373): who may have one made, renew it, end it and see it, and until when it holds.

A token is an id and a MAC over it under the cluster's secret key: nothing that is stored proves anything. What is told
here, and in which order, is Kafka's, asked of Apache Kafka 4.3; an owner that is no User is refused as a renewer is.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from oncelog.core.metadata.refusal import Refusal, limit_refusal
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records.cluster_metadata import DelegationTokenRecord, RemoveDelegationTokenRecord
from oncelog.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from oncelog.wire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
)
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

DEFAULT_COUNT_MAX = 10_000
RENEWERS_MAX = 100  # of one token
SWEPT_AT_ONCE = 1_000
REQUESTER_SINCE_VERSION = 3
USER = "User"

Tokens = Mapping[str, DelegationTokenRecord]
TokenRecord = DelegationTokenRecord | RemoveDelegationTokenRecord


@dataclass(frozen=True, slots=True)
class TokenTerms:
    """`secret` empty: there are no tokens. Times in milliseconds."""

    secret: bytes = field(repr=False)
    max_lifetime_ms: int
    expiry_time_ms: int
    count_max: int = DEFAULT_COUNT_MAX


def mac_of(secret: bytes, token_id: str) -> bytes:
    """What proves a token; its base64 is the password."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_of_mac(tokens: Tokens, secret: bytes, mac: bytes) -> DelegationTokenRecord | None:
    """The token of a MAC: each is looked at, so that the time tells nothing."""
    found = None
    for token in tokens.values():
        if hmac.compare_digest(mac_of(secret, token.token_id), mac):
            found = token
    return found


def owner_of(request: CreateDelegationTokenRequest, principal: str) -> str:
    """For whom a token is asked: who asks, where nobody is named."""
    if not request.owner_principal_name:
        return principal
    return f"{request.owner_principal_type}:{request.owner_principal_name}"


def refused_creation(code: ErrorCode, owner: str, requester: str, version: int) -> CreateDelegationTokenResponse:
    """No token: no times."""
    response = CreateDelegationTokenResponse(
        error_code=code, issue_timestamp_ms=-1, expiry_timestamp_ms=-1, max_timestamp_ms=-1
    )
    return _named(response, owner, requester, version)


def create_token(
    tokens: Tokens,
    terms: TokenTerms,
    request: CreateDelegationTokenRequest,
    *,
    requester: str,
    token_id: str,
    now_ms: int,
    version: int,
) -> tuple[list[TokenRecord], CreateDelegationTokenResponse, Refusal | None]:
    """The record of a new token, and the answer; a refusal says which limit was met. Whether it may be is decided before."""
    owner = owner_of(request, requester)
    code, refusal = ErrorCode.NONE, None
    if any(not each.startswith(f"{USER}:") for each in (owner, *map(_principal, request.renewers))):
        code = ErrorCode.INVALID_PRINCIPAL_TYPE
    elif not terms.secret:
        code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    elif len(request.renewers) > RENEWERS_MAX:
        code = ErrorCode.INVALID_REQUEST
    elif len(tokens) >= terms.count_max:
        refusal = limit_refusal("oncelog.max.delegation.tokens", terms.count_max, "delegation tokens")
        code = refusal.error_code
    if code:
        return [], refused_creation(code, owner, requester, version), refusal
    lifetime_ms = terms.max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    record = DelegationTokenRecord(
        token_id=token_id,
        owner=owner,
        requester=requester,
        renewers=list(dict.fromkeys(map(_principal, request.renewers))),
        issue_timestamp_ms=now_ms,
        expiry_timestamp_ms=now_ms + min(lifetime_ms, terms.expiry_time_ms),
        max_timestamp_ms=now_ms + lifetime_ms,
    )
    response = CreateDelegationTokenResponse(
        issue_timestamp_ms=now_ms,
        expiry_timestamp_ms=record.expiry_timestamp_ms,
        max_timestamp_ms=record.max_timestamp_ms,
        token_id=token_id,
        hmac=mac_of(terms.secret, token_id),
    )
    return [record], _named(response, owner, requester, version), None


def renew_token(
    tokens: Tokens, terms: TokenTerms, request: RenewDelegationTokenRequest, *, principal: str, now_ms: int
) -> tuple[list[TokenRecord], RenewDelegationTokenResponse]:
    """A token that holds longer, never beyond its end."""
    code, token = _found_token(tokens, terms, bytes(request.hmac))
    if token is not None and is_expired(token, now_ms):
        code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    elif token is not None and not _is_own(token, principal):
        code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    if code or token is None:
        return [], RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=0)
    period_ms = terms.expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = min(token.max_timestamp_ms, now_ms + period_ms)
    return [token.replace(expiry_timestamp_ms=expiry_ms)], RenewDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


def expire_token(
    tokens: Tokens, terms: TokenTerms, request: ExpireDelegationTokenRequest, *, principal: str, now_ms: int
) -> tuple[list[TokenRecord], ExpireDelegationTokenResponse]:
    """A token that ends when it is asked to, or (a negative time) is gone at once, expired or not."""
    code, token = _found_token(tokens, terms, bytes(request.hmac))
    period_ms = request.expiry_time_period_ms
    if token is not None and not _is_own(token, principal):
        code = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    elif token is not None and period_ms >= 0 and is_expired(token, now_ms):
        code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    if code or token is None:
        return [], ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=0)
    if period_ms < 0:
        return [RemoveDelegationTokenRecord(token_id=token.token_id)], ExpireDelegationTokenResponse(
            expiry_timestamp_ms=now_ms
        )
    expiry_ms = min(token.max_timestamp_ms, now_ms + period_ms)
    return [token.replace(expiry_timestamp_ms=expiry_ms)], ExpireDelegationTokenResponse(expiry_timestamp_ms=expiry_ms)


def _is_own(token: DelegationTokenRecord, principal: str) -> bool:
    """Whether it may be changed: by its owner and its renewers; nobody else, super users included."""
    return principal == token.owner or principal in token.renewers


def _found_token(tokens: Tokens, terms: TokenTerms, mac: bytes) -> tuple[ErrorCode, DelegationTokenRecord | None]:
    if not terms.secret:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, None
    token = token_of_mac(tokens, terms.secret, mac)
    if token is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND, None
    return ErrorCode.NONE, token


def described_tokens(
    tokens: Tokens,
    terms: TokenTerms,
    request: DescribeDelegationTokenRequest,
    *,
    principal: str,
    may_describe: Callable[[DelegationTokenRecord], bool],
    version: int,
) -> list[DescribedDelegationToken]:
    """What is asked for and may be seen: one's own, what one may renew or had made, and what one has a right to."""
    wanted = None if request.owners is None else {_principal(each) for each in request.owners}
    return [
        _described(token, terms, version)
        for token in tokens.values()
        if (wanted is None or not wanted.isdisjoint(_people(token)))
        and (principal in _people(token) or may_describe(token))
    ]


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Whether it holds no longer."""
    return now_ms > min(token.expiry_timestamp_ms, token.max_timestamp_ms)


def expired_tokens(tokens: Tokens, now_ms: int) -> list[TokenRecord]:
    """The records that remove what has expired, SWEPT_AT_ONCE of them at most."""
    found = [token.token_id for token in tokens.values() if is_expired(token, now_ms)]
    return [RemoveDelegationTokenRecord(token_id=token_id) for token_id in found[:SWEPT_AT_ONCE]]


def _people(token: DelegationTokenRecord) -> Sequence[str]:
    return (token.owner, token.requester, *token.renewers)


def _principal(each: CreatableRenewers | object) -> str:
    return f"{getattr(each, 'principal_type', '')}:{getattr(each, 'principal_name', '')}"


def _named(
    response: CreateDelegationTokenResponse, owner: str, requester: str, version: int
) -> CreateDelegationTokenResponse:
    response.principal_type, _, response.principal_name = owner.partition(":")
    if version >= REQUESTER_SINCE_VERSION:
        parts = requester.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = parts[0], parts[2]
    return response


def _described(token: DelegationTokenRecord, terms: TokenTerms, version: int) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    found = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiry_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=mac_of(terms.secret, token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=parts[0], principal_name=parts[2])
            for parts in (each.partition(":") for each in token.renewers)
        ],
    )
    if version >= REQUESTER_SINCE_VERSION:
        parts = token.requester.partition(":")
        found.token_requester_principal_type, found.token_requester_principal_name = parts[0], parts[2]
    return found
