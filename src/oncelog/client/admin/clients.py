"""What is known of clients: their quotas (KIP-546) and their SCRAM credentials (KIP-554)."""

from __future__ import annotations

import asyncio
import hashlib
import math
from collections.abc import Iterable, Mapping
from typing import Any

from oncelog.client import arguments
from oncelog.client.admin.session import AdminSession
from oncelog.errors import ErrorCode, InvalidArgument
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from oncelog.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName

_EXACT, _DEFAULT, _ANY = 0, 1, 2
MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
_MECHANISM_NAMES = {number: name for name, (number, _) in MECHANISMS.items()}
_SALT_SIZE_BYTES = 20
_ITERATIONS_MAX = 1_000_000  # of brokers: 16384; a second of work here
Entity = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Quotas:
    """The quotas of one entity: parts "user", "client-id" or "ip" with a name each, None for the default one."""

    entity: dict[str, str | None]
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """That a user has a credential of a mechanism; the secret is never told."""

    user: str
    mechanism: str
    iterations: int


class AdminClients(AdminSession):
    """What an admin can do about quotas and credentials."""

    async def describe_client_quotas(
        self, entity: Entity | None = None, *, any_of: Iterable[str] = (), strict: bool = False
    ) -> list[Quotas]:
        """Quotas of the entities with these parts (default: all); `any_of`: types whose name does not matter.

        `strict`: entities that have no other part besides.
        """
        parts = {} if entity is None else arguments.text_mapping("entity", entity)
        components = [
            ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
            for kind, name in parts.items()
        ]
        components += [
            ComponentData(entity_type=kind, match_type=_ANY, match=None) for kind in arguments.texts("any_of", any_of)
        ]
        arguments.boolean("strict", strict)
        message = DescribeClientQuotasRequest(components=components, strict=strict)
        response = await self._ask_any("describe client quotas", message, is_question=True)
        return [
            Quotas(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in response.entries or []
        ]

    async def alter_client_quotas(
        self, entity: Entity, values: Mapping[str, float | None], *, validate_only: bool = False
    ) -> None:
        """Set quotas of one entity, or with None remove them: producer_byte_rate, consumer_byte_rate, ..."""
        entry = EntryData(
            entity=[
                EntityData(entity_type=kind, entity_name=name)
                for kind, name in arguments.text_mapping("entity", entity).items()
            ],
            ops=[
                OpData(
                    key=arguments.text("a quota", key),
                    value=0.0 if value is None else _quota(key, value),
                    remove=value is None,
                )
                for key, value in arguments.mapping("values", values, "quotas to numbers").items()
            ],
        )
        arguments.boolean("validate_only", validate_only)

        def check(response: Any) -> None:
            for each in response.entries:
                if each.error_code:
                    what = "alter client quotas"
                    raise self._refusal(AlterClientQuotasRequest, each.error_code, what, told=each.error_message)

        message = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
        await self._ask_controller("alter client quotas", message, check)

    async def describe_user_scram_credentials(self, users: Iterable[str] = ()) -> list[ScramCredential]:
        """The credentials of these users (default: all). Raises ResourceNotFound for a user that has none."""
        names = [UserName(name=user) for user in arguments.texts("users", users)]
        message = DescribeUserScramCredentialsRequest(users=names or None)
        response = await self._ask_any("describe SCRAM credentials", message, is_question=True)
        for each in response.results:
            if each.error_code:
                told = each.error_message
                raise self._refusal(DescribeUserScramCredentialsRequest, each.error_code, each.user, told=told)
        return [
            ScramCredential(each.user, _MECHANISM_NAMES.get(info.mechanism, str(info.mechanism)), info.iterations)
            for each in sorted(response.results, key=lambda each: each.user)
            for info in sorted(each.credential_infos, key=lambda info: info.mechanism)
        ]

    async def alter_user_scram_credential(
        self, user: str, mechanism: str, password: str | None, *, iterations: int = 8192, salt: bytes | None = None
    ) -> None:
        """Set a user's credential ("SCRAM-SHA-256" or "SCRAM-SHA-512"), or with None remove it.

        Only the salted password is sent; a salt is made where none is given.
        """
        arguments.text("user", user)
        number, hash_name = MECHANISMS[arguments.one_of("mechanism", mechanism, MECHANISMS)]
        _check_secret(password, iterations, salt)
        message = AlterUserScramCredentialsRequest()
        if password is None:
            message.deletions = [ScramCredentialDeletion(name=user, mechanism=number)]
        else:
            salt = salt or bytes(self._host.random.below(256) for _ in range(_SALT_SIZE_BYTES))
            salted = await asyncio.to_thread(hashlib.pbkdf2_hmac, hash_name, password.encode(), salt, iterations)
            message.upsertions = [
                ScramCredentialUpsertion(
                    name=user, mechanism=number, iterations=iterations, salt=salt, salted_password=salted
                )
            ]

        def check(response: Any) -> None:
            for each in response.results:
                if each.error_code != ErrorCode.NONE:
                    what = f"alter SCRAM credentials of {each.user}"
                    told = f"{each.user}: {each.error_message}"
                    raise self._refusal(AlterUserScramCredentialsRequest, each.error_code, what, told=told)

        await self._ask_controller("alter SCRAM credentials", message, check)


def _quota(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or abs(value) > 1e300:
        raise arguments.refuse(f"values[{key!r}]", value, "a number, or None to remove the quota")
    return float(value)


def _check_secret(password: str | None, iterations: int, salt: bytes | None) -> None:
    if password is not None:  # never shown
        if not isinstance(password, str):
            raise InvalidArgument(f"password must be text or None, not {type(password).__name__}")
        try:
            password.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("password must be text that can be encoded") from None
    arguments.integer("iterations", iterations, low=1, high=_ITERATIONS_MAX)
    if salt is not None and not isinstance(salt, bytes):
        raise arguments.refuse("salt", salt, "bytes or None")
