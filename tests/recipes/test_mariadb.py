"""What is MariaDB's and MySQL's own: durable settings, a session that stalls, a server that dies, the janitor by URL."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
import sqlalchemy as sa
from evidence.world import mariadb
from evidence.world.mariadb import MariaDb
from evidence.world.stores import alchemy_store
from evidence.world.topics import values_of
from sqlalchemy.orm import sessionmaker

from oncelog import sync
from oncelog.errors import ConfigurationError, IllegalState, InstanceFenced
from oncelog.recipes import (
    Database,
    Outcome,
    SqlAlchemyDatabase,
    SqlAlchemySessions,
    StoredState,
    find_in_doubt,
    open_database,
    resolve,
)
from oncelog.recipes.durability import check_mysql
from oncelog.recipes.janitor import Verdict
from oncelog.recipes.sync import DualWriter
from oncelog.types import PreparedTxnState

ONE = PreparedTxnState("7:1")


class Died(BaseException): ...


def die(*_: object) -> None:
    raise Died


def put(writer: DualWriter[Any], name: str, value: int) -> None:
    with writer.transaction() as tx:
        alchemy_store("mysql://").write(tx.database, name, value)
        tx.send(name, b"%d" % value, partition=0)


@pytest.mark.parametrize("settings", [(1, 0, 0), (3, 0, 0), (1, 1, 1)])
def test_durable_settings(settings: tuple[int, ...]) -> None:
    check_mysql(settings)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ((0, 0, 0), "innodb_flush"),
        ((2, 1, 1), "innodb_flush"),
        ((1, 1, 0), "sync_binlog=0"),
        ((1, 1, 7), "sync_binlog"),
    ],
)
def test_settings_that_may_forget_are_refused(settings: tuple[int, ...], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        check_mysql(settings)


def test_a_server_that_may_forget_is_refused(mysql: MariaDb, broker: str, name: str) -> None:
    engine = sa.create_engine(mysql.url)
    database = SqlAlchemyDatabase(engine)
    database.migrate()
    with engine.connect() as admin:
        admin.exec_driver_sql("SET GLOBAL innodb_flush_log_at_trx_commit = 2")
        try:
            writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
            with pytest.raises(ConfigurationError, match="innodb_flush_log_at_trx_commit=2"):
                writer.start()
            writer.stop()
        finally:
            admin.exec_driver_sql("SET GLOBAL innodb_flush_log_at_trx_commit = 1")
    engine.dispose()


def test_many_who_start_at_once_get_a_version_each(mysql: MariaDb, name: str) -> None:
    engine = sa.create_engine(mysql.url)
    SqlAlchemyDatabase(engine).migrate()
    versions: list[int | None] = []

    def take() -> None:
        versions.append(SqlAlchemyDatabase(engine).take_over(name, None))

    threads = [threading.Thread(target=take) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(version or 0 for version in versions) == list(range(1, 9))
    engine.dispose()


@pytest.mark.parametrize("kind", [SqlAlchemyDatabase, SqlAlchemySessions])
def test_a_session_that_stalls_just_before_its_commit_is_ended(mysql: MariaDb, name: str, kind: type[Any]) -> None:
    """It holds the row; the newer instance waits for `stall_limit_ms`, no longer. Other uses of the pool do not notice."""
    engine = sa.create_engine(mysql.url, pool_size=1, max_overflow=1)
    made: Database[Any] = kind(engine if kind is SqlAlchemyDatabase else sessionmaker(engine), stall_limit_ms=600)
    made.migrate()
    assert made.take_over(name, None) == 1
    ends = made.begin()
    assert ends.store(name, StoredState(1, ONE))
    ends.commit()
    gives_up = made.begin()
    assert gives_up.store(name, StoredState(1, PreparedTxnState("7:2")))
    gives_up.rollback()
    with engine.connect() as connection, engine.connect() as other:
        for each in (connection, other):
            assert each.exec_driver_sql("SELECT @@session.wait_timeout = @@global.wait_timeout").scalar_one() == 1
    stalls = made.begin()
    assert stalls.store(name, StoredState(1, PreparedTxnState("7:3")))
    assert made.take_over(name, None) == 2
    with pytest.raises(made.errors):
        stalls.commit()
    stalls.rollback()
    assert made.read(name) == StoredState(2, ONE)
    engine.dispose()


def test_the_older_of_two_instances_is_over(mysql: MariaDb, broker: str, name: str) -> None:
    store = alchemy_store(mysql.url)
    with store.open() as old, store.open() as new:
        first = DualWriter(old, transactional_id=name, bootstrap_servers=broker)
        first.start()
        put(first, name, 1)
        with DualWriter(new, transactional_id=name, bootstrap_servers=broker) as second:
            put(second, name, 2)
            with pytest.raises((InstanceFenced, Exception)):
                put(first, name, 3)
            with pytest.raises(InstanceFenced):
                put(first, name, 4)
            put(second, name, 5)
        first.stop()
        assert store.rows(new, name) == values_of(broker, name) == [1, 2, 5]


def test_the_janitor_by_url(mysql: MariaDb, broker: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = alchemy_store(mysql.url)
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        monkeypatch.setattr(sync.Producer, "begin_completing", die)
        with pytest.raises(Died):
            put(writer, name, 1)
        monkeypatch.undo()
    with open_database(mysql.url) as database:
        found = [each for each in find_in_doubt(database, bootstrap_servers=broker) if each.transactional_id == name]
        assert [each.verdict for each in found] == [Verdict.COMMIT]
        assert [each.is_committed for each in resolve(database, found, bootstrap_servers=broker)] == [True]
        assert store.rows(database, name) == values_of(broker, name) == [1]


@pytest.mark.parametrize("is_committed", [True, False])
def test_a_server_that_dies_around_the_commit(
    broker: str, name: str, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    reason = mariadb.why_not()
    if reason is not None:
        pytest.skip(reason)
    with mariadb.running() as server, alchemy_store(server.url).open() as database:
        begin = database.begin

        def dies_at_its_commit() -> Any:
            opened = begin()
            commit = opened.commit

            def dies() -> None:
                if is_committed:
                    commit()
                server.stop(signal.SIGKILL)
                server.start()
                if is_committed:
                    raise sa.exc.OperationalError("COMMIT", {}, ConnectionError("no answer"))
                commit()

            opened.commit = dies  # type: ignore[method-assign]
            return opened

        with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
            put(writer, name, 1)
            monkeypatch.setattr(database, "begin", dies_at_its_commit)
            with pytest.raises(database.errors) if not is_committed else monkeypatch.context():
                put(writer, name, 2)
            monkeypatch.setattr(database, "begin", begin)
            assert writer.recover() is (Outcome.COMMITTED if is_committed else Outcome.ROLLED_BACK)
            put(writer, name, 3)
            writer.complete()
            rows = alchemy_store(server.url).rows(database, name)
            assert rows == values_of(broker, name) == ([1, 2, 3] if is_committed else [1, 3])


def test_a_statement_that_commits_by_itself_is_noticed(mysql: MariaDb, broker: str, name: str) -> None:
    """MySQL does so before each CREATE TABLE: the row stays, and no record goes with it."""
    store = alchemy_store(mysql.url)
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with pytest.raises(IllegalState, match="was ended by"), writer.transaction() as tx:
            store.write(tx.database, name, 0)
            tx.send(name, b"0", partition=0)
            tx.database.execute(sa.text(f"CREATE TABLE `made_{name}` (value bigint)"))
        put(writer, name, 1)
        assert values_of(broker, name) == [1]


def test_an_engine_that_commits_each_statement_is_refused(mysql: MariaDb, broker: str, name: str) -> None:
    store = alchemy_store(mysql.url)
    engine = sa.create_engine(mysql.url, isolation_level="AUTOCOMMIT")
    with store.open() as other_database:
        with (
            DualWriter(SqlAlchemyDatabase(engine), transactional_id=name, bootstrap_servers=broker) as writer,
            pytest.raises(ConfigurationError, match="AUTOCOMMIT"),
            writer.transaction() as tx,
        ):
            store.write(tx.database, name, 0)
        assert store.rows(other_database, name) == []
    engine.dispose()
