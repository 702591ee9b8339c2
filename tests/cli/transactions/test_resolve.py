"""`oncelog transactions resolve`: one plan of everything in doubt; what nobody decides is left."""

from __future__ import annotations

import json
import pathlib
import socket
import sqlite3
from typing import Any

import pytest

from oncelog.cli import clients
from oncelog.errors import OutcomeUnknown
from oncelog.recipes.janitor import InDoubt, resolve
from tests.cli.commands.test_recover import Query, decided
from tests.cli.transactions.test_in_doubt import in_doubt
from tests.cli.world import Cli

__all__ = ["in_doubt"]  # a fixture
RESOLVE = ("transactions", "resolve")


def by_id(rows: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    return {row["transactional_id"]: (row["decision"], row["result"]) for row in rows}


def states(cli: Cli, *names: str) -> list[str]:
    found = cli.json("transactions", "describe", *names)
    return [row["state"] for row in (found if isinstance(found, list) else [found])]


def end(cli: Cli, *names: str) -> None:
    for name in names:
        cli("transactions", "force-terminate", "--transactional-id", name, "--even-if-prepared", "-y")


def test_as_the_database_says_and_the_rest_is_protected(cli: Cli, in_doubt: str) -> None:
    command = (*RESOLVE, "--from", "database", "--database", in_doubt)
    plan = by_id(cli.json(*command, "--dry-run"))
    wanted = {"doubt-decided": "commit", "doubt-undecided": "abort", "doubt-elsewhere": "leave"}
    assert {name: plan[name] for name in wanted} == {name: (decision, None) for name, decision in wanted.items()}
    dry = cli(*command, "--dry-run")
    assert "dry run, would: commit 1, abort 1, leave " in dry.stderr
    assert states(cli, *wanted) == ["Ongoing"] * 3, "nothing was changed"
    assert "add --yes" in cli(*command, status=2).stderr
    results = by_id(cli.json(*command, "-y"))
    assert results["doubt-decided"] == ("commit", "committed")
    assert results["doubt-undecided"] == ("abort", "aborted")
    assert results["doubt-elsewhere"] == ("leave", "left")
    assert [state == "Ongoing" for state in states(cli, *wanted)] == [False, False, True]
    assert not {"doubt-decided", "doubt-undecided"} & by_id(cli.json(*command, "-y")).keys(), "harmless to repeat"
    end(cli, "doubt-elsewhere")


def test_only_one_that_is_named(cli: Cli, in_doubt: str) -> None:
    command = (*RESOLVE, "--from", "database", "--database", in_doubt, "--transactional-id")
    (row,) = cli.json(*command, "doubt-undecided", "-y")
    assert (row["transactional_id"], row["result"]) == ("doubt-undecided", "aborted")
    assert states(cli, "doubt-decided", "doubt-elsewhere") == ["Ongoing"] * 2
    assert "'doubt-undecided' has no open transaction" in cli(*command, "doubt-undecided", "-y", status=1).stderr
    assert by_id(cli.json(*command, "doubt-decided", "-y")) == {"doubt-decided": ("commit", "committed")}
    end(cli, "doubt-elsewhere")


@pytest.mark.parametrize("error", [sqlite3.OperationalError("disk I/O error\nmore"), OutcomeUnknown("not asked")])
def test_one_that_fails_keeps_no_other_from_being_tried(
    cli: Cli, in_doubt: str, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """The first database error ended the command: what had been ended before was not told, what came after not tried."""
    command = (*RESOLVE, "--from", "database", "--database", in_doubt)

    def half(database: Any, found: list[InDoubt], **config: Any) -> Any:
        if found[0].transactional_id == "doubt-decided":
            raise error
        return resolve(database, found, **config)

    with monkeypatch.context() as patch:
        patch.setattr("oncelog.recipes.janitor.resolve", half)
        results = by_id(cli.json(*command, "-y", status=1))
    failed = f"failed: {'the database: ' if isinstance(error, sqlite3.Error) else ''}{str(error).splitlines()[0]}"
    assert (results["doubt-decided"], results["doubt-undecided"]) == (("commit", failed), ("abort", "aborted"))
    assert by_id(cli.json(*command, "-y"))["doubt-decided"] == ("commit", "committed")
    end(cli, "doubt-elsewhere")


def test_a_plan_that_somebody_looked_through(cli: Cli, tmp_path: pathlib.Path) -> None:
    cli.create("resolve-file")
    names = [f"resolve-{what}" for what in ("commit", "abort", "leave", "changed")]
    for name in names:
        cli.leave_open("resolve-file", name, two_phase=True)
    file = tmp_path / "plan.json"
    file.write_text("[]")
    rows = [row for row in cli.json(*RESOLVE, "--from", file, "--dry-run") if row["transactional_id"] in names]
    assert {row["decision"] for row in rows} == {"leave"}
    for row in rows:
        row["decision"] = row["transactional_id"].removeprefix("resolve-").replace("changed", "commit")
    end(cli, "resolve-changed")
    cli.leave_open("resolve-file", "resolve-changed", two_phase=True)
    file.write_text("\n".join(map(json.dumps, rows)))
    kept = cli.keep("resolve-commit")
    found = cli.json(*RESOLVE, "--from", file, "-y")
    results = {name: each for name, each in by_id(found).items() if name in names}
    assert results == {
        "resolve-commit": ("commit", "committed"),
        "resolve-abort": ("abort", "aborted"),
        "resolve-leave": ("leave", "left"),
        "resolve-changed": ("leave", "left"),
    }, kept
    (why,) = [row["why"] for row in found if row["transactional_id"] == "resolve-changed"]
    assert "is open now" in why
    assert cli("consume", "resolve-file", "-e", "-c", 3).stdout.split() == [f"resolve-commit-{n}" for n in range(3)]
    end(cli, "resolve-leave", "resolve-changed")


def test_as_spark_decided(cli: Cli, tmp_path: pathlib.Path) -> None:
    url = f"sqlite:///{tmp_path / 'decisions.db'}"
    query = Query(cli, url, "resolve-spark")
    winner, orphan = query.attempt("0", 0, b"winner"), query.attempt("0", 1, b"orphan")
    later = query.attempt("1", 0, b"later")
    decided(query, "0", winner)
    command = (*RESOLVE, "--from", "spark", "--query", query.query_id, "--decision-url", url)
    ours = {each.transactional_id: verb for each, verb in ((winner, "commit"), (orphan, "abort"), (later, "leave"))}
    plan = by_id(cli.json(*command, "--dry-run"))
    assert {name: plan[name][0] for name in ours} == ours
    other = Query(cli, url, "resolve-other-spark")
    others = other.attempt("0", 0, b"other")
    decided(other, "0", others)
    results = by_id(cli.json(*command, "-y"))
    assert [results[name][1] for name in ours] == ["committed", "aborted", "left"]
    assert cli("consume", query.query_id, "-e", "-c", 1).stdout == "winner\n"
    assert states(cli, others.transactional_id) == ["Ongoing"], "another query's is not ours to end"
    end(cli, later.transactional_id, others.transactional_id)


def test_sources_that_disagree_end_nothing(cli: Cli, tmp_path: pathlib.Path) -> None:
    cli.create("resolve-conflict")
    state = cli.leave_open("resolve-conflict", "resolve-both", two_phase=True)
    files = [tmp_path / "one.json", tmp_path / "other.json"]
    for file, decision in zip(files, ("commit", "abort"), strict=True):
        file.write_text(json.dumps([{"transactional_id": "resolve-both", "state": state, "decision": decision}]))
    rows = cli.json(*RESOLVE, "--from", files[0], "--from", files[1], "-y")
    (row,) = [row for row in rows if row["transactional_id"] == "resolve-both"]
    assert (row["decision"], row["source"]) == ("leave", None)
    assert "the sources disagree: " in row["why"]
    assert states(cli, "resolve-both") == ["Ongoing"]
    end(cli, "resolve-both")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "it is no JSON"),
        ("[1]", "a plan is a list of objects"),
        ('{"transactional_id": "x"}', "entry 1 has not"),
        ('{"transactional_id": "x", "state": "1:0", "decision": "COMMIT"}', "entry 1 has not"),
        ('{"transactional_id": "x", "state": "1:0", "decision": "leave"}\n' * 2, "is there twice"),
        ("[" * 100_000, "it is no JSON"),
    ],
)
def test_a_file_that_is_no_plan(cli: Cli, tmp_path: pathlib.Path, text: str, says: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert says in cli(*RESOLVE, "--from", file, "-y", status=1).stderr


def test_where_no_broker_answers_that_is_said_soon_and_a_bad_file_at_once(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 200)
    plan = tmp_path / "plan.json"
    plan.write_text("[]")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Cli(f"127.0.0.1:{taken.getsockname()[1]}")
        assert "not done within 200 ms" in nobody(*RESOLVE, "--from", plan, "--dry-run", status=1).stderr
        missing = nobody(*RESOLVE, "--from", tmp_path / "nosuch.json", "--dry-run", status=1).stderr
    assert "nosuch.json: No such file or directory" in missing


def test_wrong_usage(cli: Cli) -> None:
    for wrong in (
        (),
        ("--from", "database"),
        ("--from", "spark", "--database", "sqlite:///x"),
        ("--from", "x", "--query", "q"),
        ("--from", "spark", "--transactional-id", "x"),
    ):
        cli(*RESOLVE, *wrong, status=2)
    assert "No such file" in cli(*RESOLVE, "--from", "/no/such/plan", status=1).stderr


def test_what_one_may_not_see_is_no_all_clear(
    cli: Cli, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Brokers leave out of their lists what one may not see: an empty plan was "nothing is in doubt", status 0."""
    why = "you may not see all transactional ids"
    monkeypatch.setattr("oncelog.sync.Admin.why_owners_may_be_hidden", lambda _: [why])
    file = tmp_path / "plan.json"
    file.write_text("[]")
    refused = cli(*RESOLVE, "--from", file, "--dry-run", status=1)
    assert f"error: there may be more that is in doubt: {why}" in refused.stderr
