"""What the adapters say and refuse by themselves: SQL per dialect, missing libraries, URLs, durability, the janitor's call."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
import subprocess
import sys

import pytest
import sqlalchemy as sa
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import Store, rocks_store
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.orm import sessionmaker
from sqlalchemy.schema import CreateTable

from oncelog import recipes
from oncelog.errors import ConfigurationError, IllegalState, OncelogError
from oncelog.recipes import (
    NotCommitted,
    RocksDatabase,
    SqlAlchemyDatabase,
    SqlAlchemySessions,
    SqliteDatabase,
    StoredState,
    find_in_doubt,
    metrics_text,
    open_database,
    resolve,
)
from oncelog.recipes.janitor import InDoubt, Verdict
from oncelog.recipes.opening import check_database_url, open_existing_database
from oncelog.recipes.sqlalchemy import states
from oncelog.sync import Admin
from oncelog.types import PreparedTxnState, TopicPartition

ONE = PreparedTxnState("7:1")


def test_a_row_per_transactional_id(store: Store, name: str) -> None:
    with store.open() as database:
        database.migrate()
        assert database.read(name) is None
        assert database.take_over(name, 1) is None
        assert database.take_over(name, None) == 1
        assert database.take_over(name, 1) == 2
        assert database.take_over(name, 1) is None
        assert database.read(name) == StoredState(2, PreparedTxnState())
        opened = database.begin()
        assert opened.store(name, StoredState(2, ONE))
        opened.commit()
        assert database.read(name) == StoredState(2, ONE)
        assert database.take_over(name, None) == 3
        late = database.begin()
        assert not late.store(name, StoredState(2, PreparedTxnState("7:2")))
        late.rollback()
        assert database.read_all()[name] == StoredState(3, ONE)


def test_rocksdb_looks_at_the_version_again_when_it_writes(tmp_path: pathlib.Path) -> None:
    with rocks_store(tmp_path).open() as database:
        assert isinstance(database, RocksDatabase)
        database.take_over("id", None)
        opened = database.begin()
        opened.handle["row"] = 1
        assert opened.handle["row"] == 1
        assert opened.store("id", StoredState(1, ONE))
        database.take_over("id", None)
        with pytest.raises(NotCommitted):
            opened.commit()
        assert "row" not in database.rows
        with pytest.raises(KeyError):
            database.begin().handle["row"]
        again = database.begin()
        again.handle.put("row", 2)
        again.handle.put("gone", 3)
        del again.handle["gone"]
        assert again.handle.get("gone", 9) == 9
        assert again.store("id", StoredState(2, ONE))
        again.commit()
        assert database.rows["row"] == 2
        assert "gone" not in database.rows


@pytest.mark.parametrize("isolation_level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_higher_isolation_levels_find_the_newer_instance_too(
    postgres: PostgreSql, name: str, isolation_level: str
) -> None:
    engine = sa.create_engine(postgres.url, isolation_level=isolation_level)
    database = SqlAlchemyDatabase(engine)
    database.migrate()
    assert database.take_over(name, None) == 1
    old = database.begin()
    assert old.handle.execute(sa.text("SELECT 1")).scalar_one() == 1  # its snapshot is from before
    assert database.take_over(name, None) == 2
    with pytest.raises(database.errors, match="could not serialize"):
        old.store(name, StoredState(1, ONE))
    old.rollback()
    new = database.begin()
    assert new.store(name, StoredState(2, ONE))
    new.commit()
    assert database.read(name) == StoredState(2, ONE)
    engine.dispose()


@pytest.mark.parametrize(
    ("dialect", "says"),
    [
        (mysql.dialect(), ["VARCHAR(255) COLLATE utf8mb4_bin", "ENGINE=InnoDB", "BIGINT NOT NULL"]),
        (postgresql.dialect(), ["VARCHAR(255) NOT NULL", "BIGINT NOT NULL"]),
        (sqlite.dialect(), ["VARCHAR(255) NOT NULL", "PRIMARY KEY (transactional_id)"]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_table_in_each_dialect(dialect: sa.Dialect, says: list[str]) -> None:
    text = str(CreateTable(states).compile(dialect=dialect))
    assert "CREATE TABLE kafka_transaction_state" in text
    for words in says:
        assert words in text


def test_sqlite_that_may_forget_is_refused(tmp_path: pathlib.Path) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")

    @sa.event.listens_for(engine, "connect")
    def careless(connection, _) -> None:
        connection.execute("PRAGMA synchronous = NORMAL")

    database = SqlAlchemyDatabase(engine)
    database.migrate()
    with pytest.raises(ConfigurationError, match="less than FULL"):
        database.take_over("id", None)
    engine.dispose()


def test_sessions_need_an_engine() -> None:
    with pytest.raises(ConfigurationError, match="bound to an Engine"):
        SqlAlchemySessions(sessionmaker())


def test_sqlite_takes_a_function_too(tmp_path: pathlib.Path) -> None:
    def connect() -> sqlite3.Connection:
        return sqlite3.connect(tmp_path / "x.db", check_same_thread=False)

    with SqliteDatabase(connect) as database:
        database.migrate()
        assert database.take_over("id", None) == 1


HIDE = """
import sys
for name in {hidden!r}: sys.modules[name] = None
try:
    from oncelog.recipes import {wanted}
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("hidden", "wanted", "extra"),
    [
        ("sqlalchemy", "SqlAlchemyDatabase", "sql"),
        ("psycopg", "PsycopgDatabase", "sql"),
        ("rocksdict", "RocksDatabase", "rocksdb"),
        ("kazoo", "ZooKeeperDatabase", "zookeeper"),
    ],
)
def test_a_missing_library_is_named_with_the_way_out(hidden: str, wanted: str, extra: str) -> None:
    code = HIDE.format(hidden=[hidden, f"{hidden}.client"], wanted=wanted)
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said.startswith("MissingLibrary oncelog.recipes: ")
    assert f"pip install 'oncelog[{extra}]'" in said


def test_the_rest_works_without_them() -> None:
    code = HIDE.format(
        hidden=["sqlalchemy", "psycopg", "rocksdict", "kazoo"],
        wanted="DualWriter, sync, SqliteDatabase, find_in_doubt, open_database",
    )
    assert not subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("hidden", "url", "said"),
    [
        ("sqlalchemy", "postgresql://app@db/shop", "pip install 'oncelog[sql]'"),
        ("kazoo.client", "zookeeper://host:1/root", "pip install 'oncelog[zookeeper]'"),
        ("rocksdict", "rocksdb:///folder", "pip install 'oncelog[rocksdb]'"),
        ("sqlalchemy", "sqlite:///orders.db", "opened SqliteDatabase"),
    ],
)
def test_a_url_says_what_it_lacks(tmp_path: pathlib.Path, hidden: str, url: str, said: str) -> None:
    code = (
        f"import sys; sys.modules.update({{{hidden!r}: None}})\n"
        "from oncelog.recipes import open_database\n"
        "try:\n"
        f"    with open_database({url!r}) as database: print('opened', type(database).__name__)\n"
        "except ImportError as error: print(type(error).__name__, error)\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert said in run.stdout


def test_every_public_name_is_there() -> None:
    for name in recipes.__all__:
        assert getattr(recipes, name).__doc__, name
    with pytest.raises(AttributeError):
        recipes.Nothing  # noqa: B018


def test_databases_by_url(tmp_path: pathlib.Path) -> None:
    with open_database(f"sqlite:///{tmp_path / 'x.db'}") as database:
        database.migrate()
        assert database.take_over("id", None) == 1
    with rocks_store(tmp_path, raw_mode=True).open() as made:
        made.take_over("id", None)
    with open_database(f"rocksdb://{tmp_path / 'rocks'}") as database:
        assert database.read("id") == StoredState(1, PreparedTxnState())
    with pytest.raises(ConfigurationError, match="not installed"), open_database("mysql+mysqlconnector://u@h/d"):
        pass


@pytest.mark.parametrize(
    "url",
    [
        "nope://x",
        "postgresql+nope://h/d",
        "postgresql://u@h:abc/d",
        "postgresql://[::1",
        "sqlite:",
        "x.db",
        "zookeeper:///root",
        "zookeeper://a:b",
    ],
)
def test_a_url_that_says_no_database(url: str) -> None:
    """Some were a traceback."""
    for refuses in (check_database_url, lambda url: open_database(url).__enter__()):
        with pytest.raises(ConfigurationError, match=r"^not a (database|ZooKeeper)'s URL: "):
            refuses(url)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://app:wrong@127.0.0.1:1/shop",
        "postgres://127.0.0.1/shop",
        "mysql+pymysql://127.0.0.1:1/shop",
        "zookeeper://127.0.0.1:1,[::1]:2/root",
        "zookeeper://a:1,b:2/root",
        "zookeeper://[::1]:2181",
        "rocksdb:///not/there/yet",
        "sqlite:////not/there/yet.db",
    ],
)
def test_a_database_that_is_down_may_come_back(url: str) -> None:
    check_database_url(url)


def test_an_empty_folder_is_not_the_working_directory() -> None:
    with pytest.raises(ConfigurationError, match="not a RocksDB's URL: 'rocksdb://'"):
        check_database_url("rocksdb://")


def test_a_look_makes_no_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "mistyped.db"
    with (
        pytest.raises(ConfigurationError, match="there is no database file"),
        open_existing_database(f"sqlite:///{path}"),
    ):
        pass
    assert not path.exists()
    with open_database(f"sqlite:///{path}") as database:
        database.migrate()
    with open_existing_database(f"sqlite:///{path}") as database:
        assert database.read("id") is None
    with open_existing_database("sqlite:///") as database:
        database.migrate()


def test_the_janitors_call(tmp_path: pathlib.Path, broker: str, name: str) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")), SqliteDatabase(tmp_path / "x.db") as database:
        database.migrate()
        found = [each for each in find_in_doubt(database, bootstrap_servers=broker) if each.transactional_id == name]
        assert found == []
        assert resolve(database, found, bootstrap_servers=broker) == []


def test_the_janitor_names_coordinators_that_are_offline(
    tmp_path: pathlib.Path, broker: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What they have is in no list, and an empty one is no all-clear."""
    away = [TopicPartition("__transaction_state", 3), TopicPartition("__consumer_offsets", 1)]
    monkeypatch.setattr(Admin, "offline_coordinators", lambda _: away)
    with SqliteDatabase(tmp_path / "x.db") as database:
        database.migrate()
        find_in_doubt(database, bootstrap_servers=broker)
    assert [each.getMessage().partition(":")[0] for each in caplog.records if each.name == "oncelog.janitor"] == [
        "__transaction_state-3 is offline"
    ]


def test_metrics_count_by_verdict() -> None:
    def doubt(stored: StoredState | None, duration_ms: int) -> InDoubt:
        return InDoubt("id", ONE, duration_ms, (), stored)

    found = [doubt(StoredState(1, ONE), 1500), doubt(StoredState(1, ONE), 2500), doubt(None, 10)]
    assert [each.verdict for each in found] == [Verdict.COMMIT, Verdict.COMMIT, Verdict.NOT_HERE]
    lines = metrics_text(found).splitlines()
    assert 'oncelog_in_doubt_transactions{verdict="commit"} 2' in lines
    assert 'oncelog_in_doubt_transactions{verdict="abort"} 0' in lines
    assert 'oncelog_in_doubt_oldest_seconds{verdict="commit"} 2.5' in lines


def test_what_sqlite_rolls_back_by_itself_is_noticed_through_sqlalchemy(tmp_path: pathlib.Path) -> None:
    """SQLAlchemy hears nothing of it: the rows before were gone, and the records were published."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/rows.sqlite3")
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE orders (what TEXT UNIQUE ON CONFLICT ROLLBACK)"))
        connection.execute(sa.text("INSERT INTO orders VALUES ('dup')"))
    for database in (SqlAlchemyDatabase(engine), SqlAlchemySessions(sessionmaker(engine))):
        database.migrate()
        version = database.take_over("x", None)
        assert version is not None
        opened = database.begin()
        opened.handle.execute(sa.text("INSERT INTO orders VALUES ('new')"))
        with pytest.raises(sa.exc.IntegrityError):
            opened.handle.execute(sa.text("INSERT INTO orders VALUES ('dup')"))
        with pytest.raises(IllegalState, match="was ended by the application"):
            opened.store("x", StoredState(version, ONE))
        opened.rollback()
    engine.dispose()


def test_a_rocksdb_that_another_process_has_is_told_without_a_traceback(tmp_path: pathlib.Path) -> None:
    with (
        rocks_store(tmp_path).open(),
        pytest.raises(OncelogError, match="it belongs to one process") as told,
        open_database(f"rocksdb://{tmp_path}/rocks"),
    ):
        pass
    assert "LOCK" in str(told.value)
