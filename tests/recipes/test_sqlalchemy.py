"""Places in the pool: whatever fails, and wherever a task is cancelled, each connection is given back."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sqlite3
from collections.abc import Awaitable, Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from evidence.world.postgresql import PostgreSql
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.orm import sessionmaker

from oncelog.core.two_phase.dual_write import StoredState
from oncelog.recipes import AsyncSqlAlchemyDatabase, sqlalchemy
from oncelog.recipes.sqlalchemy import SqlAlchemyDatabase, SqlAlchemySessions
from oncelog.types import PreparedTxnState

STORED = StoredState(1, PreparedTxnState.of(1, 1))
PLACES = {"pool_size": 2, "max_overflow": 0, "pool_timeout": 1}
ROW = sa.text("INSERT INTO business VALUES (1)")


class Draw:
    """Of the calls of SQLite's driver: from the so many-th on each fails, those at the end of a transaction too, or one only."""

    def __init__(self) -> None:
        self.count, self.at, self.lasts, self.kind = 0, 0, False, sqlite3.OperationalError
        self.struck = False

    def called(self) -> None:
        self.count += 1
        if self.at and (self.count == self.at or (self.lasts and self.count > self.at)):
            self.struck = True
            raise self.kind("drawn")

    def connect(self, path: str) -> sqlite3.Connection:
        draw = self

        class Cursor(sqlite3.Cursor):
            def execute(self, *given: Any) -> Any:
                draw.called()
                return super().execute(*given)

        class Connection(sqlite3.Connection):
            def cursor(self, *_: Any) -> Any:
                return super().cursor(Cursor)

            def commit(self) -> None:
                draw.called()
                super().commit()

            def rollback(self) -> None:
                draw.called()
                super().rollback()

        return sqlite3.connect(path, factory=Connection, check_same_thread=False)


def write(database: Any) -> None:
    opened = database.begin()
    try:
        opened.handle.execute(ROW)
        opened.store("x", STORED)
        opened.commit()
    except BaseException:
        opened.rollback()
        raise


def take_over(database: Any) -> None:
    database.take_over("x", None)


def read(database: Any) -> None:
    database.read_all()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """What it would give back is lost until then."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("kind", [sqlite3.OperationalError, KeyboardInterrupt])
@pytest.mark.parametrize("lasts", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("work", [write, take_over, read])
@pytest.mark.parametrize("sessions", [False, True])
def test_whatever_fails_a_place_is_given_back(
    tmp_path: Path, *, sessions: bool, work: Callable[[Any], None], lasts: bool, kind: type[Any]
) -> None:
    """Where a rollback failed, too, a connection kept its place until the garbage collector came."""
    draw, at = Draw(), 0
    engine = sa.create_engine(
        "sqlite://", creator=lambda: draw.connect(str(tmp_path / "rows")), poolclass=sa.QueuePool, **PLACES
    )
    database = SqlAlchemySessions(sessionmaker(engine)) if sessions else SqlAlchemyDatabase(engine)
    database.migrate()
    database.take_over("x", None)
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE business (value INTEGER)"))
    while True:
        at += 1
        draw.at, draw.count, draw.lasts, draw.kind, draw.struck = at, 0, lasts, kind, False
        with contextlib.suppress(sa.exc.SQLAlchemyError, sqlite3.Error, KeyboardInterrupt):
            work(database)
        draw.at = 0
        assert engine.pool.checkedout() == 0, at  # type: ignore[attr-defined]
        if not draw.struck:
            break
    assert at > 2
    work(database)
    engine.dispose()


@pytest.mark.parametrize(
    ("text", "dialect", "has_ended"),
    [
        ("COMMIT", "mysql", True),
        ("-- so\nrollback and chain", "mysql", True),
        ("START TRANSACTION READ ONLY", "mysql", True),
        ("begin", "postgresql", False),
        ("ROLLBACK TO SAVEPOINT a", "mysql", False),
        ("BEGIN NOT ATOMIC SELECT 1; END", "mysql", False),
        ("INSERT INTO t VALUES ('x'); COMMIT", "mysql", False),
        ("COMMITTED", "mysql", False),
    ],
)
def test_the_text_says_it_where_the_driver_tells_nothing(text: str, dialect: str, *, has_ended: bool) -> None:
    """As mysqlclient; what stands behind another statement is not noticed."""
    connection: Any = SimpleNamespace(
        dialect=SimpleNamespace(name=dialect), connection=SimpleNamespace(driver_connection=object())
    )
    watch = sqlalchemy._Watch.__new__(sqlalchemy._Watch)
    watch.has_ended, watch._was_open = False, dialect == "postgresql"
    watch._executed(connection, None, text)
    assert watch.has_ended is has_ended


class Steps:
    """Cancels its task where it waits for the so many-th time."""

    def __init__(self, work: Awaitable[None], at: int) -> None:
        self._work, self._at, self.count = work, at, 0

    def __await__(self) -> Generator[Any, Any, None]:
        steps, error = self._work.__await__(), None
        while True:
            try:
                waits_for = next(steps) if error is None else steps.throw(error)  # type: ignore[attr-defined]
            except StopIteration:
                return
            error = None
            self.count += 1
            if self.count == self._at:
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                yield waits_for
            except asyncio.CancelledError as thrown:
                error = thrown


async def write_async(database: AsyncSqlAlchemyDatabase) -> None:
    opened = await database.begin()
    try:
        await opened.handle.execute(sa.text("SELECT 1"))
        await opened.store("pool", STORED)
        await opened.commit()
    except BaseException:
        await asyncio.shield(opened.rollback())
        raise


async def take_over_async(database: AsyncSqlAlchemyDatabase) -> None:
    await database.take_over("pool", None)


async def read_async(database: AsyncSqlAlchemyDatabase) -> None:
    await database.read_all()


@pytest.mark.parametrize("is_cold", [False, True], ids=["connected before", "connecting"])
def test_wherever_a_task_is_cancelled_a_place_is_given_back(postgres: PostgreSql, *, is_cold: bool) -> None:
    async def work() -> None:
        engine = create_async_engine(postgres.url, **PLACES)
        database = AsyncSqlAlchemyDatabase(engine)
        await database.migrate()
        for each in (write_async, take_over_async, read_async):
            for at in range(1, 100):
                if is_cold:
                    await engine.dispose()
                steps = Steps(each(database), at)

                async def taken(steps: Steps = steps) -> None:
                    await steps

                task = asyncio.create_task(taken())
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                others = asyncio.all_tasks() - {asyncio.current_task()}  # SQLAlchemy gives it back in a task of its own
                await asyncio.gather(*others, return_exceptions=True)
                assert engine.sync_engine.pool.checkedout() == 0, (each, at)  # type: ignore[attr-defined]
                if steps.count < at:
                    break
            assert at > 3
        await engine.dispose()

    asyncio.run(work())
