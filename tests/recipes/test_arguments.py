"""What a dual writer is made of is looked at when it is made."""

from __future__ import annotations

import asyncio
import contextlib
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from evidence.world.pausing_database import PausingDatabase

from oncelog import recipes
from oncelog.errors import ConfigurationError, InvalidArgument
from oncelog.recipes import (
    AsyncPsycopgDatabase,
    AsyncSqlAlchemyDatabase,
    DualWriter,
    PsycopgDatabase,
    RocksDatabase,
    SqlAlchemyDatabase,
    SqliteDatabase,
    sync,
)


@pytest.mark.parametrize(
    ("kind", "database", "says"),
    [
        (DualWriter, SqliteDatabase(":memory:"), "SqliteDatabase is for the blocking oncelog.recipes.sync.DualWriter"),
        (sync.DualWriter, AsyncPsycopgDatabase("x"), "AsyncPsycopgDatabase is for the asynchronous DualWriter"),
        (DualWriter, None, "database must be a database, not None: an adapter of oncelog.recipes"),
        (sync.DualWriter, "sqlite:///x", "an adapter of oncelog.recipes"),
        (sync.DualWriter, SqliteDatabase, "an adapter of oncelog.recipes"),
    ],
)
def test_a_database_of_the_wrong_kind_is_refused(kind: Any, database: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        kind(database, transactional_id="x")


@pytest.mark.parametrize(
    ("adapter", "says"),
    [
        (SqliteDatabase, "connect must be a file's name"),
        (PsycopgDatabase, "connect must be a connection string"),
        (AsyncPsycopgDatabase, "connect must be a connection string"),
        (SqlAlchemyDatabase, "engine must be an Engine of SQLAlchemy, not 5 .int.: create_engine"),
        (AsyncSqlAlchemyDatabase, "engine must be an AsyncEngine of SQLAlchemy"),
        (RocksDatabase, "rows must be an Rdict"),
        (recipes.open_database, "url must be"),
    ],
)
def test_an_adapter_of_something_else_is_refused(adapter: Any, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says), contextlib.ExitStack() as stack:
        stack.enter_context(adapter(5))


def test_a_function_that_gives_no_connection_is_named() -> None:
    with pytest.raises(InvalidArgument, match=r"connect must be a function that gives a psycopg.Connection, not None"):
        PsycopgDatabase(lambda: None).migrate()  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize(
    "wrong",
    [
        {"transactional_id": None},
        {"transactional_id": b"x"},
        {"transactional_id": "\ud800"},
        {"recovery_timeout_ms": 1.5},
        {"recovery_timeout_ms": -1},
        {"wait_for_completion": "no"},
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    database = SqliteDatabase(":memory:")
    with pytest.raises(InvalidArgument, match=next(iter(wrong))):
        sync.DualWriter(database, **{"transactional_id": "x", **wrong})
    with pytest.raises(ConfigurationError, match="linger_ms"):
        sync.DualWriter(database, transactional_id="x", linger_ms=[])


def test_a_wrong_argument_of_a_transaction_begins_none() -> None:
    async def main() -> None:
        database = PausingDatabase()
        writer = DualWriter(database, transactional_id="x", bootstrap_servers="127.0.0.1:1")
        with pytest.raises(InvalidArgument, match="wait_for_completion"):
            async with writer.transaction(wait_for_completion="yes"):  # type: ignore[arg-type]
                pass
        await database.close()

    asyncio.run(main())


@pytest.mark.parametrize("name", ["", "  "])
def test_a_file_without_a_name_is_refused(name: str) -> None:
    """SQLite keeps such a one until its connection ends: rows were gone that had been told to be committed."""
    with pytest.raises(
        InvalidArgument, match=r"connect must be a file's name.*: what is written under this one is lost"
    ):
        SqliteDatabase(name)


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "rows.db"
    with pytest.raises(sqlite3.OperationalError, match=re.escape(f"unable to open database file: {path}")):
        SqliteDatabase(path).migrate()
