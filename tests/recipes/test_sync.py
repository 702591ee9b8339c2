"""The blocking writer on every adapter: the eight steps, failures on either side, fencing, what is refused."""

from __future__ import annotations

import contextlib
import os
import pathlib
import sqlite3
import threading
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from evidence.world.postgresql import PostgreSql
from evidence.world.stores import Store, psycopg_store, sqlite_store
from evidence.world.topics import open_transaction, values_of, wait_for_markers
from rocksdict import Rdict

from oncelog import Producer, TopicPartition, sync
from oncelog.client.interceptors import ProducerInterceptor
from oncelog.errors import ConfigurationError, IllegalState, InstanceFenced, KafkaError, NotBegun, OutcomeUnknown
from oncelog.recipes import (
    Database,
    NotCommitted,
    Outcome,
    PsycopgDatabase,
    RocksDatabase,
    SqlAlchemyDatabase,
    SqliteDatabase,
    find_in_doubt,
)
from oncelog.recipes.database import TABLE
from oncelog.recipes.sync import DualWriter
from oncelog.types import PreparedTxnState

HANGS_MS = 60_000


def put(writer: DualWriter[Any], store: Store, name: str, value: int) -> None:
    with writer.transaction() as tx:
        store.write(tx.database, name, value)
        tx.send(name, b"%d" % value, partition=0)


def agree(writer: DualWriter[Any], store: Store, database: Database[Any], broker: str, name: str) -> list[int]:
    writer.complete()
    rows = store.rows(database, name)
    assert values_of(broker, name) == rows
    return rows


def test_rows_and_records_are_written_together(store: Store, broker: str, name: str) -> None:
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        for value in range(3):
            put(writer, store, name, value)
        stored = database.read(name)
        assert stored is not None
        assert stored.instance_version == 1
        assert not stored.prepared_state.is_none
        assert database.read_all()[name] == stored
        assert agree(writer, store, database, broker, name) == [0, 1, 2]


def test_a_writer_starts_the_producer_that_it_was_made_with(tmp_path: pathlib.Path, broker: str, name: str) -> None:
    """Its interceptors live as long as the writer: none is made, or closed, beside them."""
    heard: list[str] = []

    class Hears(ProducerInterceptor):
        def __init__(self) -> None:
            heard.append("made")

        def close(self) -> None:
            heard.append("closed")

    store = sqlite_store(tmp_path)
    with store.open() as database:
        writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker, interceptor_classes=Hears)
        assert heard == ["made"]
        with writer:
            put(writer, store, name, 0)
            writer.complete()
            assert heard == ["made"]
    assert heard == ["made", "closed"]


def test_a_block_that_raises_writes_neither(store: Store, broker: str, name: str) -> None:
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        put(writer, store, name, 0)
        with pytest.raises(ZeroDivisionError), writer.transaction() as tx:
            store.write(tx.database, name, 1)
            tx.send(name, b"1", partition=0)
            raise ZeroDivisionError
        with pytest.raises(ZeroDivisionError), writer.transaction() as tx:
            store.write(tx.database, name, 2)
            tx.send(name, b"2", partition=0)
            tx.prepare()
            raise ZeroDivisionError
        put(writer, store, name, 3)
        assert agree(writer, store, database, broker, name) == [0, 3]


def test_a_newer_instance_fences_and_recovers(store: Store, broker: str, name: str) -> None:
    with store.open() as database:
        first = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
        first.start()
        put(first, store, name, 0)
        block = first.transaction()
        tx = block.__enter__()
        tx.send(name, b"1", partition=0)
        store.write(tx.database, name, 1)
        tx.prepare()
        if "sqlite" in store.name:  # its lock would keep the second waiting
            _release(first)
        with (
            other(store, database) as newer,
            DualWriter(newer, transactional_id=name, bootstrap_servers=broker) as second,
        ):
            put(second, store, name, 2)
            with pytest.raises((InstanceFenced, IllegalState, *database.errors)):
                block.__exit__(None, None, None)
            with pytest.raises(InstanceFenced):
                first.recover()
            put(second, store, name, 3)
            first.stop()
            assert agree(second, store, newer, broker, name) == [0, 2, 3]


def _release(writer: DualWriter[Any]) -> None:
    """SQLite: as if the older instance had lost its lock (its file system went away and came back)."""
    transaction = writer._open
    assert transaction is not None
    transaction.rollback()


@contextlib.contextmanager
def other(store: Store, database: Database[Any]):
    """A second adapter; RocksDB's process has only one."""
    if store.name.startswith("rocksdb"):
        yield database
    else:
        with store.open() as newer:
            yield newer


class Unreliable:
    """An adapter whose commit fails as told: before it happens, after it, or before it and then late."""

    def __init__(self, database: Database[Any], how: str) -> None:
        self._database, self.how = database, how
        self.errors = (*database.errors, ConnectionError)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def begin(self) -> Any:
        return _UnreliableOpen(self._database.begin(), self)


class _UnreliableOpen:
    def __init__(self, opened: Any, owner: Unreliable) -> None:
        self._opened, self._owner = opened, owner
        self.handle = opened.handle

    def store(self, *arguments: Any) -> bool:
        return bool(self._opened.store(*arguments))

    def rollback(self) -> None:
        self._opened.rollback()

    def commit(self) -> None:
        how, self._owner.how = self._owner.how, ""
        if how == "lost":
            raise ConnectionError("the request is lost")
        self._opened.commit()
        if how == "unanswered":
            raise ConnectionError("the answer is lost")


@pytest.mark.parametrize(("how", "rows"), [("lost", [0, 2]), ("unanswered", [0, 1, 2])])
def test_an_unknown_outcome_is_found_out(store: Store, broker: str, name: str, how: str, rows: list[int]) -> None:
    with store.open() as database:
        shaky = Unreliable(database, "")
        with DualWriter(shaky, transactional_id=name, bootstrap_servers=broker) as writer:
            put(writer, store, name, 0)
            shaky.how = how
            with pytest.raises(ConnectionError, match="the request") if how == "lost" else contextlib.nullcontext():
                put(writer, store, name, 1)
            assert writer.recover() is (Outcome.ROLLED_BACK if how == "lost" else Outcome.COMMITTED)
            put(writer, store, name, 2)
            assert agree(writer, store, database, broker, name) == rows


def test_an_instance_that_died_before_it_completed_the_topic_is_completed(
    store: Store, broker: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Died(BaseException): ...

    def die(*_: object) -> None:
        raise Died

    with store.open() as database:
        with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
            put(writer, store, name, 0)
            with monkeypatch.context() as patch:
                patch.setattr(sync.Producer, "begin_completing", die)
                with pytest.raises(Died):
                    put(writer, store, name, 1)
        assert open_transaction(broker, name) == "Ongoing"
        assert values_of(broker, name) == [0]
        with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as successor:
            assert agree(successor, store, database, broker, name) == [0, 1]


def test_a_transaction_that_the_application_ended_itself_is_refused(store: Store, broker: str, name: str) -> None:
    if store.name.startswith("rocksdb"):
        pytest.skip("its handle has no commit")
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with pytest.raises((IllegalState, *database.errors)), writer.transaction() as tx:
            store.write(tx.database, name, 0)
            tx.send(name, b"0", partition=0)
            tx.database.rollback()
        put(writer, store, name, 1)
        assert agree(writer, store, database, broker, name) == [1]


@pytest.mark.parametrize("text", ["ROLLBACK", "COMMIT", "COMMIT AND CHAIN", "/* so */ rollback work\nand chain"])
def test_a_transaction_that_sql_text_has_ended_is_refused(store: Store, broker: str, name: str, text: str) -> None:
    if store.name.startswith("rocksdb"):
        pytest.skip("it has no SQL")
    if "chain" in text.lower() and ("sqlalchemy" not in store.name or "sqlite" in store.name):
        pytest.skip("SQLite has no such; of psycopg's own it is not noticed (docs/dual-writes.md)")
    statement: Any = sa.text(text) if "sqlalchemy" in store.name else text
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with pytest.raises(IllegalState, match="was ended by"), writer.transaction() as tx:
            tx.send(name, b"0", partition=0)
            if "mysql" in store.name:  # it begins one with the first row that is written
                store.write(tx.database, name, 0)
                tx.database.execute(sa.text("DELETE FROM written WHERE transactional_id = :name"), {"name": name})
            tx.database.execute(statement)
            if "sqlite" not in store.name and "sqlalchemy" in store.name:  # the driver begins another one by itself
                store.write(tx.database, name, 0)
        put(writer, store, name, 1)
        assert agree(writer, store, database, broker, name) == [1]


# what does not depend on the database


@pytest.fixture
def lite(tmp_path) -> Store:
    return sqlite_store(tmp_path, busy_timeout_ms=200)


def test_nothing_is_sent_after_prepare_or_the_end(lite: Store, broker: str, name: str) -> None:
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with writer.transaction() as tx:
            tx.send_many(name, [(None, b"0"), (None, b"1")], partition=0)
            state = tx.prepare()
            assert str(state) == str(PreparedTxnState(str(state)))
            with pytest.raises(IllegalState, match="prepared"):
                tx.send(name, b"2", partition=0)
            lite.write(tx.database, name, 0)
            lite.write(tx.database, name, 1)
        with pytest.raises(IllegalState, match="over"):
            tx.send(name, b"3", partition=0)
        assert agree(writer, lite, database, broker, name) == [0, 1]


def test_one_transaction_at_a_time(lite: Store, broker: str, name: str) -> None:
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with writer.transaction() as tx:
            with pytest.raises(IllegalState, match="open"), writer.transaction():
                pass
            lite.write(tx.database, name, 100)
            tx.send(name, b"100", partition=0)

        def work(thread: int) -> None:
            for i in range(5):
                put(writer, lite, name, 10 * thread + i)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        writer.complete()
        assert sorted(values_of(broker, name)) == lite.rows(database, name)
        assert len(lite.rows(database, name)) == 16


def test_offsets_go_with_the_rows(lite: Store, broker: str, name: str) -> None:
    where = TopicPartition(name, 0)
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with writer.transaction() as tx:
            tx.send(name, b"0", partition=0)
            tx.send_offsets_to_transaction({where: 7}, f"{name}-group")
        writer.complete()
        wait_for_markers(broker, name)
        with sync.Admin(bootstrap_servers=broker) as admin:
            assert admin.list_consumer_group_offsets(f"{name}-group")[where].offset == 7


def test_a_state_without_records_is_used_up(lite: Store, broker: str, name: str) -> None:
    """Otherwise the next transaction would have the very state that the database holds as decided."""
    with lite.open() as database:
        for i in range(2):
            with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
                with writer.transaction() as tx:
                    lite.write(tx.database, name, i)
                before = database.read(name)
                with pytest.raises(ZeroDivisionError), writer.transaction() as tx:
                    tx.send(name, b"9", partition=0)
                    assert tx.prepare() != before.prepared_state
                    raise ZeroDivisionError
        assert values_of(broker, name) == []


def test_while_the_database_is_away_nobody_knows(lite: Store, broker: str, name: str) -> None:
    class Away(Unreliable):
        is_away = False

        def take_over(self, *arguments: Any) -> Any:
            if self.is_away:
                raise ConnectionError("away")
            return self._database.take_over(*arguments)

    with lite.open() as database:
        away = Away(database, "")
        with DualWriter(away, transactional_id=name, bootstrap_servers=broker, recovery_timeout_ms=1_000) as writer:
            away.how, away.is_away = "unanswered", True
            with pytest.raises(OutcomeUnknown, match="recover"), writer.transaction() as first:
                lite.write(first.database, name, 0)
                first.send(name, b"0", partition=0)
            assert first.outcome is Outcome.UNKNOWN
            with pytest.raises(NotBegun, match="nothing of this transaction was written: of the one before"):
                put(writer, lite, name, 1)
            away.how, away.is_away = "", False
            put(writer, lite, name, 2)  # somebody else's, before the first one asks
            assert writer.recover() is Outcome.COMMITTED
            assert first.outcome is Outcome.COMMITTED
            assert agree(writer, lite, database, broker, name) == [0, 2]


def test_each_transaction_knows_its_own_outcome(lite: Store, broker: str, name: str) -> None:
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with writer.transaction() as written:
            assert written.outcome is None
            written.send(name, b"0", partition=0)
        with pytest.raises(ZeroDivisionError), writer.transaction() as given_up:
            raise ZeroDivisionError
        assert (written.outcome, given_up.outcome) == (Outcome.COMMITTED, Outcome.ROLLED_BACK)
        with pytest.raises(KeyboardInterrupt), writer.transaction() as interrupted:
            interrupted.send(name, b"1", partition=0)
            raise KeyboardInterrupt
        assert interrupted.outcome is Outcome.ROLLED_BACK


def test_a_row_that_is_gone_is_told_and_holds_up_nobody(lite: Store, broker: str, name: str) -> None:
    """No newer instance would abort what was prepared: readers waited until somebody started with that id."""
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        put(writer, lite, name, 0)
        with pytest.raises(IllegalState, match="is gone: was the table emptied"), writer.transaction() as tx:
            lite.write(tx.database, name, 1)
            tx.send(name, b"1", partition=0)
            tx.database.execute(f"DELETE FROM {TABLE}")
        # (with the transaction the deletion is rolled back: the row is there, and its version is raised)
        put(writer, lite, name, 2)
        with sqlite3.connect(writer_file(database)) as other:
            other.execute(f"DELETE FROM {TABLE}")
        other.close()
        with pytest.raises(IllegalState, match="is gone"):
            put(writer, lite, name, 3)
        assert open_transaction(broker, name) == "CompleteAbort"
        put(writer, lite, name, 4)
        assert agree(writer, lite, database, broker, name) == [0, 2, 4]


def writer_file(database: Any) -> Any:
    return database._connect


@pytest.mark.parametrize("ends_by", ["an exception", "its end"])
def test_a_child_that_was_forked_inside_a_block_touches_nothing_of_its_parent(
    postgres: PostgreSql, broker: str, name: str, ends_by: str
) -> None:
    """Its rollback went over the parent's connection: the parent's rows were gone, its records were not."""
    store = psycopg_store(postgres.conninfo)
    with store.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        is_child = False
        try:
            with writer.transaction() as tx:
                store.write(tx.database, name, 0)
                tx.send(name, b"0", partition=0)
                child = os.fork()
                is_child = child == 0
                if is_child and ends_by == "an exception":
                    raise ZeroDivisionError
                if not is_child:
                    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        except (ZeroDivisionError, IllegalState) as error:
            if is_child:
                os._exit(7 if isinstance(error, ZeroDivisionError) or "before a fork" in str(error) else 1)
            raise
        finally:
            if is_child:
                os._exit(1)
        assert agree(writer, store, database, broker, name) == [0]


def test_a_database_that_is_back_in_time_says_what_became_of_a_commit(lite: Store, broker: str, name: str) -> None:
    class BackSoon(Unreliable):
        away_count = 0

        def take_over(self, *arguments: Any) -> Any:
            if self.away_count:
                self.away_count -= 1
                raise ConnectionError("away")
            return self._database.take_over(*arguments)

    with lite.open() as database:
        away = BackSoon(database, "")
        with DualWriter(away, transactional_id=name, bootstrap_servers=broker, recovery_timeout_ms=5_000) as writer:
            away.how, away.away_count = "unanswered", 2
            put(writer, lite, name, 0)
            assert away.away_count == 0
            assert agree(writer, lite, database, broker, name) == [0]


def test_stop_gives_up_the_transaction_that_is_open(lite: Store, broker: str, name: str) -> None:
    """The database's locks, too: SQLite has one for whoever writes."""
    with lite.open() as database, lite.open() as other_database:
        writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
        writer.start()
        with pytest.raises(IllegalState), writer.transaction() as tx:
            lite.write(tx.database, name, 0)
            tx.send(name, b"0", partition=0)
            writer.stop()
            transaction = other_database.begin()
            lite.write(transaction.handle, name, 1)
            transaction.commit()
        assert lite.rows(database, name) == [1]
        wait_for_markers(broker, name)
        assert values_of(broker, name) == []


@pytest.mark.parametrize("kind", ["sqlite", "rocksdb", "postgresql", "sqlalchemy sqlite", "sqlalchemy postgresql"])
def test_a_missing_table_names_what_makes_it(
    kind: str, tmp_path: pathlib.Path, broker: str, name: str, request: pytest.FixtureRequest
) -> None:
    nowhere = "-csearch_path=nowhere"  # a schema without tables
    with contextlib.ExitStack() as stack:
        if kind == "rocksdb":
            rows = Rdict(str(tmp_path / "rocks"))
            stack.callback(rows.close)
            database: Any = stack.enter_context(RocksDatabase(rows))
        elif kind == "sqlite":
            database = stack.enter_context(SqliteDatabase(tmp_path / "rows.sqlite3"))
        elif kind == "postgresql":
            conninfo = f"{request.getfixturevalue('postgres').conninfo} options={nowhere}"
            database = stack.enter_context(PsycopgDatabase(conninfo))
        else:
            url = f"sqlite:///{tmp_path / 'rows.sqlite3'}"
            options = {}
            if kind.endswith("postgresql"):
                url, options = request.getfixturevalue("postgres").url, {"connect_args": {"options": nowhere}}
            engine = sa.create_engine(url, **options)
            stack.callback(engine.dispose)
            database = SqlAlchemyDatabase(engine)
        writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
        with pytest.raises(ConfigurationError, match=r"call migrate\(\)") as told:
            writer.start()
        assert isinstance(told.value.__cause__, database.errors)
        with pytest.raises(ConfigurationError, match=r"call migrate\(\)"):
            find_in_doubt(database, bootstrap_servers=broker)


def test_a_table_that_is_dropped_while_a_writer_lives_is_named(lite: Store, broker: str, name: str) -> None:
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with pytest.raises(ConfigurationError, match=r"call migrate\(\)"), writer.transaction() as tx:
            tx.database.execute(f"DROP TABLE {TABLE}")
            tx.send(name, b"0", partition=0)
        put(writer, lite, name, 1)  # the drop was rolled back
        assert agree(writer, lite, database, broker, name) == [1]


def test_a_writer_that_was_stopped_is_started_anew(lite: Store, broker: str, name: str) -> None:
    with lite.open() as database:
        writer = DualWriter(database, transactional_id=name, bootstrap_servers=broker)
        for value in range(3):
            writer.start()
            put(writer, lite, name, value)
            if value == 1:
                with pytest.raises(IllegalState, match="gave the transaction up"), writer.transaction() as tx:
                    tx.send(name, b"9", partition=0)
                    writer.stop()
            writer.stop()
            for _ in range(2):
                with pytest.raises(IllegalState, match=r"call start\(\)"):
                    put(writer, lite, name, 8)
        assert writer.recover() is Outcome.COMMITTED
        stored = database.read(name)
        assert stored is not None
        assert stored.instance_version == 3
        with DualWriter(database, transactional_id=name, bootstrap_servers=broker) as newer:
            assert agree(newer, lite, database, broker, name) == [0, 1, 2]


@pytest.mark.parametrize(("more", "asked"), [({}, True), ({"linger_ms": 5}, False)])
def test_records_travel_while_rows_are_written_unless_they_are_told_to_linger(
    lite: Store, broker: str, name: str, more: dict[str, int], asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the call that sends them: its caller, which has rows to write, need not come back for it."""
    heard: list[object] = []
    send_soon = Producer.send_soon

    def hears(producer: Producer) -> None:
        heard.append(producer)
        send_soon(producer)

    with (
        lite.open() as database,
        DualWriter(database, transactional_id=name, bootstrap_servers=broker, **more) as writer,
        writer.transaction() as tx,
    ):
        monkeypatch.setattr(Producer, "send_soon", hears)
        for send in (
            lambda: tx.send(name, b"0", partition=0),
            lambda: tx.send_many(name, [(None, b"1"), (None, b"2")], partition=0),
            lambda: tx.send_arrow(name, pa.RecordBatch.from_pydict({"value": [b"3"]}), partition=0),
        ):
            heard.clear()
            send()
            assert bool(heard) == asked
    assert values_of(broker, name) == [0, 1, 2, 3]


def test_records_that_are_sent_one_by_one_leave_without_another_call(lite: Store, broker: str, name: str) -> None:
    """Also those that are put into an open batch in their caller's own thread, while others are on their way."""
    with (
        lite.open() as database,
        DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer,
        writer.transaction() as tx,
    ):
        sent = [tx.send(name, b"%d" % value, partition=0) for value in range(200)]
        assert [each.result(HANGS_MS).offset for each in sent] == list(range(200))
    assert values_of(broker, name) == list(range(200))


def test_a_commit_that_was_refused_for_good(lite: Store, broker: str, name: str) -> None:
    class Refusing(Unreliable):
        def begin(self) -> Any:
            opened = super().begin()
            if self.how == "refused":
                opened.commit = refuse
            return opened

    def refuse() -> None:
        raise NotCommitted("another was first")

    with lite.open() as database:
        refusing = Refusing(database, "refused")
        with DualWriter(refusing, transactional_id=name, bootstrap_servers=broker) as writer:
            with pytest.raises(NotCommitted):
                put(writer, lite, name, 0)
            refusing.how = ""
            put(writer, lite, name, 1)
            assert agree(writer, lite, database, broker, name) == [1]


def test_an_operator_who_fences_does_not_stop_the_rightful_instance(lite: Store, broker: str, name: str) -> None:
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        put(writer, lite, name, 0)
        with sync.Admin(bootstrap_servers=broker) as admin:
            admin.fence_producers([name])
        with pytest.raises(KafkaError):
            put(writer, lite, name, 1)
        put(writer, lite, name, 2)
        assert agree(writer, lite, database, broker, name) == [0, 2]


def test_a_database_that_is_locked_refuses_and_nothing_is_lost(lite: Store, broker: str, name: str) -> None:
    with (
        lite.open() as database,
        lite.open() as holder,
        DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer,
    ):
        held = holder.begin()
        with pytest.raises(database.errors), writer.transaction():
            pass
        held.rollback()
        put(writer, lite, name, 1)
        assert agree(writer, lite, database, broker, name) == [1]


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ({"transaction_two_phase_commit_enable": False}, "by itself"),
        ({"transaction_timeout_ms": 5}, "by itself"),
        ({"linger": 5}, "did you mean 'linger_ms'"),
        ({"transactional_id": "x" * 256}, "1 to 255"),
        ({"transactional_id": " x"}, "spaces"),
    ],
)
def test_wrong_options_are_refused(lite: Store, name: str, config: dict[str, Any], says: str) -> None:
    with lite.open() as database, pytest.raises(ConfigurationError, match=says):
        DualWriter(database, **{"transactional_id": name, **config})
    with lite.open() as database, pytest.raises(ConfigurationError, match=says):
        DualWriter.from_config(
            database, {key.replace("_", "."): value for key, value in {"transactional_id": name, **config}.items()}
        )


def test_a_broker_without_two_phase_commit_is_named(lite: Store, name: str) -> None:
    from oncelog.testing import TestBroker

    with TestBroker({"transaction.two.phase.commit.enable": "false"}) as plain, lite.open() as database:
        writer = DualWriter(database, transactional_id=name, bootstrap_servers=plain.bootstrap_servers)
        with pytest.raises(KafkaError, match=r"transaction.two.phase.commit.enable=true; it said: ") as told:
            writer.start()
        writer.stop()
    assert "acls add" not in str(told.value), "nobody is logged in: no right is missing"


def test_a_second_prepare_is_told_as_that(lite: Store, broker: str, name: str) -> None:
    """It said `send`, where nothing was sent."""
    with lite.open() as database, DualWriter(database, transactional_id=name, bootstrap_servers=broker) as writer:
        with (
            pytest.raises(IllegalState, match="prepare: this transaction is prepared already"),
            writer.transaction() as tx,
        ):
            tx.prepare()
            tx.prepare()
        with pytest.raises(IllegalState, match="this transaction is over"):
            tx.prepare()
