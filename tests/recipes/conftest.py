"""One broker and one PostgreSQL for these tests; each test uses transactional ids and topics of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from evidence.world import mariadb, postgresql
from evidence.world.mariadb import MariaDb
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import Store, alchemy_store, make_written, psycopg_store, rocks_store, sqlite_store

from oncelog.testing import TestBroker

_numbers = itertools.count(1)


@pytest.fixture
def name() -> str:
    """A transactional id, and a topic, of this test."""
    return f"orders-{next(_numbers)}"


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgreSql]:
    reason = postgresql.why_not()
    if reason is not None:
        pytest.skip(reason)
    with postgresql.running() as server:
        make_written(server.conninfo)
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MariaDb]:
    reason = mariadb.why_not()
    if reason is not None:
        pytest.skip(reason)
    with mariadb.running() as server:
        yield server


KINDS = [
    "sqlite",
    "rocksdb",
    "rocksdb raw",
    "postgresql",
    "sqlalchemy sqlite",
    "sqlalchemy sqlite sessions",
    "sqlalchemy postgresql",
    "sqlalchemy postgresql sessions",
    "sqlalchemy mariadb",
    "sqlalchemy mariadb sessions",
]


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Every adapter in turn."""
    kind: str = request.param
    sessions = kind.endswith("sessions")
    if "postgresql" in kind:
        server: PostgreSql = request.getfixturevalue("postgres")
        return alchemy_store(server.url, sessions=sessions) if "alchemy" in kind else psycopg_store(server.conninfo)
    if "mariadb" in kind:
        maria: MariaDb = request.getfixturevalue("mysql")
        return alchemy_store(maria.url, sessions=sessions)
    makers: dict[str, Callable[[], Store]] = {
        "sqlite": lambda: sqlite_store(tmp_path),
        "rocksdb": lambda: rocks_store(tmp_path),
        "rocksdb raw": lambda: rocks_store(tmp_path, raw_mode=True),
    }
    if kind in makers:
        return makers[kind]()
    return alchemy_store(f"sqlite:///{tmp_path / 'rows.sqlite3'}", sessions=sessions)


@pytest.fixture
def broker(oncelog_broker: TestBroker) -> str:
    """Its address."""
    return oncelog_broker.bootstrap_servers
