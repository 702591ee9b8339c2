"""Dual writes with PostgreSQL through psycopg 3, blocking and async.

One connection per adapter, made when it is needed, and made anew when it was lost or a transaction on it did not end as it
should: after an interrupt psycopg itself may have lost count of its blocks, and it would refuse every later one. Rows are
written through `handle`, a psycopg connection inside `connection.transaction()`: psycopg refuses `commit` and `rollback` there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

from oncelog.client import arguments
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import IllegalState, missing
from oncelog.recipes import durability, statements
from oncelog.recipes.database import STALL_LIMIT_MS

try:
    import psycopg
except ImportError as error:
    raise missing("oncelog.recipes", error, psycopg="sql") from error

Connection = psycopg.Connection[Any]
AsyncConnection = psycopg.AsyncConnection[Any]


class _Rollback(Exception):
    """Ends a transaction() block."""


class _Open:
    """psycopg's transaction. Once it has begun its connection is left to nobody else, unless it ends as it should."""

    def __init__(self, owner: PsycopgDatabase, connection: Connection, stall_limit_ms: int) -> None:
        self.handle = connection
        self._owner, self._stall_limit_ms = owner, stall_limit_ms
        self._block = connection.transaction()
        self._is_asked = self._is_given_up = False

    def begin(self) -> _Open:
        try:
            self._block.__enter__()
        except BaseException:
            _end(self.handle)  # it may have begun
            raise
        return self

    def store(self, transactional_id: str, stored: StoredState) -> bool:
        _check_in_transaction(self.handle)
        values = (str(stored.prepared_state), transactional_id, stored.instance_version, str(self._stall_limit_ms))
        return self.handle.execute(statements.STORE_POSTGRESQL, values).rowcount == 1

    def hold(self) -> None:
        self.handle.execute(statements.HOLD)

    def commit(self) -> None:
        self._is_asked = True
        self._block.__exit__(None, None, None)
        self._owner.ended(self.handle)

    def rollback(self) -> None:
        if not self._is_asked and not self._is_given_up:
            self._is_given_up = True
            with contextlib.suppress(psycopg.Error):
                self._block.__exit__(_Rollback, _Rollback(), None)
                if _is_idle(self.handle):
                    self._owner.ended(self.handle)
                    return
        _end(self.handle)  # nobody knows what it is at


class PsycopgDatabase:
    """PostgreSQL, blocking. `connect`: a connection string, or a function that gives a new connection.

    `stall_limit_ms`: how long an instance that stops just before its commit may hold up a newer one.
    """

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(self, connect: str | Callable[[], Connection], *, stall_limit_ms: int = STALL_LIMIT_MS) -> None:
        _check_connect(connect)
        self._connect, self._stall_limit_ms = connect, stall_limit_ms
        self._connection: Connection | None = None
        self._is_left = False  # a transaction was begun on the connection, and has not ended as it should

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _usable(self) -> Connection:
        connection = self._connection
        if connection is None or self._is_left or not _is_idle(connection):
            self.close()
            if isinstance(self._connect, str):
                connection = psycopg.connect(self._connect, autocommit=True)
            else:
                connection = self._connect()
                _check_given(connection, psycopg.Connection)
                connection.autocommit = True
            self._connection = connection
        return connection

    def migrate(self) -> None:
        """Create `kafka_transaction_state` where it is missing."""
        try:
            self._usable().execute(statements.CREATE)
        except psycopg.errors.UniqueViolation:  # somebody else creates it at this moment
            self._usable().execute(statements.CREATE)

    def begin(self) -> _Open:
        """A transaction; `handle` is the connection."""
        try:
            return self._begin()
        except psycopg.OperationalError:  # the connection was lost while nobody used it
            return self._begin()

    def _begin(self) -> _Open:
        opened = _Open(self, self._usable(), self._stall_limit_ms)
        self._is_left = True  # noted before: an interrupt between would leave what nobody knows of
        return opened.begin()

    def ended(self, connection: Connection) -> None:
        """Its transaction has ended as it should: it may be used again."""
        if connection is self._connection:
            self._is_left = False

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version; waits for a writer that has stored its state and has not committed."""
        try:
            return self._take_over(transactional_id, expected_version)
        except psycopg.OperationalError:
            if expected_version is not None or self._connection is None or _is_idle(self._connection):
                raise
            return self._take_over(transactional_id, None)  # the connection was lost before; raised twice is harmless

    def _take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        connection = self._usable()
        durability.check_postgresql(connection.execute(durability.SELECT_POSTGRESQL).fetchone() or ())
        row = connection.execute(*_taking_over(transactional_id, expected_version)).fetchone()
        return None if row is None else int(row[0])

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        row = self._usable().execute(statements.READ, (transactional_id,)).fetchone()
        return None if row is None else statements.stored_state(*row)

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        rows = self._usable().execute(statements.READ_ALL).fetchall()
        return {row[0]: statements.stored_state(*row[1:]) for row in rows}

    def close(self) -> None:
        """Close the connection."""
        connection = self._connection
        if connection is not None and self._is_left:
            _end(connection)
        elif connection is not None:
            connection.close()
        self._connection, self._is_left = None, False  # only now: who is interrupted in it closes it again


class _AsyncOpen:
    """psycopg's transaction, open."""

    def __init__(self, connection: AsyncConnection, stall_limit_ms: int) -> None:
        self.handle = connection
        self._stall_limit_ms = stall_limit_ms
        self._block = connection.transaction()
        self._is_asked = self._is_given_up = False

    async def begin(self) -> _AsyncOpen:
        try:
            await self._block.__aenter__()
        except BaseException:
            await self.handle.close()  # it may have begun
            raise
        return self

    async def store(self, transactional_id: str, stored: StoredState) -> bool:
        _check_in_transaction(self.handle)
        values = (str(stored.prepared_state), transactional_id, stored.instance_version, str(self._stall_limit_ms))
        return (await self.handle.execute(statements.STORE_POSTGRESQL, values)).rowcount == 1

    async def hold(self) -> None:
        await self.handle.execute(statements.HOLD)

    async def commit(self) -> None:
        self._is_asked = True
        await self._block.__aexit__(None, None, None)

    async def rollback(self) -> None:
        if self._is_asked or self._is_given_up:
            await self.handle.close()  # nobody knows what it is at
            return
        self._is_given_up = True
        with contextlib.suppress(psycopg.Error):
            await self._block.__aexit__(_Rollback, _Rollback(), None)
            if _is_idle(self.handle):
                return
        await self.handle.close()


class AsyncPsycopgDatabase:
    """PostgreSQL, async. `connect`: a connection string, or a function that gives a new connection.

    `stall_limit_ms`: how long an instance that stops just before its commit may hold up a newer one.
    """

    errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def __init__(
        self, connect: str | Callable[[], Awaitable[AsyncConnection]], *, stall_limit_ms: int = STALL_LIMIT_MS
    ) -> None:
        _check_connect(connect)
        self._connect, self._stall_limit_ms = connect, stall_limit_ms
        self._connection: AsyncConnection | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _usable(self) -> AsyncConnection:
        connection = self._connection
        if connection is None or not _is_idle(connection):
            await self.close()
            if isinstance(self._connect, str):
                connection = await psycopg.AsyncConnection.connect(self._connect, autocommit=True)
            else:
                connection = await self._connect()
                _check_given(connection, psycopg.AsyncConnection)
                await connection.set_autocommit(True)
            self._connection = connection
        return connection

    async def migrate(self) -> None:
        """Create `kafka_transaction_state` where it is missing."""
        try:
            await (await self._usable()).execute(statements.CREATE)
        except psycopg.errors.UniqueViolation:  # somebody else creates it at this moment
            await (await self._usable()).execute(statements.CREATE)

    async def begin(self) -> _AsyncOpen:
        """A transaction; `handle` is the connection."""
        try:
            return await _AsyncOpen(await self._usable(), self._stall_limit_ms).begin()
        except psycopg.OperationalError:  # the connection was lost while nobody used it
            await self.close()
            return await _AsyncOpen(await self._usable(), self._stall_limit_ms).begin()

    async def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version; waits for a writer that has stored its state and has not committed."""
        try:
            return await self._take_over(transactional_id, expected_version)
        except psycopg.OperationalError:
            if expected_version is not None or self._connection is None or _is_idle(self._connection):
                raise
            return await self._take_over(transactional_id, None)

    async def _take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        connection = await self._usable()
        asked = await connection.execute(durability.SELECT_POSTGRESQL)
        durability.check_postgresql(await asked.fetchone() or ())
        row = await (await connection.execute(*_taking_over(transactional_id, expected_version))).fetchone()
        return None if row is None else int(row[0])

    async def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        row = await (await (await self._usable()).execute(statements.READ, (transactional_id,))).fetchone()
        return None if row is None else statements.stored_state(*row)

    async def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        rows = await (await (await self._usable()).execute(statements.READ_ALL)).fetchall()
        return {row[0]: statements.stored_state(*row[1:]) for row in rows}

    async def close(self) -> None:
        """Close the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


def _check_connect(connect: object) -> None:
    if not (callable(connect) or isinstance(connect, str)):
        raise arguments.refuse("connect", connect, "a connection string, or a function that gives a connection")


def _check_given(connection: object, kind: type[Any]) -> None:
    if not isinstance(connection, kind):
        raise arguments.refuse(
            "connect", connection, f"a function that gives a psycopg.{kind.__name__}", "it gave this"
        )


def _end(connection: Connection) -> None:
    """The server gives up what is open on it. (`close` alone does nothing more where it was interrupted before.)"""
    connection.pgconn.finish()
    connection.close()


def _is_idle(connection: Connection | AsyncConnection) -> bool:
    """Whether it is connected, as far as is known, and outside of any transaction."""
    return not connection.closed and connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE


def _check_in_transaction(connection: Connection | AsyncConnection) -> None:
    if not connection.closed and connection.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
        raise IllegalState("the transaction was ended by a statement of the application (COMMIT, ROLLBACK)")


def _taking_over(transactional_id: str, expected_version: int | None) -> tuple[str, tuple[Any, ...]]:
    if expected_version is None:
        return statements.TAKE_OVER, (transactional_id,)
    return statements.TAKE_OVER_EXPECTED, (transactional_id, expected_version)
