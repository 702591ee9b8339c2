"""What a dual write needs of a database: an adapter for another one implements these few methods.

A row of `kafka_transaction_state` (KIP-939's name) maps a transactional id to the prepared state that was committed last,
and to the version of the instance that may write it. Any store with atomic, durable, conditional writes will do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from inspect import iscoroutinefunction
from typing import Any, Protocol, TypeVar

from oncelog.client import arguments
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import ConfigurationError, OncelogError

TABLE = "kafka_transaction_state"
TRANSACTIONAL_ID_LENGTH_MAX = 255
STALL_LIMIT_MS = 10_000
_IS_MISSING = re.compile("no such table|does not exist|doesn't exist")  # SQLite; PostgreSQL, RocksDB; MySQL, MariaDB
_METHODS = ("begin", "take_over", "read")  # what a writer calls; the rest is for tools and the janitor

H_co = TypeVar("H_co", covariant=True)


class NotCommitted(OncelogError):
    """A commit that certainly did not happen: another instance was first."""


class DatabaseTransaction(Protocol[H_co]):
    """An open transaction. `handle` is what the application writes its rows with; it must not commit."""

    @property
    def handle(self) -> H_co:
        """A connection, a session, a batch of writes."""

    def store(self, transactional_id: str, stored: StoredState) -> bool:
        """Write the prepared state where the row's version is the instance's; False where it is another.

        Raises IllegalState where the application ended the transaction itself. Records may still be on their way behind it.
        Where the database ends a session that does nothing before its commit, have a method `hold()`, which does something:
        it is called while they take long.
        """

    def commit(self) -> None:
        """Commit durably. NotCommitted says that it did not happen; any other error that nobody knows."""

    def rollback(self) -> None:
        """Give it up; its connection too where that may be in doubt. Raises nothing that could be helped."""


class Database(Protocol[H_co]):
    """A database. All calls of one object come from one thread at a time."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What its calls raise when the database refuses or cannot be reached."""

    def migrate(self) -> None:
        """Create `kafka_transaction_state` where it is missing."""

    def begin(self) -> DatabaseTransaction[H_co]:
        """Begin a transaction. Nothing stays open where it raises."""

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version, durably, in a transaction of its own: the new one, None where it was not the expected.

        None expects nothing and creates a missing row. It waits until a writer in flight is over, or makes that one
        fail; when it returns, nothing that was stored under an older version can be committed any more.
        """

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row, by transactional id."""

    def close(self) -> None:
        """Let go of connections of its own."""


class AsyncDatabaseTransaction(Protocol[H_co]):
    """`DatabaseTransaction`, async."""

    @property
    def handle(self) -> H_co:
        """A connection, a session."""

    async def store(self, transactional_id: str, stored: StoredState) -> bool:
        """As `DatabaseTransaction.store`."""

    async def commit(self) -> None:
        """As `DatabaseTransaction.commit`."""

    async def rollback(self) -> None:
        """As `DatabaseTransaction.rollback`."""


class AsyncDatabase(Protocol[H_co]):
    """`Database`, async."""

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """As `Database.errors`."""

    async def migrate(self) -> None:
        """As `Database.migrate`."""

    async def begin(self) -> AsyncDatabaseTransaction[H_co]:
        """As `Database.begin`."""

    async def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """As `Database.take_over`."""

    async def read(self, transactional_id: str) -> StoredState | None:
        """As `Database.read`."""

    async def read_all(self) -> Mapping[str, StoredState]:
        """As `Database.read_all`."""

    async def close(self) -> None:
        """As `Database.close`."""


def check_database(database: Any, *, is_async: bool) -> None:
    """Raise InvalidArgument for what is no adapter, or one of ours for the other kind of writer."""
    missing = [name for name in _METHODS if not callable(getattr(database, name, None))]
    if missing or isinstance(database, type) or not isinstance(getattr(database, "errors", None), tuple):
        hint = "an adapter of oncelog.recipes: see docs/dual-writes.md"
        raise arguments.refuse("database", database, "a database", hint)
    is_ours = type(database).__module__.startswith("oncelog.recipes.")
    if is_ours and iscoroutinefunction(database.take_over) is not is_async:
        other = "for the blocking oncelog.recipes.sync.DualWriter" if is_async else "for the asynchronous DualWriter"
        raise arguments.refuse(
            "database", database, "one for this kind of writer", f"{type(database).__name__} is {other}"
        )


def missing_table() -> ConfigurationError:
    """Nobody has called `migrate`."""
    return ConfigurationError(
        f"there is no {TABLE} in this database (for this user): call migrate() of the database's adapter once, before the "
        "first start"
    )


def explained_database(error: BaseException) -> BaseException:
    """What to raise for an error of the database's: one with the way out where the table is missing."""
    said = str(getattr(error, "orig", None) or error)  # SQLAlchemy's own text has the statement in it
    if TABLE not in said or not _IS_MISSING.search(said) or isinstance(error, ConfigurationError):
        return error
    explained = missing_table()
    explained.__cause__ = error
    return explained


def check_transactional_id(transactional_id: str) -> str:
    """A transactional id that every database keeps apart from every other. Raises ConfigurationError, InvalidArgument."""
    arguments.text("transactional_id", transactional_id)
    if not transactional_id or len(transactional_id) > TRANSACTIONAL_ID_LENGTH_MAX:
        raise ConfigurationError(
            f"transactional_id of a dual write has 1 to {TRANSACTIONAL_ID_LENGTH_MAX} characters: {transactional_id!r}"
        )
    if transactional_id != transactional_id.strip() or "\0" in transactional_id:
        raise ConfigurationError(
            f"transactional_id neither begins nor ends with spaces, and has no NUL in it: {transactional_id!r}"
        )
    return transactional_id
