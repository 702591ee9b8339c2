"""Dual writes with SQLite through the standard library's sqlite3.

A write transaction locks the whole file (BEGIN IMMEDIATE): a newer instance waits for an older one that stands inside a
transaction, at most `busy_timeout_ms`, and is then refused with "database is locked".
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from typing import Self

from oncelog.client import arguments
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import IllegalState
from oncelog.recipes import durability, statements

BUSY_TIMEOUT_MS = 5000
SAVEPOINT = "oncelog_dual_write"


class _Open:
    """SQLite's write transaction. The savepoint is gone if the application ended the transaction itself."""

    def __init__(self, owner: SqliteDatabase, connection: sqlite3.Connection) -> None:
        self.handle = connection
        self._owner = owner
        self._is_over = False

    def store(self, transactional_id: str, stored: StoredState) -> bool:
        try:
            self.handle.execute(f"RELEASE {SAVEPOINT}")
        except sqlite3.OperationalError as error:
            raise IllegalState(
                "the transaction was ended by the application (commit, rollback, executescript); its rows are not covered"
            ) from error
        _check_durable(self.handle)  # whoever has the connection may have changed it
        values = (str(stored.prepared_state), transactional_id, stored.instance_version)
        return self.handle.execute(_lite(statements.STORE), values).rowcount == 1

    def commit(self) -> None:
        self.handle.execute("COMMIT")
        self._is_over = True

    def rollback(self) -> None:
        if not self._is_over:
            self._owner.roll_back(self.handle)
            self._is_over = True


class SqliteDatabase:
    """SQLite. `connect`: a file, or a function that gives a new connection (usable from any thread).

    `handle` is the connection. synchronous=EXTRA is set on it: what SQLite says is committed is on the disk.
    """

    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(
        self,
        connect: str | os.PathLike[str] | Callable[[], sqlite3.Connection],
        *,
        busy_timeout_ms: int = BUSY_TIMEOUT_MS,
    ) -> None:
        if not (callable(connect) or isinstance(connect, str | os.PathLike)):
            raise arguments.refuse("connect", connect, "a file's name, or a function that gives a connection")
        if (
            isinstance(connect, str) and not connect.strip()
        ):  # SQLite's own name for a file that goes with the connection
            raise arguments.refuse(
                "connect", connect, "a file's name", "what is written under this one is lost at the end"
            )
        self._connect, self._busy_timeout_ms = connect, busy_timeout_ms
        self._connection: sqlite3.Connection | None = None
        self._is_left = False  # the connection may be in a transaction that nobody was given, or that is given up

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _usable(self) -> sqlite3.Connection:
        """The connection; what an interrupt left open on it is rolled back first."""
        if self._is_left and self._connection is not None:
            self._end_left(self._connection)
        connection = self._connection
        if connection is None:
            connect = self._connect
            connection = connect() if callable(connect) else _opened(connect)
            connection.isolation_level = None
            connection.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_ms)}")
            connection.execute("PRAGMA synchronous = EXTRA")
            self._connection = connection
        return connection

    def migrate(self) -> None:
        """Create `kafka_transaction_state` where it is missing."""
        self._usable().execute(statements.CREATE)

    def begin(self) -> _Open:
        """A write transaction; `handle` is the connection."""
        connection = self._usable()
        opened = _Open(self, connection)
        try:
            self._lock_file(connection)
            connection.execute(f"SAVEPOINT {SAVEPOINT}")
        except BaseException:
            self._usable()
            raise
        self._is_left = False
        return opened

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version; waits for whoever writes to the file."""
        connection = self._usable()
        _check_durable(connection)
        try:
            self._lock_file(connection)
            raised = _raise_version(connection, transactional_id, expected_version)
            connection.execute("COMMIT")
        except BaseException:
            self._usable()
            raise
        self._is_left = False
        return raised

    def _lock_file(self, connection: sqlite3.Connection) -> None:
        """Begin to write. It is noted before it is done: an interrupt between would leave what nobody knows of."""
        if not connection.in_transaction:  # else somebody else's (another writer's), and SQLite refuses this one
            self._is_left = True
        connection.execute("BEGIN IMMEDIATE")

    def roll_back(self, connection: sqlite3.Connection) -> None:
        """End a transaction that is given up; where that is interrupted, the next use of the connection does it."""
        self._is_left = True
        self._end_left(connection)

    def _end_left(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._is_left = False
        except sqlite3.Error:
            self.close()  # a connection that cannot roll back must not be used again; its end does

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        row = self._usable().execute(_lite(statements.READ), (transactional_id,)).fetchone()
        return None if row is None else statements.stored_state(*row)

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        rows = self._usable().execute(statements.READ_ALL).fetchall()
        return {row[0]: statements.stored_state(*row[1:]) for row in rows}

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._is_left = self._connection, None, False
        if connection is not None:
            connection.close()


def _raise_version(connection: sqlite3.Connection, transactional_id: str, expected_version: int | None) -> int | None:
    """Inside a transaction."""
    if expected_version is None:
        connection.execute(_lite(statements.TAKE_OVER), (transactional_id,))
    else:
        values = (transactional_id, expected_version)
        if connection.execute(_lite(statements.TAKE_OVER_EXPECTED), values).rowcount == 0:
            return None
    row = connection.execute(_lite(statements.READ), (transactional_id,)).fetchone()
    return int(row[0])


def _opened(path: str | os.PathLike[str]) -> sqlite3.Connection:
    try:
        return sqlite3.connect(path, check_same_thread=False)
    except sqlite3.OperationalError as error:  # which does not say of which file
        raise sqlite3.OperationalError(f"{error}: {os.fspath(path)}") from error


def _check_durable(connection: sqlite3.Connection) -> None:
    (synchronous,) = connection.execute("PRAGMA synchronous").fetchone()
    (journal_mode,) = connection.execute("PRAGMA journal_mode").fetchone()
    is_in_memory = connection.execute(durability.SQLITE_IS_IN_MEMORY).fetchone() is not None
    durability.check_sqlite(synchronous, journal_mode, is_in_memory=is_in_memory)


def _lite(statement: str) -> str:
    """SQLite's placeholders. (No RETURNING: its statement stays open until it is read to the end.)"""
    return statement.replace(" RETURNING instance_version", "").replace("%s", "?")
