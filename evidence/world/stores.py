"""The databases of these tests, behind one face: open an adapter, write a row, read the rows of a transactional id."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from rocksdict import Options, Rdict
from sqlalchemy.orm import Session, sessionmaker

from oncelog.recipes import (
    Database,
    PsycopgDatabase,
    RocksDatabase,
    SqlAlchemyDatabase,
    SqlAlchemySessions,
    SqliteDatabase,
)
from oncelog.recipes.database import TABLE

CREATE = "CREATE TABLE IF NOT EXISTS written (transactional_id varchar(255), value bigint)"
INSERT = "INSERT INTO written VALUES (%s, %s)"
ROWS = "SELECT value FROM written WHERE transactional_id = %s ORDER BY value"
written = sa.table("written", sa.column("transactional_id"), sa.column("value"))


@dataclass(frozen=True)
class Store:
    """`open()` gives a migrated adapter; `write(handle, id, value)` a row; `rows(database, id)` what is committed."""

    name: str
    open: Callable[[], AbstractContextManager[Database[Any]]]
    write: Callable[[Any, str, int], None]
    rows: Callable[[Database[Any], str], list[int]]


def sqlite_store(folder: Path, *, busy_timeout_ms: int = 5000) -> Store:
    file = folder / "rows.sqlite3"

    @contextmanager
    def opened() -> Iterator[Database[Any]]:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(CREATE)
        with SqliteDatabase(file, busy_timeout_ms=busy_timeout_ms) as database:
            database.migrate()
            yield database

    def rows(_: Database[Any], transactional_id: str) -> list[int]:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            found = connection.execute(ROWS.replace("%s", "?"), (transactional_id,))
            return [value for (value,) in found]

    return Store("sqlite", opened, _insert_lite, rows)


def _insert_lite(handle: sqlite3.Connection, transactional_id: str, value: int) -> None:
    handle.execute(INSERT.replace("%s", "?"), (transactional_id, value))


def _insert(handle: Any, transactional_id: str, value: int) -> None:
    handle.execute(INSERT, (transactional_id, value))


def _insert_alchemy(handle: Any, transactional_id: str, value: int) -> None:
    handle.execute(sa.insert(written).values(transactional_id=transactional_id, value=value))


def psycopg_store(conninfo: str, *, stall_limit_ms: int = 10_000) -> Store:
    @contextmanager
    def opened() -> Iterator[Database[Any]]:
        with PsycopgDatabase(conninfo, stall_limit_ms=stall_limit_ms) as database:
            database.migrate()
            yield database

    def rows(_: Database[Any], transactional_id: str) -> list[int]:
        with psycopg.connect(conninfo) as connection:
            return [value for (value,) in connection.execute(ROWS, (transactional_id,))]

    return Store("postgresql", opened, _insert, rows)


def make_written(conninfo: str) -> None:
    """The business table, once: PostgreSQL refuses two who create it at the same moment."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute(CREATE)


def alchemy_store(url: str, *, sessions: bool = False) -> Store:
    def engine() -> sa.Engine:
        made = sa.create_engine(url)
        with made.begin() as connection:
            connection.execute(sa.text(CREATE))
        return made

    @contextmanager
    def opened() -> Iterator[Database[Any]]:
        made = engine()
        database: Database[Any] = SqlAlchemySessions(sessionmaker(made)) if sessions else SqlAlchemyDatabase(made)
        database.migrate()
        yield database
        made.dispose()

    def rows(_: Database[Any], transactional_id: str) -> list[int]:
        made = engine()
        with Session(made) as session:
            query = sa.select(written.c.value).where(written.c.transactional_id == transactional_id)
            found = [int(value) for value in session.execute(query.order_by(written.c.value)).scalars()]
        made.dispose()
        return found

    kind = url.partition(":")[0].partition("+")[0]
    return Store(f"sqlalchemy {kind}{' sessions' if sessions else ''}", opened, _insert_alchemy, rows)


def rocks_store(folder: Path, *, raw_mode: bool = False) -> Store:
    path = str(folder / "rocks")

    @contextmanager
    def opened() -> Iterator[Database[Any]]:
        families = {}
        if Path(path, "CURRENT").exists():
            families = {name: Options(raw_mode=raw_mode) for name in Rdict.list_cf(path)}
        rows = Rdict(path, Options(raw_mode=raw_mode), column_families=families)
        try:
            with RocksDatabase(rows, raw_mode=raw_mode) as database:
                database.migrate()
                yield database
        finally:
            rows.close()

    def write(handle: Any, transactional_id: str, value: int) -> None:
        handle[f"{transactional_id}/{value:012}".encode()] = b""

    def rows_of(database: Database[Any], transactional_id: str) -> list[int]:
        assert isinstance(database, RocksDatabase)
        prefix = f"{transactional_id}/".encode()
        found = []
        for key in database.rows.keys(from_key=prefix):
            if not key.startswith(prefix):
                break
            found.append(int(key[len(prefix) :]))
        return found

    return Store(f"rocksdb{' raw' if raw_mode else ''}", opened, write, rows_of)


__all__ = ["TABLE", "Store", "alchemy_store", "make_written", "psycopg_store", "rocks_store", "sqlite_store"]
