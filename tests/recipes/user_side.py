"""Dual writes as a user's type checker sees them: `make lint` runs mypy --strict on this file. Nothing here is run."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, assert_type

import psycopg
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.orm import Session, sessionmaker

from oncelog.client.delivery import Delivery
from oncelog.recipes import (
    AsyncDatabase,
    AsyncPsycopgDatabase,
    AsyncSqlAlchemyDatabase,
    Database,
    DualWriter,
    InDoubt,
    Outcome,
    PsycopgDatabase,
    RocksDatabase,
    SqlAlchemyDatabase,
    SqlAlchemySessions,
    SqliteDatabase,
    StoredState,
    ZooKeeperDatabase,
    find_in_doubt,
    open_database,
    resolve,
    sync,
)
from oncelog.recipes.janitor import Resolved
from oncelog.recipes.rocksdb import RocksWrites
from oncelog.sync import SentRecord
from oncelog.types import PreparedTxnState


def blocking(engine: sa.Engine, sessions: sessionmaker[Session]) -> None:
    with sync.DualWriter(SqliteDatabase("x"), transactional_id="x") as lite, lite.transaction() as tx:
        assert_type(tx.database, sqlite3.Connection)
        assert_type(tx.send("topic", b"value", key=b"key"), SentRecord)
        assert_type(tx.prepare(), PreparedTxnState)
    with sync.DualWriter(PsycopgDatabase("x"), transactional_id="x") as postgres, postgres.transaction() as py:
        assert_type(py.database, psycopg.Connection[Any])
    with sync.DualWriter(SqlAlchemyDatabase(engine), transactional_id="x") as alchemy, alchemy.transaction() as al:
        assert_type(al.database, sa.Connection)
    with sync.DualWriter(SqlAlchemySessions(sessions), transactional_id="x") as orm, orm.transaction() as se:
        assert_type(se.database, Session)
    assert_type(orm.recover(), Outcome | None)


def key_values(rows: Any, client: Any) -> None:
    with sync.DualWriter(RocksDatabase(rows), transactional_id="x") as rocks, rocks.transaction() as tx:
        assert_type(tx.database, RocksWrites)
    zookeeper: Database[Any] = ZooKeeperDatabase(client)
    assert_type(zookeeper.read_all(), Mapping[str, StoredState])


async def asynchronous(engine: AsyncEngine) -> None:
    async with DualWriter(AsyncPsycopgDatabase("x"), transactional_id="x") as writer, writer.transaction() as tx:
        assert_type(tx.database, psycopg.AsyncConnection[Any])
        assert_type(await tx.send("topic", b"value"), Delivery)
        assert_type(await tx.prepare(), PreparedTxnState)
    alchemy: AsyncDatabase[AsyncConnection] = AsyncSqlAlchemyDatabase(engine)
    async with DualWriter(alchemy, transactional_id="x") as other, other.transaction() as al:
        assert_type(al.database, AsyncConnection)
    assert_type(await other.recover(), Outcome | None)


def janitor() -> None:
    with open_database("sqlite:///x") as database:
        found = find_in_doubt(database, bootstrap_servers="x")
        assert_type(found, list[InDoubt])
        assert_type(resolve(database, found, bootstrap_servers="x"), list[Resolved])


def mistakes(engine: sa.Engine) -> None:
    """Each is found by a type checker: `warn_unused_ignores` fails where one is not."""
    database = SqlAlchemyDatabase(engine)
    sync.DualWriter(database, transactional_id="x", linger_msec=5)  # type: ignore[call-arg]
    sync.DualWriter(database, transactional_id="x", linger_ms="5")  # type: ignore[arg-type]
    sync.DualWriter(database, transactional_id="x", transaction_timeout_ms=5)  # type: ignore[call-arg]
    DualWriter(AsyncSqlAlchemyDatabase(None), transactional_id="x")  # type: ignore[arg-type]
    find_in_doubt(database, bootstrap_server="x")  # type: ignore[call-arg]
    resolve(database, [], linger_ms="5")  # type: ignore[arg-type]
