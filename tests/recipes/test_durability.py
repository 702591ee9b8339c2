"""A database that may forget what it acknowledged is refused, or told not to: at the start, and when it was changed later."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import alchemy_store, rocks_store
from evidence.world.topics import values_of
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from oncelog.errors import ConfigurationError
from oncelog.recipes import (
    AsyncPsycopgDatabase,
    AsyncSqlAlchemyDatabase,
    PsycopgDatabase,
    RocksDatabase,
    SqlAlchemyDatabase,
    SqlAlchemySessions,
    SqliteDatabase,
    StoredState,
)
from oncelog.recipes.durability import check_postgresql, check_sqlite
from oncelog.recipes.sync import DualWriter
from oncelog.types import PreparedTxnState

ONE = StoredState(1, PreparedTxnState("7:1"))
SHOW = "SELECT current_setting('synchronous_commit')"


@pytest.mark.parametrize("synchronous_commit", ["on", "local", "remote_write", "remote_apply"])
def test_postgresql_that_syncs(synchronous_commit: str) -> None:
    check_postgresql((synchronous_commit, "on", "on"))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (("off", "on", "on"), "synchronous_commit=off"),
        (("on", "off", "on"), "fsync=off"),
        (("on", "on", "off"), "full_page_writes=off"),
    ],
)
def test_postgresql_that_may_forget(values: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check_postgresql(values)


@pytest.mark.parametrize(
    ("synchronous", "journal_mode", "says"),
    [
        (3, "delete", ""),
        (2, "wal", ""),
        (2, "truncate", ""),
        (2, "persist", ""),
        (2, "delete", "EXTRA"),
        (1, "wal", "less than FULL"),
        (0, "delete", "less than FULL"),
        (3, "off", "journal_mode = off"),
        (3, "memory", "journal_mode = memory"),
    ],
)
def test_sqlite_settings(synchronous: int, journal_mode: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says) if says else contextlib.nullcontext():
        check_sqlite(synchronous, journal_mode, is_in_memory=False)
    check_sqlite(synchronous, journal_mode, is_in_memory=True)


# real ones


def test_sqlite_syncs_the_deletion_of_its_journal(tmp_path: pathlib.Path) -> None:
    with SqliteDatabase(tmp_path / "rows.db") as database:
        database.migrate()
        assert database.take_over("id", None) == 1
        opened = database.begin()
        assert opened.handle.execute("PRAGMA journal_mode").fetchone() == ("delete",)
        assert opened.handle.execute("PRAGMA synchronous").fetchone() == (3,)
        opened.rollback()


@pytest.mark.parametrize("kind", [SqlAlchemyDatabase, SqlAlchemySessions])
def test_sqlalchemy_has_sqlite_sync_it_too(tmp_path: pathlib.Path, kind: Any) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'rows.db'}")
    database = kind(engine if kind is SqlAlchemyDatabase else sessionmaker(engine))
    database.migrate()
    assert database.take_over("id", None) == 1
    engine.dispose()  # every connection is asked, not only the first
    opened = database.begin()
    assert opened.handle.execute(sa.text("PRAGMA synchronous")).scalar_one() == 3
    assert opened.store("id", ONE)
    opened.commit()
    engine.dispose()


def test_in_memory_nothing_is_promised() -> None:
    with SqliteDatabase(":memory:") as database:
        database.migrate()
        assert database.take_over("id", None) == 1


@pytest.mark.parametrize("pragma", ["journal_mode = MEMORY", "journal_mode = OFF", "synchronous = NORMAL"])
def test_sqlite_that_was_changed_by_who_connects_is_refused(tmp_path: pathlib.Path, pragma: str) -> None:
    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(tmp_path / "rows.db", check_same_thread=False)
        connection.execute(f"PRAGMA {pragma}")
        return connection

    with SqliteDatabase(connect) as database:
        database.migrate()
        with pytest.raises(ConfigurationError) if "journal" in pragma else contextlib.nullcontext():
            database.take_over("id", None)  # what the adapter can set itself it sets
    engine = sa.create_engine("sqlite://", creator=connect)
    with pytest.raises(ConfigurationError):
        SqlAlchemyDatabase(engine).take_over("id", None)
    engine.dispose()


@pytest.mark.parametrize("pragma", ["journal_mode = MEMORY", "synchronous = OFF", "synchronous = NORMAL"])
def test_sqlite_that_is_changed_later_writes_neither(
    tmp_path: pathlib.Path, broker: str, name: str, pragma: str
) -> None:
    def put(writer: DualWriter[sqlite3.Connection], value: int) -> sqlite3.Connection:
        with writer.transaction() as tx:
            tx.send(name, b"%d" % value, partition=0)
            tx.database.execute("INSERT INTO written VALUES (?)", (value,))
        return tx.database

    with SqliteDatabase(tmp_path / "rows.db") as database:
        database.migrate()
        with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
            with writer.transaction() as tx:
                tx.database.execute("CREATE TABLE written (value bigint)")
            handle = put(writer, 1)
            handle.execute(f"PRAGMA {pragma}")
            with pytest.raises(ConfigurationError):
                put(writer, 2)
            assert not handle.in_transaction, "nothing is left open"
            handle.execute("PRAGMA journal_mode = DELETE")
            handle.execute("PRAGMA synchronous = EXTRA")
            put(writer, 3)
        assert [value for (value,) in handle.execute("SELECT value FROM written")] == values_of(broker, name) == [1, 3]


def test_a_pooled_connection_that_somebody_changed_is_refused(tmp_path: pathlib.Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'rows.db'}", poolclass=sa.pool.StaticPool)
    database = SqlAlchemyDatabase(engine)
    database.migrate()
    assert database.take_over("id", None) == 1
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA synchronous = OFF")
    opened = database.begin()
    with pytest.raises(ConfigurationError, match="less than FULL"):
        opened.store("id", ONE)
    opened.rollback()
    engine.dispose()


# PostgreSQL


@pytest.mark.parametrize(("told", "in_force"), [("off", "on"), ("local", "local"), ("remote_apply", "remote_apply")])
def test_postgresql_that_was_told_not_to_wait_waits(postgres: PostgreSql, name: str, told: str, in_force: str) -> None:
    """A usual way to make a session quick. It is the transaction with the decision that must be on the disk."""
    engine = sa.create_engine(postgres.url)
    with PsycopgDatabase(postgres.conninfo) as driver:
        for database in (driver, SqlAlchemyDatabase(engine), SqlAlchemySessions(sessionmaker(engine))):
            database.migrate()
            version = database.take_over(name, None)
            assert version is not None
            opened: Any = database.begin()
            text: Any = str if database is driver else sa.text
            opened.handle.execute(text(f"SET LOCAL synchronous_commit = {told}"))
            assert opened.store(name, StoredState(version, ONE.prepared_state))
            assert opened.handle.execute(text(SHOW)).fetchone()[0] == in_force
            opened.commit()
    engine.dispose()


def test_with_asyncio_too(postgres: PostgreSql, name: str) -> None:
    async def main() -> None:
        engine = create_async_engine(postgres.url)
        async with AsyncPsycopgDatabase(postgres.conninfo) as driver:
            for database in (driver, AsyncSqlAlchemyDatabase(engine)):
                await database.migrate()
                version = await database.take_over(name, None)
                assert version is not None
                opened: Any = await database.begin()
                text: Any = str if database is driver else sa.text
                await opened.handle.execute(text("SET LOCAL synchronous_commit = off"))
                assert await opened.store(name, StoredState(version, ONE.prepared_state))
                shown = await opened.handle.execute(text(SHOW))
                assert (await shown.fetchone() if database is driver else shown.fetchone())[0] == "on"
                await opened.commit()
        await engine.dispose()

    asyncio.run(main())


@contextlib.contextmanager
def changed(server: PostgreSql, setting: str) -> Iterator[None]:
    """The server's configuration with `setting` off."""

    def change(statement: str, value: str) -> None:
        with psycopg.connect(server.conninfo, autocommit=True) as admin:
            admin.execute(statement)
            admin.execute("SELECT pg_reload_conf()")
            while admin.execute(f"SHOW {setting}").fetchone() != (value,):
                pass

    change(f"ALTER SYSTEM SET {setting} = off", "off")
    try:
        yield
    finally:
        change(f"ALTER SYSTEM RESET {setting}", "on")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes"])
def test_a_server_that_may_forget_is_refused(postgres: PostgreSql, name: str, setting: str) -> None:
    engine = sa.create_engine(postgres.url)
    with changed(postgres, setting), PsycopgDatabase(postgres.conninfo) as driver:
        for database in (driver, SqlAlchemyDatabase(engine)):
            database.migrate()
            with pytest.raises(ConfigurationError, match=f"{setting}=off"):
                database.take_over(name, None)
    engine.dispose()


# RocksDB


def test_every_batch_of_rocksdb_is_synced_through_its_log(tmp_path: pathlib.Path) -> None:
    class Watched:
        """An Rdict that notes how each batch is written."""

        def __init__(self, rows: Any) -> None:
            self._rows, self.options = rows, []

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self._rows, attribute)

        def write(self, batch: Any, options: Any) -> None:
            self.options.append((options.sync, options.disable_wal))
            self._rows.write(batch, options)

    with rocks_store(tmp_path).open() as database:
        assert isinstance(database, RocksDatabase)
        watched = Watched(database.rows)
        database.rows = watched
        assert database.take_over("id", None) == 1
        opened = database.begin()
        assert opened.store("id", ONE)
        opened.commit()
        assert watched.options == [(True, False)] * 2


def test_an_engine_that_commits_each_statement_is_refused(postgres: PostgreSql, broker: str, name: str) -> None:
    store = alchemy_store(postgres.url)
    engine = sa.create_engine(postgres.url, isolation_level="AUTOCOMMIT")
    with store.open() as other_database:
        database = SqlAlchemyDatabase(engine)
        with (
            DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer,
            pytest.raises(ConfigurationError, match="AUTOCOMMIT"),
            writer.transaction() as tx,
        ):
            store.write(tx.database, name, 0)
        assert store.rows(other_database, name) == []
    engine.dispose()
