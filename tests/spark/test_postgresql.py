"""Decisions and business rows in a real PostgreSQL, started for this file where its programs are installed."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import ConfigurationError
from oncelog.spark.backend import DecisionsOutOfReach
from oncelog.spark.database_decisions import DatabaseDecisionStore, vetoes

pytestmark = pytest.mark.compat


def program(name: str) -> str | None:
    """A program of PostgreSQL, on the PATH or where Debian keeps it."""
    found = shutil.which(name)
    if found:
        return found
    versions = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(versions[-1]) if versions else None


def as_its_user(*command: str) -> list[str]:
    """PostgreSQL refuses to run as root."""
    return (
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *command]
        if os.getuid() == 0
        else list(command)
    )


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    initdb, server = program("initdb"), program("postgres")
    if initdb is None or server is None:
        pytest.skip("PostgreSQL is not installed")
    if os.getuid() == 0 and shutil.which("setpriv") is None:
        pytest.skip("PostgreSQL does not run as root, and setpriv is missing")
    folder = pathlib.Path("/tmp") / f"oncelog-postgresql-{os.getpid()}"  # short: it holds a socket
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    data = str(folder / "data")
    subprocess.run(
        as_its_user(initdb, "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"), check=True, capture_output=True
    )
    command = as_its_user(server, "-D", data, "-k", str(folder), "-c", "listen_addresses=")
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    for line in process.stderr:
        if "ready to accept connections" in line:
            break
    drain = threading.Thread(target=process.stderr.read, daemon=True)
    drain.start()
    try:
        yield f"postgresql+psycopg://postgres@/postgres?host={folder}"
    finally:
        process.send_signal(signal.SIGINT)  # a fast shutdown: sessions of a failed test must not hold it up
        process.wait(30)
        drain.join(5)
        process.stderr.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def open_store(url: str) -> Iterator[Callable[[], DatabaseDecisionStore]]:
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(contextlib.closing(DatabaseDecisionStore(url)))


Open = Callable[[], DatabaseDecisionStore]


def test_of_two_deciders_one_gets_the_row_and_only_its_business_rows_stay(open_store: Open) -> None:
    stores = [open_store() for _ in range(2)]
    with stores[0].engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE business (run text)"))
    together = threading.Barrier(2)
    found: dict[int, sink.KnownRecords] = {}

    def decide(i: int) -> None:
        def business(connection: sa.Connection) -> None:
            connection.execute(sa.text("INSERT INTO business VALUES (:run)"), {"run": f"run-{i}"})

        together.wait(10)
        found[i] = stores[i].decide(sink.BatchDecision("two-deciders", "0", f"run-{i}", ()), business)

    threads = [threading.Thread(target=decide, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    decision = found[0].decision
    assert decision is not None
    assert found[1].decision == decision
    with stores[0].engine.connect() as connection:
        assert connection.execute(sa.text("SELECT run FROM business")).scalars().all() == [decision.run_id]


def test_a_veto_keeps_a_run_from_deciding(open_store: Open) -> None:
    store = open_store()
    assert store.veto("vetoed", "1", "run-1").vetoed_runs == {"run-1"}
    assert store.decide(sink.BatchDecision("vetoed", "1", "run-1", ())).decision is None
    decision = sink.BatchDecision("vetoed", "1", "run-2", ())
    assert store.decide(decision).decision == decision
    store.done(decision)
    assert (decision, True) in store.decided("vetoed")


def test_a_veto_waits_for_a_decision_that_is_being_made(open_store: Open) -> None:
    """Otherwise it would not see it, and end transactions that are about to win."""
    deciding, vetoing = open_store(), open_store()
    inside, seen = threading.Event(), []

    def business(_: sa.Connection) -> None:
        inside.set()
        waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        with deciding.engine.connect() as other:
            while other.execute(waiting).scalar_one() == 0:
                other.rollback()

    def veto() -> None:
        inside.wait(10)
        seen.append(vetoing.veto("veto-waits", "2", "run-1"))

    thread = threading.Thread(target=veto)
    thread.start()
    decision = sink.BatchDecision("veto-waits", "2", "run-1", ())
    assert deciding.decide(decision, business).decision == decision
    thread.join(30)
    assert [known.decision for known in seen] == [decision]


def execute(url: str, statement: str) -> None:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
    engine.dispose()


def test_a_database_that_may_forget_its_decisions_is_refused(url: str, open_store: Open) -> None:
    """Their winners are committed behind them: a decision that is lost is made again, and its batch is there twice."""
    execute(url, "ALTER ROLE postgres SET synchronous_commit = off")
    try:
        with pytest.raises(ConfigurationError, match="synchronous_commit=off"):
            open_store()
    finally:
        execute(url, "ALTER ROLE postgres RESET synchronous_commit")


def test_business_rows_that_switch_the_sync_off_are_refused_with_the_decision(open_store: Open) -> None:
    store = open_store()

    def business(connection: sa.Connection) -> None:
        connection.execute(sa.text("SET LOCAL synchronous_commit = off"))

    with pytest.raises(ConfigurationError, match="synchronous_commit=off"):
        store.decide(sink.BatchDecision("careless", "0", "run-1", ()), business)
    assert store.known("careless", "0").decision is None


@pytest.mark.parametrize("then", ["", "INSERT INTO of_ended VALUES ('behind')", "BEGIN", "no SQL"])
def test_business_rows_that_end_the_transaction_are_no_decision(open_store: Open, then: str) -> None:
    """The decision was committed with the first of the rows, and a retry took the batch for written."""
    store, proposed = open_store(), sink.BatchDecision(f"ends-{then[:5]}", "0", "run-1", ())

    def business(connection: sa.Connection) -> None:
        connection.execute(sa.text("CREATE TABLE IF NOT EXISTS of_ended (value TEXT)"))
        connection.execute(sa.text("COMMIT"))
        if then:
            connection.execute(sa.text(then))

    with pytest.raises(ConfigurationError, match="to_database has ended the transaction"):
        store.decide(proposed, business)
    assert store.known(proposed.query_id, "0").decision is None

    def failing(connection: sa.Connection) -> None:
        connection.execute(sa.text("no SQL"))

    with pytest.raises(sa.exc.ProgrammingError):
        store.decide(proposed, failing)
    assert store.decide(proposed, lambda connection: connection.execute(sa.text("SELECT 1"))).decision == proposed


def test_a_server_that_is_away_is_told_in_one_line(open_store: Open) -> None:
    """A query ended with its driver's error and forty frames, and no word of what is to be done."""
    store, proposed = open_store(), sink.BatchDecision("away", "0", "run-1", ())
    store.decide(proposed)
    calls: list[Callable[[], object]] = [
        lambda: store.known("away", "0"),
        lambda: store.veto("away", "1", "run-1"),
        lambda: store.done(proposed),
        lambda: store.decided("away"),
        lambda: store.claim("away", None, "1"),
        lambda: store.decide(sink.BatchDecision("away", "1", "run-2", ())),
    ]
    store.engine.dispose()
    away = sa.create_engine("postgresql+psycopg://postgres@/postgres?host=/nowhere")
    real, store.engine = store.engine, away
    try:
        for call in calls:
            with pytest.raises(
                DecisionsOutOfReach,
                match=r"does not do it now \(connection .*\). Nothing is lost: start again when it does",
            ):
                call()
    finally:
        store.engine = real
    assert store.known("away", "0").decision == proposed


@pytest.mark.parametrize("is_passed_over", [False, True])
def test_a_connection_that_is_lost_in_business_rows_is_told_as_that(open_store: Open, is_passed_over: bool) -> None:
    """It was told as a commit of to_database's own, and to take those rows out of the database."""
    store, proposed = open_store(), sink.BatchDecision(f"lost-{is_passed_over}", "0", "run-1", ())

    def business(connection: sa.Connection) -> None:
        with contextlib.suppress(*[sa.exc.OperationalError] * is_passed_over):
            connection.execute(sa.text("SELECT pg_terminate_backend(pg_backend_pid())"))

    if is_passed_over:
        with pytest.raises(ConfigurationError, match="lost its connection to the database and passed over the error"):
            store.decide(proposed, business)
    else:
        with pytest.raises(sa.exc.OperationalError, match="terminating connection"):
            store.decide(proposed, business)
    assert store.known(proposed.query_id, "0").decision is None
    assert store.decide(proposed).decision == proposed


def test_an_error_that_business_rows_pass_over_is_told_as_that(open_store: Open) -> None:
    store, proposed = open_store(), sink.BatchDecision("passed-over", "0", "run-1", ())
    with store.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE of_passed_over (value INT PRIMARY KEY)"))
    twice = sa.text("INSERT INTO of_passed_over VALUES (1), (1)")

    def passed_over(connection: sa.Connection) -> None:
        with contextlib.suppress(sa.exc.IntegrityError):
            connection.execute(twice)

    def ended_and_passed_over(connection: sa.Connection) -> None:
        connection.execute(sa.text("COMMIT"))
        connection.execute(sa.text("BEGIN"))
        passed_over(connection)

    def in_a_savepoint(connection: sa.Connection) -> None:
        with contextlib.suppress(sa.exc.IntegrityError), connection.begin_nested():
            connection.execute(twice)

    with pytest.raises(ConfigurationError, match="to_database passed over an error of the database"):
        store.decide(proposed, passed_over)
    with pytest.raises(ConfigurationError, match="to_database has ended the transaction"):
        store.decide(proposed, ended_and_passed_over)
    assert store.known(proposed.query_id, "0").decision is None
    assert store.decide(proposed, in_a_savepoint).decision == proposed


@pytest.mark.parametrize("isolation_level", ["repeatable read", "serializable"])
def test_a_decision_that_waited_for_a_veto_sees_it(url: str, open_store: Open, isolation_level: str) -> None:
    """Whatever isolation is the server's default: a snapshot from before the wait has no veto in it."""
    execute(url, f"ALTER ROLE postgres SET default_transaction_isolation = '{isolation_level}'")
    try:
        deciding, vetoing = open_store(), open_store()
        query = f"waits-{isolation_level.split()[0]}"
        deciding._make_lockable(query)
        waiting = sa.text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
        found: list[sink.KnownRecords] = []
        thread = threading.Thread(
            target=lambda: found.append(deciding.decide(sink.BatchDecision(query, "0", "run-1", ())))
        )
        with vetoing.engine.begin() as connection:
            vetoing._lock(connection, query)
            thread.start()
            with vetoing.engine.connect() as other:
                while other.execute(waiting).scalar_one() == 0:
                    other.rollback()
            row = {"query_id": query, "batch_id": "0", "run_start": "run-1"}
            connection.execute(vetoes.insert().values(**row))
        thread.join(30)
        assert [known.decision for known in found] == [None]
        assert vetoing.known(query, "0").decision is None
    finally:
        execute(url, "ALTER ROLE postgres RESET default_transaction_isolation")


def test_a_table_of_an_earlier_version_gets_its_column_or_its_owner_is_told(url: str, open_store: Open) -> None:
    store = open_store()
    store.decide(sink.BatchDecision("upgraded", "0", "run-1", ()))
    user_url = url.replace("postgres@", "app@")
    with store.engine.begin() as connection:
        connection.execute(sa.text("ALTER TABLE oncelog_queries DROP COLUMN spark_query_id"))
        connection.execute(sa.text("CREATE ROLE app LOGIN"))
        connection.execute(sa.text("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app"))
    with pytest.raises(ConfigurationError, match=r"have its owner do this: ALTER TABLE oncelog_queries ADD COLUMN"):
        DatabaseDecisionStore(user_url)
    assert open_store().claim("upgraded", "spark-query", "1") is None
    with contextlib.closing(DatabaseDecisionStore(user_url)) as of_user:
        assert of_user.claim("upgraded", "spark-query", "1") is None
        refusal = of_user.claim("upgraded", "new-query", "0")
    assert refusal is not None
    assert "belongs to the Spark query spark-query" in refusal.reason


def test_of_two_queries_that_claim_one_name_one_gets_it(open_store: Open) -> None:
    stores = [open_store() for _ in range(2)]
    together = threading.Barrier(2)
    found: dict[int, sink.Refuse | None] = {}

    def claim(i: int) -> None:
        together.wait(10)
        found[i] = stores[i].claim("claimed-at-once", f"spark-{i}", "0")

    threads = [threading.Thread(target=claim, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(refusal is None for refusal in found.values()) == [False, True]
