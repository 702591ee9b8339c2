"""Dual writes through SQLAlchemy 2: PostgreSQL, SQLite, MySQL and MariaDB; connections, ORM sessions, async connections.

`handle` is a Connection (Session, AsyncConnection) inside a transaction: do not commit it. `Session(bind=handle)` works.
MySQL and MariaDB: rows in InnoDB, with innodb_flush_log_at_trx_commit=1 (the default) and sync_binlog=1 where there is a
binary log: without it a commit can be lost that was acknowledged.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self

from oncelog.client import arguments
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.errors import ConfigurationError, IllegalState, missing
from oncelog.recipes import durability, statements
from oncelog.recipes.database import STALL_LIMIT_MS, TABLE
from oncelog.types import PreparedTxnState

try:
    import sqlalchemy as sa
    from sqlalchemy.dialects import mysql
    from sqlalchemy.exc import IntegrityError, SQLAlchemyError
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncTransaction
    from sqlalchemy.orm import Session, sessionmaker
except ImportError as error:
    raise missing("oncelog.recipes", error, sqlalchemy="sql") from error

metadata = sa.MetaData()
# MySQL compares text without regard to case unless told otherwise: two ids would share a row.
_ID = sa.String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
states = sa.Table(
    TABLE,
    metadata,
    sa.Column("transactional_id", _ID, primary_key=True),
    sa.Column("prepared_transaction_state", sa.String(64), nullable=False),
    sa.Column("instance_version", sa.BigInteger, nullable=False, autoincrement=False),
    mysql_engine="InnoDB",
    mariadb_engine="InnoDB",
)
MYSQL = ("mysql", "mariadb")
SERVER_STATUS_IN_TRANS = 1  # of MySQL's protocol
_COMMENTS = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|--[^\n]*\n)*"
_ENDS = re.compile(
    rf"{_COMMENTS}(?:commit|rollback|end|abort)(?:\s+(?:work|transaction))?\s*(?:;|\Z|and\s+chain\b)", re.IGNORECASE
)
_MYSQL_BEGINS = re.compile(
    rf"{_COMMENTS}(?:start\s+transaction\b|begin(?:\s+work)?\s*(?:;|\Z))", re.IGNORECASE
)  # commits first


def check_durable(connection: sa.Connection) -> None:
    """Raise ConfigurationError where a commit that is acknowledged could be lost."""
    name = connection.dialect.name
    if name == "postgresql":
        durability.check_postgresql(connection.exec_driver_sql(durability.SELECT_POSTGRESQL).one())
    if name in MYSQL:
        durability.check_mysql(connection.exec_driver_sql(durability.SELECT_MYSQL).one())
    if name == "sqlite":
        durability.check_sqlite(
            _ask_sqlite(connection, "PRAGMA synchronous")[0],
            _ask_sqlite(connection, "PRAGMA journal_mode")[0],
            is_in_memory=_ask_sqlite(connection, durability.SQLITE_IS_IN_MEMORY) is not None,
        )


def _sync_deletion_sqlite(connection: sa.Connection) -> None:
    """SQLite's default does not sync the deletion of the journal. It can be told so outside of a transaction only."""
    if connection.dialect.name != "sqlite":
        return
    if _ask_sqlite(connection, "PRAGMA synchronous") == (durability.SQLITE_FULL,):
        _ask_sqlite(connection, f"PRAGMA synchronous = {durability.SQLITE_EXTRA}")


def _ask_sqlite(connection: sa.Connection, statement: str) -> Any:
    """Its first row. (Not through the Connection: where that is interrupted its cursor stays open, and with one that has not
    come to its end SQLite commits nothing.)"""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(statement)
        return cursor.fetchone()
    finally:
        cursor.close()


def _limit_stall_mysql(connection: sa.Connection, stall_limit_ms: int) -> bool:
    """As STORE_POSTGRESQL: a session that stops before its commit is ended by the server. Whether `_lift` is needed."""
    if connection.dialect.name not in MYSQL:
        return False
    connection.exec_driver_sql(f"SET SESSION wait_timeout = {max(1, -(-stall_limit_ms // 1000))}")
    return True


def _lift(connection: sa.Connection) -> None:
    """The connection goes back to its pool: it may be idle for as long as others."""
    try:
        connection.exec_driver_sql("SET SESSION wait_timeout = DEFAULT")
    except SQLAlchemyError:
        connection.invalidate()


def _lock_sqlite(connection: sa.Connection) -> None:
    """A reader that turns writer can be refused at once in SQLite; BEGIN IMMEDIATE makes writers wait for one another."""
    if connection.dialect.name == "sqlite" and not getattr(connection.connection, "in_transaction", False):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


def _raise_version(connection: sa.Connection, transactional_id: str, expected_version: int | None) -> int | None:
    """Inside a transaction: raise it. IntegrityError: another instance has just created the row; do it again."""
    check_durable(connection)
    mine = states.c.transactional_id == transactional_id
    which = mine if expected_version is None else mine & (states.c.instance_version == expected_version)
    raised = states.c.instance_version + 1
    row = {"transactional_id": transactional_id, "prepared_transaction_state": "", "instance_version": 1}
    if expected_version is None and connection.dialect.name in MYSQL:
        # Two that find no row would both lock the gap where it will be, and InnoDB ends one of them as a deadlock.
        connection.execute(mysql.insert(states).values(**row).on_duplicate_key_update(instance_version=raised))
    elif connection.execute(states.update().where(which).values(instance_version=raised)).rowcount == 0:
        if expected_version is not None:
            return None
        connection.execute(states.insert().values(**row))
    return int(connection.execute(sa.select(states.c.instance_version).where(mine)).scalar_one())


def _store(connection: sa.Connection, transactional_id: str, stored: StoredState, stall_limit_ms: int) -> bool:
    mine = states.c.transactional_id == transactional_id
    which = mine & (states.c.instance_version == stored.instance_version)
    if connection.dialect.name == "postgresql":
        # See STORE_POSTGRESQL: a session that stops here must not hold the row for ever.
        limit = sa.func.set_config("idle_in_transaction_session_timeout", str(stall_limit_ms), True)
        which &= limit.is_not(None) & sa.text(f"{durability.FORCE_POSTGRESQL} IS NOT NULL")
    if connection.dialect.name == "sqlite":
        # SQLite itself rolls back for ON CONFLICT ROLLBACK, RAISE(ROLLBACK) and a full disk, and SQLAlchemy does not hear of it.
        _check_active(getattr(connection.connection.driver_connection, "in_transaction", True))
        check_durable(connection)  # whoever had this connection of the pool before may have changed it
    change = states.update().where(which).values(prepared_transaction_state=str(stored.prepared_state))
    return connection.execute(change).rowcount == 1


def _hold(connection: sa.Connection) -> None:
    """Records take their time: the limit of the session begins anew behind each statement."""
    if connection.dialect.name == "postgresql" or connection.dialect.name in MYSQL:
        connection.exec_driver_sql(statements.HOLD)


def _read(connection: sa.Connection, transactional_id: str) -> StoredState | None:
    row = connection.execute(sa.select(states).where(states.c.transactional_id == transactional_id)).first()
    return None if row is None else _state_of(row)


def _read_all(connection: sa.Connection) -> dict[str, StoredState]:
    return {row.transactional_id: _state_of(row) for row in connection.execute(sa.select(states))}


def _state_of(row: sa.Row[Any]) -> StoredState:
    return StoredState(int(row.instance_version), PreparedTxnState(row.prepared_transaction_state))


class _Watch:
    """Of a transaction on PostgreSQL, MySQL or MariaDB: whether a statement's text has ended it, or one that commits by itself,
    as each CREATE TABLE of MySQL does. (The driver begins another one with the next statement, so it is seen behind each.)"""

    def __init__(self, connection: sa.Connection) -> None:
        """Raises ConfigurationError where each statement commits by itself."""
        self.has_ended = False
        self._was_open = connection.dialect.name == "postgresql"  # MySQL: with the first statement that needs one
        if not self._was_open and connection.dialect.name not in MYSQL:
            return
        if _commits_each(connection.connection.dbapi_connection):
            raise ConfigurationError("this engine has isolation_level AUTOCOMMIT: rows would be committed one by one")
        sa.event.listen(connection, "after_cursor_execute", self._executed)

    def _executed(self, connection: sa.Connection, _cursor: object, statement: str, *_: object) -> None:
        is_open = _is_open(connection.connection.driver_connection)
        if _ENDS.match(statement) or (connection.dialect.name in MYSQL and _MYSQL_BEGINS.match(statement)):
            # The server may be in a transaction again, in another one; where the driver tells nothing the text has to do.
            self.has_ended = self.has_ended or self._was_open or is_open is None
        elif is_open is False and self._was_open:
            self.has_ended = True
        if is_open:
            self._was_open = True


def _commits_each(dbapi_connection: Any) -> bool:
    ask = getattr(dbapi_connection, "get_autocommit", None)  # PyMySQL's and its descendants'
    return bool(ask()) if ask is not None else getattr(dbapi_connection, "autocommit", None) is True


def _is_open(driver_connection: Any) -> bool | None:
    """What the server said last; None where the driver does not tell."""
    status = getattr(getattr(driver_connection, "info", None), "transaction_status", None)  # psycopg's, psycopg2's
    if status is not None:
        return bool(status)  # 0: idle
    if (ask := getattr(driver_connection, "is_in_transaction", None)) is not None:  # asyncpg's
        return bool(ask())
    if isinstance(status := getattr(driver_connection, "server_status", None), int):  # PyMySQL's, aiomysql's, asyncmy's
        return bool(status & SERVER_STATUS_IN_TRANS)
    is_open = getattr(driver_connection, "in_transaction", None)  # MySQL Connector's
    return is_open if isinstance(is_open, bool) else None


def _check_active(is_active: bool) -> None:
    if not is_active:
        raise IllegalState("the transaction was ended by the application (commit, rollback); its rows are not covered")


@contextmanager
def _interrupts() -> Iterator[None]:
    """Where it is interrupted, SQLAlchemy asserts what is not so yet, and the interrupt is only that error's context: it is
    what has to be heard."""
    try:
        yield
    except AssertionError as error:
        interrupt = error.__context__
        while isinstance(interrupt, AssertionError):
            interrupt = interrupt.__context__
        if interrupt is None or isinstance(interrupt, Exception):
            raise
        raise interrupt from None


def _keep_sqlite(context: sa.engine.ExceptionContext) -> None:
    """SQLAlchemy throws the connection of an interrupted statement away, and leaves its cursor open. With that SQLite's own
    stays: what it has locked is locked until nobody holds the exception any more. SQLite's connection is as good as before."""
    if not isinstance(context.original_exception, Exception):
        context.is_disconnect = False


def _free_sqlite(connection: Any, _record: Any) -> None:
    """The pool closes it, with whatever an interrupt has left open: as above."""
    if isinstance(connection, sqlite3.Connection):
        with contextlib.suppress(sqlite3.Error):
            connection.rollback()


def _listen(engine: sa.Engine) -> None:
    """Once per engine."""
    if engine.dialect.name == "sqlite" and not sa.event.contains(engine, "handle_error", _keep_sqlite):
        sa.event.listen(engine, "handle_error", _keep_sqlite)
        sa.event.listen(engine, "close", _free_sqlite)


def _give_back(connection: sa.Connection) -> None:
    """Its place in the pool is free then, however that goes: where the rollback fails that `close` begins with, the connection
    would keep its place until the garbage collector comes."""
    try:
        connection.close()
    except BaseException:
        with contextlib.suppress(SQLAlchemyError, AssertionError):
            connection.invalidate()
        connection.close()
        raise


def _discard(connection: sa.Connection) -> None:
    """Nobody knows what it is at: the pool makes a new one."""
    try:
        with contextlib.suppress(SQLAlchemyError, AssertionError, sqlite3.Error):
            if connection.dialect.name == "sqlite":  # it may be the only one, in memory; and see `_keep_sqlite`
                connection.connection.rollback()
            else:
                connection.invalidate()
    finally:
        with contextlib.suppress(SQLAlchemyError, AssertionError):
            _give_back(connection)


class _Open:
    """A Connection's transaction."""

    def __init__(self, connection: sa.Connection, stall_limit_ms: int) -> None:
        self.handle = connection
        self._stall_limit_ms = stall_limit_ms
        self._is_limited = self._is_asked = self._is_given_up = False

    def begin(self) -> None:
        """(Not where it is made: an interrupt could come between that and its first use, with locks that nobody frees.)"""
        try:
            with _interrupts():
                _sync_deletion_sqlite(self.handle)
                self._transaction = self.handle.begin()
                self._watch = _Watch(self.handle)
                _lock_sqlite(self.handle)
        except BaseException:
            _discard(self.handle)
            raise

    @_interrupts()
    def store(self, transactional_id: str, stored: StoredState) -> bool:
        _check_active(self._transaction.is_active and not self._watch.has_ended)
        self._is_limited = _limit_stall_mysql(self.handle, self._stall_limit_ms)
        return _store(self.handle, transactional_id, stored, self._stall_limit_ms)

    @_interrupts()
    def hold(self) -> None:
        _hold(self.handle)

    @_interrupts()
    def commit(self) -> None:
        self._is_asked = True
        self._transaction.commit()
        if self._is_limited:
            _lift(self.handle)
        self.handle.close()

    @_interrupts()
    def rollback(self) -> None:
        if self._transaction.is_active and not (self._is_limited or self._is_asked or self._is_given_up):
            self._is_given_up = True
            try:
                self._transaction.rollback()
                self.handle.close()
            except SQLAlchemyError:
                _discard(self.handle)
            except BaseException:
                _discard(self.handle)
                raise
        else:
            _discard(self.handle)


class SqlAlchemyDatabase:
    """An Engine of SQLAlchemy 2; `handle` is a Connection.

    `stall_limit_ms`: how long an instance that stops just before its commit may hold up a newer one (PostgreSQL; MySQL
    and MariaDB in whole seconds).
    """

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, engine: sa.Engine, *, stall_limit_ms: int = STALL_LIMIT_MS) -> None:
        if not isinstance(engine, sa.Engine):
            raise arguments.refuse("engine", engine, "an Engine of SQLAlchemy", "create_engine(url) makes one")
        self._engine, self._stall_limit_ms = engine, stall_limit_ms
        _listen(engine)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def migrate(self) -> None:
        """Create `kafka_transaction_state` where it is missing. For Alembic: `oncelog.recipes.sqlalchemy.metadata`."""
        metadata.create_all(self._engine, checkfirst=True)

    def begin(self) -> _Open:
        """A transaction; `handle` is its Connection."""
        opened = _Open(self._engine.connect(), self._stall_limit_ms)
        opened.begin()
        return opened

    def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version; waits for a writer that has stored its state and has not committed."""
        try:
            with self._writing() as connection:
                return _raise_version(connection, transactional_id, expected_version)
        except IntegrityError:
            with self._writing() as connection:
                return _raise_version(connection, transactional_id, expected_version)

    @contextmanager
    def _writing(self) -> Iterator[sa.Connection]:
        with self._connected() as connection:
            _sync_deletion_sqlite(connection)
            with connection.begin():
                _lock_sqlite(connection)
                yield connection

    @contextmanager
    def _connected(self) -> Iterator[sa.Connection]:
        connection = self._engine.connect()
        try:
            with _interrupts():
                yield connection
                connection.close()
        except BaseException as error:
            if isinstance(error, Exception):
                with contextlib.suppress(SQLAlchemyError):
                    _give_back(connection)
            else:
                _discard(connection)
            raise

    def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        with self._connected() as connection:
            return _read(connection, transactional_id)

    def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        with self._connected() as connection:
            return _read_all(connection)

    def close(self) -> None:
        """Nothing: the engine is yours."""


class _OpenSession:
    """A Session's transaction, on a connection that is still ours when it has ended."""

    def __init__(self, sessions: sessionmaker[Session], connection: sa.Connection, stall_limit_ms: int) -> None:
        self._connection = connection
        self.handle = sessions(bind=connection)
        self._stall_limit_ms = stall_limit_ms
        self._is_limited = False

    def begin(self) -> None:
        """As `_Open.begin`."""
        try:
            with _interrupts():
                _sync_deletion_sqlite(self._connection)
                self._transaction = self.handle.begin()
                self._watch = _Watch(self.handle.connection())
                _lock_sqlite(self.handle.connection())
        except BaseException:
            self.rollback()
            raise

    @_interrupts()
    def store(self, transactional_id: str, stored: StoredState) -> bool:
        _check_active(self._transaction.is_active and self.handle.get_transaction() is self._transaction)
        self.handle.flush()
        _check_active(not self._watch.has_ended)
        connection = self.handle.connection()
        self._is_limited = _limit_stall_mysql(connection, self._stall_limit_ms)
        return _store(connection, transactional_id, stored, self._stall_limit_ms)

    @_interrupts()
    def hold(self) -> None:
        _hold(self.handle.connection())

    @_interrupts()
    def commit(self) -> None:
        self.handle.commit()
        self.handle.close()
        if self._is_limited:
            _lift(self._connection)
        self._connection.close()

    @_interrupts()
    def rollback(self) -> None:
        try:
            with contextlib.suppress(SQLAlchemyError, AssertionError):
                self.handle.close()
        finally:
            _discard(self._connection)


class SqlAlchemySessions:
    """A sessionmaker of SQLAlchemy's ORM; `handle` is a Session, flushed and committed with the topic.

    It needs `session.connection()` to be one connection: no sharding, no twophase=True.
    """

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, sessions: sessionmaker[Session], *, stall_limit_ms: int = STALL_LIMIT_MS) -> None:
        bind = sessions.kw.get("bind")
        if not isinstance(bind, sa.Engine):
            raise ConfigurationError("SqlAlchemySessions needs a sessionmaker that is bound to an Engine")
        self._engine, self._sessions, self._stall_limit_ms = bind, sessions, stall_limit_ms
        self._rest = SqlAlchemyDatabase(bind, stall_limit_ms=stall_limit_ms)
        self.migrate = self._rest.migrate
        self.take_over = self._rest.take_over
        self.read = self._rest.read
        self.read_all = self._rest.read_all
        self.close = self._rest.close

    def begin(self) -> _OpenSession:
        """A transaction; `handle` is its Session."""
        opened = _OpenSession(self._sessions, self._engine.connect(), self._stall_limit_ms)
        opened.begin()
        return opened


class _AsyncOpen:
    """An AsyncConnection's transaction."""

    def __init__(
        self, connection: AsyncConnection, transaction: AsyncTransaction, watch: _Watch, stall_limit_ms: int
    ) -> None:
        self.handle, self._watch = connection, watch
        self._transaction, self._stall_limit_ms = transaction, stall_limit_ms
        self._is_limited = self._is_asked = self._is_given_up = False

    async def store(self, transactional_id: str, stored: StoredState) -> bool:
        _check_active(self._transaction.is_active and not self._watch.has_ended)
        self._is_limited = await self.handle.run_sync(_limit_stall_mysql, self._stall_limit_ms)
        return await self.handle.run_sync(_store, transactional_id, stored, self._stall_limit_ms)

    async def hold(self) -> None:
        await self.handle.run_sync(_hold)

    async def commit(self) -> None:
        self._is_asked = True
        with _interrupts():
            await self._transaction.commit()
            if self._is_limited:
                await self.handle.run_sync(_lift)
            await self.handle.close()

    async def rollback(self) -> None:
        with _interrupts():
            if self._transaction.is_active and not (self._is_limited or self._is_asked or self._is_given_up):
                self._is_given_up = True
                with contextlib.suppress(SQLAlchemyError):
                    await self._transaction.rollback()
                    await self.handle.close()
                    return
            with contextlib.suppress(SQLAlchemyError, AssertionError):
                await self.handle.invalidate()
            await self.handle.close()


class AsyncSqlAlchemyDatabase:
    """An AsyncEngine of SQLAlchemy 2; `handle` is an AsyncConnection.

    `stall_limit_ms`: how long an instance that stops just before its commit may hold up a newer one (PostgreSQL; MySQL
    and MariaDB in whole seconds).
    """

    errors: tuple[type[Exception], ...] = (SQLAlchemyError,)

    def __init__(self, engine: AsyncEngine, *, stall_limit_ms: int = STALL_LIMIT_MS) -> None:
        if not isinstance(engine, AsyncEngine):
            raise arguments.refuse(
                "engine", engine, "an AsyncEngine of SQLAlchemy", "create_async_engine(url) makes one"
            )
        self._engine, self._stall_limit_ms = engine, stall_limit_ms

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def migrate(self) -> None:
        """Create `kafka_transaction_state` where it is missing."""
        async with self._engine.begin() as connection:
            await connection.run_sync(metadata.create_all, checkfirst=True)

    async def begin(self) -> _AsyncOpen:
        """A transaction; `handle` is its AsyncConnection."""
        connection = await self._engine.connect()
        try:
            await connection.run_sync(_sync_deletion_sqlite)
            transaction = await connection.begin()
            watch = await connection.run_sync(_Watch)
            await connection.run_sync(_lock_sqlite)
        except BaseException:
            await connection.close()
            raise
        return _AsyncOpen(connection, transaction, watch, self._stall_limit_ms)

    async def take_over(self, transactional_id: str, expected_version: int | None) -> int | None:
        """Raise the version; waits for a writer that has stored its state and has not committed."""
        try:
            async with self._writing() as connection:
                return await connection.run_sync(_raise_version, transactional_id, expected_version)
        except IntegrityError:
            async with self._writing() as connection:
                return await connection.run_sync(_raise_version, transactional_id, expected_version)

    @asynccontextmanager
    async def _writing(self) -> AsyncIterator[AsyncConnection]:
        async with self._engine.connect() as connection:
            await connection.run_sync(_sync_deletion_sqlite)
            async with connection.begin():
                await connection.run_sync(_lock_sqlite)
                yield connection

    async def read(self, transactional_id: str) -> StoredState | None:
        """The committed row."""
        async with self._engine.connect() as connection:
            return await connection.run_sync(_read, transactional_id)

    async def read_all(self) -> Mapping[str, StoredState]:
        """Every committed row."""
        async with self._engine.connect() as connection:
            return await connection.run_sync(_read_all)

    async def close(self) -> None:
        """Nothing: the engine is yours."""
