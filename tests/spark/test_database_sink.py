"""Dual writes without a JVM: whose a query_id is, and that a failure leaves nothing open."""

from __future__ import annotations

import itertools
import pathlib
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from evidence.world.committed import committed_values

from oncelog import sync
from oncelog.errors import ConfigurationError
from oncelog.spark import database_sink, dual_write
from oncelog.spark.backend import Backend, choose_backend
from oncelog.spark.committer import CommitRefused, Committer
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.recovery import recover
from oncelog.testing import TestBroker
from tests.spark.fakes import FakeFrame

_names = (f"dual-{i}" for i in itertools.count())


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


class World:
    """A database with business rows, and an output topic."""

    def __init__(self, broker: TestBroker, folder: pathlib.Path) -> None:
        self.broker, self.topic = broker, next(_names)
        self.url = f"sqlite:///{folder / 'rows.db'}"
        with sa.create_engine(self.url).begin() as connection:
            connection.execute(sa.text("CREATE TABLE business (value TEXT)"))

    def writer(self, query_id: str = "orders") -> Callable[[Any, int], None]:
        """As a driver that starts makes it."""
        return dual_write(
            query_id=query_id,
            database_url=self.url,
            to_records=lambda frame: frame,
            to_database=self.to_database,
            options=self.options(),
        )

    def options(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "topic": self.topic,
            "transactionalIdPrefix": self.topic,  # the name of the query is that of other tests, too
        }

    def to_database(self, connection: sa.Connection, frame: Any, _batch_id: int) -> None:
        for value in frame.values:
            connection.execute(sa.text("INSERT INTO business VALUES (:v)"), {"v": value.decode()})

    def rows(self) -> list[str]:
        with sa.create_engine(self.url).connect() as connection:
            return list(connection.execute(sa.text("SELECT value FROM business")).scalars())

    def records(self) -> list[str]:
        return [value.decode() for value in committed_values(self.broker.bootstrap_servers, self.topic)]


@pytest.fixture
def world(broker: TestBroker, tmp_path: pathlib.Path) -> World:
    return World(broker, tmp_path)


@pytest.mark.parametrize("first_batch_id", [0, 3])
def test_a_query_with_a_new_checkpoint_is_refused_by_name(world: World, first_batch_id: int) -> None:
    """Its rows were taken for decided (none of them written), or it was refused as "vetoed"."""
    world.writer()(FakeFrame(b"old", spark_query_id="old-query"), first_batch_id)
    stranger = world.writer()
    with pytest.raises(ConfigurationError, match=r"belongs to the Spark query old-query.*this one is new-query"):
        stranger(FakeFrame(b"new", spark_query_id="new-query", spark_run_id="run-2"), 0)
    world.writer("orders-2")(FakeFrame(b"new", spark_query_id="new-query", spark_run_id="run-2"), 0)
    world.writer()(FakeFrame(b"more", spark_query_id="old-query", spark_run_id="run-3"), first_batch_id + 1)
    assert (world.rows(), world.records()) == (["old", "new", "more"], ["old", "new", "more"])


def test_one_function_for_two_queries_is_found_out(world: World) -> None:
    write = world.writer()
    write(FakeFrame(b"1", spark_query_id="first"), 0)
    with pytest.raises(ConfigurationError, match="belongs to the Spark query first"):
        write(FakeFrame(b"2", spark_query_id="second"), 0)
    write(FakeFrame(b"3", spark_query_id="first"), 1)
    assert world.records() == ["1", "3"]


def test_a_restart_of_the_same_query_goes_on(world: World) -> None:
    for run in ("run-1", "run-2"):  # the driver died before Spark noted the batch: it comes again
        frame = FakeFrame(b"1", spark_run_id=run)
        world.writer()(frame, 0)
        # A stateful query's next batch needs the state that comes with reading this one.
        assert frame.calls == ([] if run == "run-1" else ["noop", "overwrite", "save"])
    assert (world.rows(), world.records()) == (["1"], ["1"])


def test_two_dual_writes_of_one_query_need_two_names(world: World) -> None:
    """Both are given every batch: the second one's rows were taken for decided."""
    one, two = world.writer(), world.writer()
    one(FakeFrame(b"1"), 0)
    with pytest.raises(ConfigurationError, match="needs a query_id of its own"):
        two(FakeFrame(b"2"), 0)
    one(FakeFrame(b"3"), 1)
    assert (world.rows(), world.records()) == (["1", "3"], ["1", "3"])


def test_where_spark_does_not_tell_who_asks_the_batch_does(world: World) -> None:
    """foreachBatch of a Connect session: a new checkpoint begins at batch 0."""
    for batch_id in (0, 1, 3):  # a batch without rows need not be written
        world.writer()(FakeFrame(b"%d" % batch_id, spark_query_id=None), batch_id)
    with pytest.raises(ConfigurationError, match="has decided batch 3, and this is batch 0"):
        world.writer()(FakeFrame(b"new", spark_query_id=None), 0)
    assert (world.rows(), world.records()) == (["0", "1", "3"], ["0", "1", "3"])


def test_a_database_of_an_earlier_version_goes_on(world: World) -> None:
    world.writer()(FakeFrame(b"old"), 0)
    with sa.create_engine(world.url).begin() as connection:
        connection.execute(sa.text("ALTER TABLE oncelog_queries DROP COLUMN spark_query_id"))
    world.writer()(FakeFrame(b"new", spark_run_id="run-2"), 1)
    with pytest.raises(ConfigurationError, match="belongs to the Spark query spark-query"):
        world.writer()(FakeFrame(b"stranger", spark_query_id="new-query", spark_run_id="run-3"), 2)
    assert (world.rows(), world.records()) == (["old", "new"], ["old", "new"])


def test_a_stranger_that_comes_first_after_the_upgrade_is_known_by_its_batch(world: World) -> None:
    for batch_id in (0, 1):
        world.writer()(FakeFrame(b"%d" % batch_id), batch_id)
    with sa.create_engine(world.url).begin() as connection:
        connection.execute(sa.text("UPDATE oncelog_queries SET spark_query_id = NULL"))
    with pytest.raises(ConfigurationError, match="has decided batch 1, and this is batch 0"):
        world.writer()(FakeFrame(b"stranger", spark_query_id="new-query", spark_run_id="run-2"), 0)
    world.writer()(FakeFrame(b"2"), 2)
    assert world.records() == ["0", "1", "2"]


def open_transactions(world: World) -> list[str]:
    with sync.Admin(bootstrap_servers=world.broker.bootstrap_servers) as admin:
        listed = admin.list_transactions(states=["Ongoing"])
    return [each.transactional_id for each in listed]


@pytest.mark.parametrize("fails", ["rows", "commit", "records"])
def test_a_failure_leaves_no_transaction_open(world: World, monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    """It held up every reader of the topic until the query was started again."""

    def no(*_: object, **__: object) -> None:
        raise RuntimeError("planned")

    with monkeypatch.context() as patch:
        write = world.writer()
        if fails == "rows":
            patch.setattr(write, "to_database", no)
        elif fails == "commit":
            patch.setattr(DatabaseDecisionStore, "decide", no)
        else:
            frame_of = FakeFrame.mapInArrow

            def some(frame: FakeFrame, task: Any, ddl: str) -> Any:
                frame_of(frame, task, ddl).collect()  # one task is done; then another fails for good
                raise RuntimeError("planned")

            patch.setattr(FakeFrame, "mapInArrow", some)
        with pytest.raises(RuntimeError, match="planned"):
            write(FakeFrame(b"1"), 0)
    assert open_transactions(world) == []
    world.writer()(FakeFrame(b"1", spark_run_id="run-2"), 0)
    assert (world.rows(), world.records()) == (["1"], ["1"])


def test_a_failure_behind_the_decision_rolls_forward(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = DatabaseDecisionStore.decide

    def decided_and_no_answer(*given: Any, **more: Any) -> None:
        decide(*given, **more)
        raise RuntimeError("planned")

    with monkeypatch.context() as patch:
        patch.setattr(DatabaseDecisionStore, "decide", decided_and_no_answer)
        with pytest.raises(RuntimeError, match="planned"):
            world.writer()(FakeFrame(b"1"), 0)
    assert (world.rows(), world.records(), open_transactions(world)) == (["1"], ["1"], [])
    world.writer()(FakeFrame(b"1", spark_run_id="run-2"), 0)
    assert (world.rows(), world.records()) == (["1"], ["1"])


def test_a_first_batch_that_only_the_database_knows_is_not_given_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver was killed between the two commits; whoever did not name the database was told to abandon the batch."""
    with monkeypatch.context() as patch:
        patch.setattr(Committer, "finish", lambda *_, **__: (_ for _ in ()).throw(SystemExit))
        patch.setattr(Committer, "abort", lambda *_, **__: None)
        with pytest.raises(SystemExit):
            world.writer()(FakeFrame(b"1"), 0)
    TopicDecisionStore(sink_options(world.options()).client, "__oncelog_decisions").close()  # as another query makes it
    (left,) = open_transactions(world)
    options = world.options()
    for place_is_named in (False, True):
        report = recover(sink_options(options), "orders", abandon=True, place_is_named=place_is_named)
        assert (report.undecided, report.abandoned) == ([left], [])
        assert "query orders keeps its decisions in a database" in report.elsewhere[0]
    report = recover(sink_options({**options, "decisionUrl": world.url}), "orders")
    assert (report.completed, world.rows(), world.records()) == ([left], ["1"], ["1"])


def test_where_the_database_is_gone_too_the_first_error_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone(*_: object) -> None:
        raise ConnectionError("gone")

    def no(*_: object, **__: object) -> None:
        raise RuntimeError("planned")

    with monkeypatch.context() as patch:
        patch.setattr(DatabaseDecisionStore, "decide", no)
        patch.setattr(DatabaseDecisionStore, "veto", gone)
        with pytest.raises(RuntimeError, match="planned"):
            world.writer()(FakeFrame(b"1"), 0)
    assert "batch 0 of orders is settled when the query starts again: gone" in caplog.text
    world.writer()(FakeFrame(b"1", spark_run_id="run-2"), 0)
    assert (world.records(), open_transactions(world)) == (["1"], [])


def test_another_database_in_the_middle_of_a_query_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    """Batch 1 may be decided in the first one; it was written to the topic twice."""
    for batch_id in (0, 1):
        world.writer()(FakeFrame(b"%d" % batch_id), batch_id)
    (tmp_path / "other").mkdir()
    other = World(world.broker, tmp_path / "other")
    other.topic = world.topic
    with pytest.raises(CommitRefused, match="keeps its decisions somewhere else"):
        other.writer()(FakeFrame(b"1", spark_run_id="run-2"), 1)
    assert (other.rows(), world.records()) == ([], ["0", "1"])
    other.writer()(
        FakeFrame(b"anew", spark_query_id="new-query", spark_run_id="run-3"), 0
    )  # an empty database: begun anew
    assert (other.rows(), world.records()) == (["anew"], ["0", "1", "anew"])


def test_a_transaction_that_ends_while_the_rows_are_written_takes_them_along(
    broker: TestBroker, tmp_path: pathlib.Path
) -> None:
    """*resumed*: the rows stayed, the records were gone, and the query said so for ever."""

    class Slow(World):
        def to_database(self, connection: sa.Connection, frame: Any, _batch_id: int) -> None:
            super().to_database(connection, frame, _batch_id)
            if frame.values == (b"slow",):
                with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                    for each in admin.list_transactions(states=["Ongoing"]):
                        admin.force_terminate_transaction(each.transactional_id)

        def options(self) -> dict[str, str]:
            return {**super().options(), "backend": "resumed"}

    world = Slow(broker, tmp_path)
    with pytest.raises(CommitRefused, match="could time out"):
        world.writer()(FakeFrame(b"slow"), 0)
    assert (world.rows(), world.records()) == ([], [])
    world.writer()(FakeFrame(b"quick", spark_run_id="run-2"), 0)
    assert (world.rows(), world.records()) == (["quick"], ["quick"])


def half(world: World, *ways: str) -> Callable[[sa.Connection, Any, int], None]:
    """A `to_database` that ends the transaction in the middle, each time in the next way; then one that does not."""
    left, rest = list(ways), world.to_database

    def write(connection: sa.Connection, frame: Any, batch_id: int) -> None:
        way = left.pop(0) if left else ""
        connection.execute(sa.text("INSERT INTO business VALUES ('half')"))
        if "commit" in way:
            connection.commit()
        elif "COMMIT" in way:
            connection.execute(sa.text("COMMIT"))
        elif "rollback" in way:
            connection.rollback()
        if "begin" in way:
            connection.exec_driver_sql("BEGIN")
        if "raises" in way:
            raise ConnectionError("planned")
        if way in ("COMMIT", ""):
            rest(connection, frame, batch_id)

    return write


def test_a_refusal_is_the_first_line_of_what_spark_prints(world: World) -> None:
    """Frames of py4j, Spark and this stood before it."""
    world.writer()(FakeFrame(b"1"), 0)
    with pytest.raises(ConfigurationError) as told:
        world.writer()(FakeFrame(b"1", spark_query_id="another"), 1)
    lines = traceback.format_exception(told.value)
    assert lines[0].startswith("oncelog.errors.ConfigurationError: query_id ")


@pytest.mark.parametrize("way", ["commit", "COMMIT", "COMMIT, begin", "rollback"])
@pytest.mark.parametrize("how", ["", ", raises"])
def test_rows_that_to_database_commits_by_itself_are_no_decision(
    world: World, monkeypatch: pytest.MonkeyPatch, way: str, how: str
) -> None:
    """It committed the decision with the first half of the rows and raised; the retry took the batch for written."""
    write = half(world, way + how, way + how)
    monkeypatch.setattr(world, "to_database", write)
    for run in ("run-1", "run-2"):
        with pytest.raises(ConfigurationError, match=r"to_database has ended the transaction.*") as told:
            world.writer()(FakeFrame(b"1", spark_run_id=run), 0)
        assert ("then it raised ConnectionError: planned" in str(told.value)) is bool(how)
    assert (world.records(), open_transactions(world)) == ([], [])
    monkeypatch.undo()
    world.writer()(FakeFrame(b"1", spark_run_id="run-3"), 0)
    assert (world.rows()[-1], world.records()) == ("1", ["1"])


def test_an_error_of_to_database_stays_what_it_is(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for way, error in (("raises", ConnectionError), ("syntax", sa.exc.OperationalError)):
        with monkeypatch.context() as patch:
            if way == "syntax":
                patch.setattr(world, "to_database", lambda connection, *_: connection.execute(sa.text("no SQL")))
            else:
                patch.setattr(world, "to_database", half(world, "raises"))
            with pytest.raises(error):
                world.writer()(FakeFrame(b"1"), 0)
    assert (world.rows(), world.records(), open_transactions(world)) == ([], [], [])


def nothing(*_: Any) -> None:
    """As many arguments as one likes."""


async def awaited(_connection: Any, _frame: Any, _batch_id: int) -> None:
    """Nobody awaits it."""


def yielding(_connection: Any, _frame: Any, _batch_id: int) -> Iterator[None]:
    yield


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"query_id": 5}, "query_id has letters"),
        ({"database_url": "nonsense"}, "database_url: Could not parse"),
        ({"database_url": None}, "database_url: "),
        ({"database_url": "postgresql+nosuch://h/d"}, "database_url: "),
        ({"to_records": None}, r"to_records is a function that is called as to_records\(DataFrame\): None"),
        ({"to_records": lambda: None}, r"called as to_records\(DataFrame\), and this one takes \(\)"),
        ({"to_database": "insert"}, r"called as to_database\(connection, DataFrame, batch_id\)"),
        ({"to_database": lambda frame, batch_id: None}, r"this one takes \(frame, batch_id\): too many"),
        ({"to_database": awaited}, "has to be a plain function"),
        ({"to_database": yielding}, "has to be a plain function"),
        ({"options": "topic"}, "options are a mapping"),
        ({"options": {"topic": "t"}}, "bootstrap.servers"),
    ],
)
def test_wrong_arguments_are_told_before_the_query_is_started(wrong: dict[str, Any], told: str) -> None:
    right: dict[str, Any] = {
        "query_id": "orders",
        "database_url": "sqlite:///orders.db",
        "to_records": nothing,
        "to_database": nothing,
        "options": {"bootstrap.servers": "127.0.0.1:1", "topic": "t"},
    }
    assert callable(dual_write(**right))
    with pytest.raises(ConfigurationError, match=told):
        dual_write(**(right | wrong))


def test_a_query_id_that_the_database_could_not_keep_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.writer("q" * 200)
    monkeypatch.setattr(world, "url", "postgresql+psycopg://nobody@127.0.0.1:1/d")
    world.writer("q" * 200)
    with pytest.raises(ConfigurationError, match="query_id has 201 characters, and a database of decisions keeps 200"):
        world.writer("q" * 201)


def test_a_query_that_failed_asks_the_broker_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session may hand the same function to each start; what the broker can do may be why it failed."""
    asked: list[str] = []

    def choose(options: SinkOptions) -> Backend:
        asked.append(choose_backend(options).kind)
        return choose_backend(options)

    monkeypatch.setattr(database_sink, "choose_backend", choose)
    write = world.writer()
    for batch_id in (0, 1):
        write(FakeFrame(b"%d" % batch_id), batch_id)
    assert len(asked) == 1
    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="planned"):
        patch.setattr(FakeFrame, "mapInArrow", lambda *_: (_ for _ in ()).throw(RuntimeError("planned")))
        write(FakeFrame(b"2"), 2)
    write(FakeFrame(b"2", spark_run_id="run-2"), 2)
    assert (len(asked), world.records()) == (2, ["0", "1", "2"])
