"""Delegation tokens (KIP-48, KIP-373): made, renewed, ended and described by whom they are of, or who may."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import field
from typing import Any

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession
from oncelog.errors import InvalidArgument
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from oncelog.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from oncelog.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from oncelog.wire.messages.renew_delegation_token import RenewDelegationTokenRequest

OWNER_SINCE_VERSION = 3
USUAL = -1  # a time that the broker chooses
AT_ONCE = -1
_USER = "User"
_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals are "User:alice"; times are milliseconds since 1970; `hmac` is what proves it.

    A client logs in with SCRAM as `token_id` with `password`, and `sasl_tokenauth=True`.
    """

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    hmac: bytes = field(repr=False)

    @property
    def password(self) -> str:
        """The MAC as SCRAM takes it."""
        return base64.b64encode(self.hmac).decode("ascii")


class AdminTokens(AdminSession):
    """What an admin can do about delegation tokens."""

    async def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = USUAL
    ) -> DelegationToken:
        """A token for who is logged in, or for another `owner`; `renewers` may renew and end it. "alice" is "User:alice".

        Raises UnsupportedByAuthentication (nobody is logged in, or by a token), DelegationTokenAuthorization (another
        owner needs CREATE_TOKENS on it), DelegationTokenDisabled.
        """
        arguments.integer("max_lifetime_ms", max_lifetime_ms, low=_LONG_MIN, high=_LONG_MAX)
        who = _principals("renewers", renewers)
        message = CreateDelegationTokenRequest(
            renewers=[CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in who],
            max_lifetime_ms=max_lifetime_ms,
        )
        version_min = 1
        if owner is not None:
            [(message.owner_principal_type, message.owner_principal_name)] = _principals("owner", [owner])
            version_min = OWNER_SINCE_VERSION
        answer = await self._ask_any("create a delegation token", message, version_min=version_min, is_question=False)
        own = f"{answer.principal_type}:{answer.principal_name}"
        requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
        return DelegationToken(
            answer.token_id,
            own,
            own if requester == ":" else requester,
            tuple(f"{kind}:{name}" for kind, name in who),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            bytes(answer.hmac),
        )

    async def renew_delegation_token(self, hmac: bytes, *, period_ms: int = USUAL) -> int:
        """Let a token hold for `period_ms` from now, never beyond its end; gives when it expires (ms since 1970).

        Raises DelegationTokenOwnerMismatch, DelegationTokenNotFound, DelegationTokenExpired.
        """
        message = RenewDelegationTokenRequest(hmac=_mac(hmac), renew_period_ms=_period(period_ms))
        return int((await self._ask_any("renew a delegation token", message, is_question=False)).expiry_timestamp_ms)

    async def expire_delegation_token(self, hmac: bytes, *, period_ms: int = AT_ONCE) -> int:
        """Let a token end in `period_ms`; below 0 it is gone at once. Gives when (ms since 1970). Raises as `renew`."""
        message = ExpireDelegationTokenRequest(hmac=_mac(hmac), expiry_time_period_ms=_period(period_ms))
        return int((await self._ask_any("expire a delegation token", message, is_question=False)).expiry_timestamp_ms)

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens of these owners (None: all) that may be seen: one's own, and those that one has a right to."""
        named = None if owners is None else _principals("owners", owners)
        message = DescribeDelegationTokenRequest(
            owners=None
            if named is None
            else [DescribeDelegationTokenOwner(principal_type=kind, principal_name=name) for kind, name in named]
        )
        answer = await self._ask_any("describe delegation tokens", message, is_question=True)
        return sorted(map(_token, answer.tokens), key=lambda each: (each.owner, each.issue_timestamp_ms, each.token_id))


def _token(answer: Any) -> DelegationToken:
    own = f"{answer.principal_type}:{answer.principal_name}"
    requester = f"{answer.token_requester_principal_type}:{answer.token_requester_principal_name}"
    return DelegationToken(
        answer.token_id,
        own,
        own if requester == ":" else requester,
        tuple(f"{each.principal_type}:{each.principal_name}" for each in answer.renewers),
        answer.issue_timestamp,
        answer.expiry_timestamp,
        answer.max_timestamp,
        bytes(answer.hmac),
    )


def _principals(name: str, values: Iterable[str]) -> list[tuple[str, str]]:
    found = []
    for value in arguments.texts(name, values):
        kind, colon, rest = value.partition(":")
        if not value or (colon and not rest):
            raise InvalidArgument(f"{name}: {value[:40]!r} is no principal: expected User:alice, or alice")
        found.append((kind, rest) if colon else (_USER, value))
    return found


def _mac(value: bytes) -> bytes:
    if not isinstance(value, bytes) or not value:
        raise InvalidArgument(f"hmac must be the bytes of a token's MAC, not {type(value).__name__}")  # never shown
    return value


def _period(value: int) -> int:
    arguments.integer("period_ms", value, low=_LONG_MIN, high=_LONG_MAX)
    return value
