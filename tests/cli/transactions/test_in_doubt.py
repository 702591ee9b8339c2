"""`oncelog transactions in-doubt`: what it shows, what --resolve does, formats, errors with their way out."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from typing import Any

import pytest
from evidence.world.committed import committed_values

from oncelog import sync
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.janitor import InDoubt, resolve
from oncelog.recipes.sync import DualWriter
from tests.cli.world import Cli


class Died(BaseException): ...


@pytest.fixture
def in_doubt(cli: Cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two instances that died, before and after the database's commit, and one of another database; the URL."""
    file = tmp_path / "rows.sqlite3"
    cli.create("doubt") if "doubt" not in str(cli.json("topics", "list")) else None

    def die(*_: object) -> None:
        raise Died

    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE written (value int)")
    with SqliteDatabase(file) as database:
        database.migrate()
        for name, method in (("doubt-decided", "begin_completing"), ("doubt-undecided", "prepare_transaction")):
            with DualWriter(database, transactional_id=name, bootstrap_servers=cli.bootstrap_servers) as writer:
                with monkeypatch.context() as patch:
                    patch.setattr(sync.Producer, method, die)
                    patch.setattr(sync.Producer, "abort_transaction", die)
                    with pytest.raises(Died), writer.transaction() as tx:
                        tx.send("doubt", name.encode(), partition=0).result()
                        tx.database.execute("INSERT INTO written VALUES (1)")
                # a process that is dead does not abort anything, and has no connections
                producer, writer._producer = writer._producer, None
                assert producer is not None
                producer._call(producer._client._close)
    cli.leave_open("doubt", "doubt-elsewhere", two_phase=True)
    return f"sqlite:///{file}"


def test_it_shows_what_the_database_says_and_resolves(cli: Cli, in_doubt: str) -> None:
    rows = {row["transactional_id"]: row for row in cli.json("transactions", "in-doubt", "--database", in_doubt)}
    assert {name: row["verdict"] for name, row in rows.items() if name.startswith("doubt")} == {
        "doubt-decided": "commit",
        "doubt-undecided": "abort",
        "doubt-elsewhere": "not-here",
    }
    decided = rows["doubt-decided"]
    assert decided["stored_state"] == decided["open_state"]
    assert (decided["instance_version"], decided["partitions"], decided["result"]) == (1, ["doubt-0"], None)
    assert rows["doubt-elsewhere"]["stored_state"] is None

    text = cli("transactions", "in-doubt", "--database", in_doubt, "--metrics").stdout
    assert 'oncelog_in_doubt_transactions{verdict="commit"} 1\n' in text
    assert 'oncelog_in_doubt_transactions{verdict="abort"} 1\n' in text
    cli("transactions", "in-doubt", "--database", in_doubt, "--exit-code", status=3)
    dry = cli("transactions", "in-doubt", "--database", in_doubt, "--resolve", "--dry-run").stderr
    assert "dry run, would: " in dry
    assert f"commit {decided['open_state']} of doubt-decided" in dry

    young = cli.json("transactions", "in-doubt", "--database", in_doubt, "--open-longer-than", "1h", "--resolve", "-y")
    assert young == []
    results = cli.json("transactions", "in-doubt", "--database", in_doubt, "--resolve", "-y")
    assert {row["transactional_id"]: row["result"] for row in results if row["verdict"] != "not-here"} == {
        "doubt-decided": "committed",
        "doubt-undecided": "aborted",
    }
    left = cli.json("transactions", "in-doubt", "--database", in_doubt)
    assert {row["verdict"] for row in left} == {"not-here"}
    cli("transactions", "force-terminate", "--transactional-id", "doubt-elsewhere", "--even-if-prepared", "-y")
    assert committed_values(cli.bootstrap_servers, "doubt")[-1] == b"doubt-decided"


@pytest.mark.parametrize("form", ["json", "jsonl", "tsv", "wide"])
def test_metrics_have_one_form_only(cli: Cli, form: str) -> None:
    """-o json gave Prometheus's text all the same."""
    words = ("transactions", "in-doubt", "--database", "sqlite:///nobody-opens-it", "--metrics", "-o", form)
    refused = cli(*words, status=2)
    assert (refused.stdout, "--metrics is a form of its own" in refused.stderr) == ("", True)


def test_one_that_fails_keeps_no_other_from_being_resolved(
    cli: Cli, in_doubt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error ended the command: what had been resolved before was not told, what came after not tried."""
    command = ("transactions", "in-doubt", "--database", in_doubt, "--resolve", "-y")

    def half(database: Any, found: list[InDoubt], **config: Any) -> Any:
        if found[0].transactional_id == "doubt-decided":
            raise sqlite3.OperationalError("disk I/O error")
        return resolve(database, found, **config)

    with monkeypatch.context() as patch:
        patch.setattr("oncelog.recipes.janitor.resolve", half)
        rows = {row["transactional_id"]: row["result"] for row in cli.json(*command, status=1)}
    assert (rows["doubt-decided"], rows["doubt-undecided"]) == ("failed: the database: disk I/O error", "aborted")
    assert {row["result"] for row in cli.json(*command) if row["verdict"] == "commit"} == {"committed"}
    cli("transactions", "force-terminate", "--transactional-id", "doubt-elsewhere", "--even-if-prepared", "-y")


def test_what_a_newer_instance_kept_is_shown_and_resolved_as_what_it_is(cli: Cli, in_doubt: str) -> None:
    """A keeping InitProducerId changes who may end the transaction, and neither its identity nor its verdict."""
    before = {row["transactional_id"]: row for row in cli.json("transactions", "in-doubt", "--database", in_doubt)}
    for name in ("doubt-decided", "doubt-undecided"):
        assert cli.keep(name) == before[name]["open_state"]
    rows = {row["transactional_id"]: row for row in cli.json("transactions", "in-doubt", "--database", in_doubt)}
    for name, verdict in (("doubt-decided", "commit"), ("doubt-undecided", "abort"), ("doubt-elsewhere", "not-here")):
        assert (rows[name]["open_state"], rows[name]["verdict"]) == (before[name]["open_state"], verdict)
        assert rows[name]["duration_ms"] >= before[name]["duration_ms"], "it is as old as it is"
    results = cli.json("transactions", "in-doubt", "--database", in_doubt, "--resolve", "-y")
    ours = [row for row in results if row["transactional_id"].startswith("doubt-")]  # other tests prepare here too
    assert {row["transactional_id"]: row["result"] for row in ours} == {
        "doubt-decided": "committed",
        "doubt-undecided": "aborted",
        "doubt-elsewhere": None,
    }
    described = cli.json("transactions", "describe", "doubt-decided", "doubt-undecided", "doubt-elsewhere")
    assert [row["state"] == "Ongoing" for row in described] == [False, False, True]
    cli("transactions", "force-terminate", "--transactional-id", "doubt-elsewhere", "--even-if-prepared", "-y")


@pytest.mark.parametrize(
    ("url", "status", "says"),
    [
        ("orders.db", 2, "not a database's URL"),
        ("oracle9://x", 2, "not a database's URL"),
        ("sqlite:////no/such/folder/file", 2, "there is no database file "),
        ("rocksdb:///no/such/folder", 2, "no RocksDB in"),
    ],
)
def test_a_wrong_database_is_told(cli: Cli, url: str, status: int, says: str) -> None:
    assert says in cli("transactions", "in-doubt", "--database", url, status=status).stderr


def test_metrics_only_look(cli: Cli) -> None:
    found = cli("transactions", "in-doubt", "--database", "sqlite://", "--metrics", "--resolve", status=2)
    assert "only looks" in found.stderr
