"""Users' credentials in a data directory: through the broker where one runs there, else by opening it as a start does."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid, properties_from
from oncelog.broker.metadata.followed_metadata import FollowedMetadata
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.cli.clients import open_admin
from oncelog.cli.command import Settings
from oncelog.cli.output import Failed
from oncelog.cli.secure.home import MECHANISM, Home
from oncelog.client.admin.admin import Admin
from oncelog.core.metadata.credentials import SCRAM_SHA_512, alter_credentials, upsertion_of
from oncelog.errors import KafkaError, StorageError, error_for
from oncelog.host.files import RealFiles
from oncelog.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest

ITERATION_COUNT = 8192
SALT_SIZE_BYTES = 24


class Credentials(Protocol):
    """Where users' credentials are kept."""

    async def known(self) -> set[str]:
        """Who has one."""
        ...

    async def store(self, passwords: Mapping[str, str]) -> None:
        """Set passwords."""
        ...


def node_id_of(data_directory: Path) -> str:
    """Whose directory it is, 1 where it is nobody's yet. Raises Failed."""
    path = data_directory / "meta.properties"
    if not path.exists():
        return "1"
    try:
        return properties_from(path.read_text("utf-8")).get("node.id", "1")
    except (OSError, UnicodeDecodeError, ConfigInvalid) as error:
        raise Failed(f"{path} cannot be read: {error}") from error


def is_running(data_directory: Path) -> bool:
    """Whether a broker serves it at this moment. Raises StorageError where that cannot be asked."""
    lock = data_directory / ".lock"
    if not lock.exists():
        return False
    try:
        RealFiles().lock(str(lock)).close()
    except StorageError as error:
        if "is locked" not in str(error):
            raise
        return True
    return False


@asynccontextmanager
async def credentials_of(settings: Settings, home: Home, administrator: str, data: Path) -> AsyncIterator[Credentials]:
    """Those of a broker that was secured. Raises Failed where it runs and does not answer its administrator."""
    if not is_running(data):
        async with without_a_broker(data) as found:
            yield found
        return
    own = home.client(administrator) / "client.properties"
    async with AsyncExitStack() as stack:
        try:
            admin = await stack.enter_async_context(
                open_admin(Settings(command_config=str(own), timeout_ms=settings.timeout_ms))
            )
        except (Failed, KafkaError) as error:
            hint = f"a broker runs there: let {own} reach it from here, or stop it for this"
            raise Failed(f"users cannot be stored: {error}", hint) from error
        yield _OfABroker(admin)


@asynccontextmanager
async def without_a_broker(data: Path) -> AsyncIterator[Credentials]:
    """Those of a data directory that no broker serves; a new one is begun. Raises Failed, StorageError, DamagedLog."""
    try:
        broker = Broker(str(data), {"node.id": node_id_of(data)})
        async with broker.without_serving() as parts:
            yield _OfADirectory(parts.node.store)
    except ConfigInvalid as error:
        raise Failed(str(error)) from error


class _OfADirectory:
    def __init__(self, store: MetadataStore | FollowedMetadata) -> None:
        self._store = store

    async def known(self) -> set[str]:
        return {user for user, _ in self._store.metadata.scram_credentials}

    async def store(self, passwords: Mapping[str, str]) -> None:
        request = AlterUserScramCredentialsRequest(
            upsertions=[
                upsertion_of(
                    user,
                    SCRAM_SHA_512,
                    password,
                    salt=secrets.token_bytes(SALT_SIZE_BYTES),
                    iterations=ITERATION_COUNT,
                )
                for user, password in passwords.items()
            ]
        )
        async with self._store.changing() as metadata:
            records, response = alter_credentials(metadata.scram_credentials, request)
            for each in response.results:
                if each.error_code:
                    raise error_for(each.error_code, f"{each.user}: {each.error_message}")
            await self._store.append(records)


class _OfABroker:
    def __init__(self, admin: Admin) -> None:
        self._admin = admin

    async def known(self) -> set[str]:
        return {each.user for each in await self._admin.describe_user_scram_credentials()}

    async def store(self, passwords: Mapping[str, str]) -> None:
        for user, password in passwords.items():
            await self._admin.alter_user_scram_credential(user, MECHANISM, password, iterations=ITERATION_COUNT)


def refuse_known(known: Iterable[str], wanted: Iterable[str]) -> None:
    """A password that is there is not replaced: who uses it would be locked out. Raises Failed."""
    taken = sorted(set(known) & set(wanted))
    if taken:
        raise Failed(
            f"{', '.join(taken)}: there is a credential of that name, and no password here",
            f"take another name, or `oncelog credentials remove {taken[0]}` first",
        )
