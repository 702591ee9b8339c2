"""`oncelog recover`: a query's decided transactions are committed, its orphans ended, what nobody decided is named."""

from __future__ import annotations

import pathlib

import pyarrow as pa
import pytest
from evidence.world.broker import one_more_that_stands_still

from oncelog.cli import clients
from oncelog.client.admin.hanging import PROBE_ID
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.spark.backend import choose_backend
from oncelog.spark.decision_store import decision_store
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.writer import write_attempt
from tests.cli.world import Cli, oncelog


class Query:
    """A Spark query that died: its attempts are open, its decision may be stored."""

    def __init__(self, cli: Cli, url: str, query_id: str) -> None:
        options = {"bootstrap.servers": cli.bootstrap_servers, "topic": cli.create(query_id), "decisionUrl": url}
        self.options: SinkOptions = sink_options(options)
        self.query_id = query_id

    def attempt(self, batch: str, number: int, value: bytes, home: str = "") -> sink.Attempt:
        name = sink.transactional_id_for("oncelog-spark", self.query_id, batch, 0, "run", number, home)
        rows = iter([pa.RecordBatch.from_pydict({"value": pa.array([value], pa.binary())})])
        return write_attempt(self.options, choose_backend(self.options), name, rows)


@pytest.fixture
def url(tmp_path: pathlib.Path) -> str:
    return f"sqlite:///{tmp_path / 'decisions.db'}"


def decided(query: Query, batch: str, *winners: sink.Attempt) -> None:
    decision_store(query.options).decide(sink.BatchDecision(query.query_id, batch, "run", tuple(winners)))


def test_decided_and_orphaned(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-decided")
    winner, orphan = query.attempt("0", 0, b"winner"), query.attempt("0", 1, b"orphan")
    decided(query, "0", winner)
    command = ("recover", "--query", query.query_id, "--decision-url", url, "-y")
    dry = cli.json(*command, "--dry-run")
    assert {row["transactional_id"] for row in dry} == {winner.transactional_id, orphan.transactional_id}
    report = cli.json(*command)
    assert report["completed"] == [winner.transactional_id]
    assert (report["ended"], report["lost"], report["undecided"]) == (1, [], [])
    assert cli("consume", query.query_id, "-e").stdout == "winner\n"
    assert cli.json(*command)["completed"] == [], "harmless to repeat"


def test_a_broker_that_stands_still_is_given_up_soon(cli: Cli, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not after the whole --timeout, neither by the look in front nor by the recovery itself."""
    Query(cli, url, "recover-still").attempt(
        "0", 0, b"open"
    )  # else there is no topic of transactions, and no look at it
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    with one_more_that_stands_still(coordinates=[f"still.{PROBE_ID}"]):
        told = cli("recover", "--prefix", "still", "-y", status=1).stderr
    assert "whether you may see all transactional ids could not be asked: REQUEST_TIMED_OUT" in told
    assert " within 1000 ms (the broker at 127.0.0.1:" in told


def test_what_is_ended_is_said_meanwhile(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-said")
    winner, orphan = query.attempt("0", 0, b"winner"), query.attempt("0", 1, b"orphan")
    decided(query, "0", winner)
    result = cli("recover", "--query", query.query_id, "--decision-url", url, "-y")
    assert f"ending orphan transaction {orphan.transactional_id}" in result.stderr


def test_undecided_is_named_and_abandoned_only_on_request(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-undecided")
    attempt = query.attempt("3", 0, b"undecided")
    command = ("recover", "--query", query.query_id, "--decision-url", url, "-y")
    result = cli(*command)
    assert attempt.transactional_id in result.stdout
    assert "--abandon" in result.stderr
    for unasked in (command[:-1], (*command[:-1], "--abandon")):
        assert "--yes" in cli(*unasked, status=2).stderr
    assert cli.json(*command, "--abandon")["abandoned"] == [attempt.transactional_id]
    assert cli.json(*command)["undecided"] == []


def test_a_lost_transaction_is_a_failure(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-lost")
    winner = query.attempt("0", 0, b"winner")
    decided(query, "0", winner)
    cli("transactions", "force-terminate", "--transactional-id", winner.transactional_id, "--even-if-prepared", "-y")
    report = cli.json("recover", "--query", query.query_id, "--decision-url", url, "-y", status=1)
    assert len(report["lost"]) == 1
    assert winner.transactional_id in report["lost"][0]


def test_a_loss_is_accepted_for_one_query_and_told_once_more(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-accepted")
    winner = query.attempt("0", 0, b"lost")
    decided(query, "0", winner)
    cli("transactions", "force-terminate", "--transactional-id", winner.transactional_id, "--even-if-prepared", "-y")
    command = ("recover", "--query", query.query_id, "--decision-url", url)
    assert cli(*command, "-y", status=1).stderr
    assert "go on behind what is lost" in cli(*command, "--accept-loss", "--dry-run").stderr
    assert len(cli.json(*command, "--accept-loss", "-y", status=1)["lost"]) == 1
    assert cli.json(*command, "-y")["lost"] == [], "the query goes on"
    assert "--query" in cli("recover", "--accept-loss", "-y", status=2).stderr
    assert "--accept-loss is about a Spark query" in cli("recover", "/", "--accept-loss", "-y", status=2).stderr


def test_options_are_checked(cli: Cli) -> None:
    assert "has no dot" in cli("recover", "--prefix", "a.b", status=2).stderr


def test_an_empty_query_is_not_all_queries(cli: Cli, url: str) -> None:
    """Of a variable that was not set: everybody's undecided transactions were ended."""
    query = Query(cli, url, "recover-empty")
    attempt = query.attempt("0", 0, b"not to be ended")
    assert "--query is empty" in cli("recover", "--query", "", "--abandon", "-y", status=2).stderr
    assert attempt.transactional_id in cli("transactions", "list").stdout
    cli("transactions", "force-terminate", "--transactional-id", attempt.transactional_id, "--even-if-prepared", "-y")


def test_a_mistyped_query_or_prefix_is_told_with_those_that_are_there(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-there")
    winner = query.attempt("0", 0, b"1")
    decided(query, "0", winner)
    where = ("--decision-url", url, "-y")
    result = cli("recover", "--query", "recover-their", "--abandon", *where, status=1)
    assert "no transaction and no decision of a query 'recover-their' under the prefix 'oncelog-spark'" in result.stderr
    assert "query recover-there" in result.stderr
    result = cli("recover", "--prefix", "oncelog-sparc", "--abandon", *where, status=1)
    assert "of the prefix 'oncelog-sparc'; there are: " in result.stderr
    assert "oncelog-spark" in result.stderr.partition("there are")[2]
    assert "recover-there" in cli("recover", "--query", "recover-their", *where).stderr, (
        "harmless: told, and no failure"
    )
    assert cli("recover", "--query", query.query_id, *where, "--abandon").stderr.count("there are") == 0


def test_a_first_batch_that_may_be_decided_elsewhere_is_neither_ended_nor_said_to_be_undecided(
    cli: Cli, url: str
) -> None:
    """100 rows in the database, no record in the topic: `--abandon` was advised, and ended what the database had decided."""
    query = Query(cli, url, "recover-elsewhere")
    home = decision_store(query.options).home
    attempt = query.attempt("0", 0, b"decided in the database", home=home)
    decided(query, "0", attempt)
    mine = ("recover", "--query", query.query_id)
    (row,) = cli.json(*mine, "--dry-run")
    assert row["decisions"] == "a database"
    for more in ((), ("--abandon",), ("--abandon", "--decision-topic", "another-topic")):
        result = cli(*mine, *more, "-y", status=1)
        assert "keeps its decisions in a database" in result.stderr, more
        assert "Give --decision-url" in result.stderr
        assert "add --abandon" not in result.stderr
        assert attempt.transactional_id in cli("transactions", "list").stdout
    assert cli.json(*mine, "--decision-url", url, "--abandon", "-y")["completed"] == [attempt.transactional_id]
    assert cli("consume", query.query_id, "-e").stdout == "decided in the database\n"


def test_what_an_older_oncelog_left_is_abandoned_only_where_somebody_says_where_it_decides(
    cli: Cli, url: str, tmp_path: pathlib.Path
) -> None:
    query = Query(cli, url, "recover-old")
    attempt = query.attempt("0", 0, b"its id does not say where")
    other = Query(cli, url, "recover-other")
    other.options = sink_options({"bootstrap.servers": cli.bootstrap_servers, "topic": "t"})
    decided(other, "0")  # so that there is a decision topic
    mine = ("recover", "--query", query.query_id)
    result = cli(*mine, "-y")
    assert (
        "do not say where it keeps its decisions. Nothing of it is in the topic '__oncelog_decisions'" in result.stderr
    )
    assert "add --abandon" not in result.stderr
    result = cli(*mine, "--abandon", "-y", status=1)
    assert "without them --abandon ends nothing of it" in result.stderr
    assert attempt.transactional_id in cli("transactions", "list").stdout
    report = cli.json(*mine, "--abandon", "-y", "--decision-url", f"sqlite:///{tmp_path / 'named.db'}")
    assert (report["abandoned"], report["unsure"]) == ([attempt.transactional_id], [])


def test_a_batch_write_is_named_as_its_user_named_it(cli: Cli, url: str) -> None:
    query = Query(cli, url, "recover-batch")
    query.query_id = sink.batch_write_query_id("nightly", "recover-batch")
    attempt = query.attempt("7", 0, b"left by a job that was killed")
    command = ("recover", "--query", "nightly", "--decision-url", url, "-y")
    assert [row["transactional_id"] for row in cli.json(*command, "--dry-run")] == [attempt.transactional_id]
    result = cli(*command)
    assert "version 7 of batch write 'nightly' to topic 'recover-batch': settled when the same version" in result.stderr
    assert cli.json(*command)["undecided_jobs"] == ["version 7 of batch write 'nightly' to topic 'recover-batch'"]
    assert cli.json(*command, "--abandon")["abandoned"] == [attempt.transactional_id]


@pytest.mark.parametrize("more", [("--dry-run",), ("-y",)])
def test_a_broker_that_is_not_there_is_given_up_as_soon_as_by_other_commands(
    monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 200)
    result = oncelog("-b", "127.0.0.1:1", "recover", "--query", "q", *more)
    assert result.exit_code == 1
    assert "connect to the cluster: not done within 200 ms" in result.stderr
