"""What is in doubt is ended as its database says: all or one, only what is as it was shown, each with what became of it."""

from __future__ import annotations

import asyncio
import logging
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

from starlette.testclient import TestClient

from oncelog.cli.transactions import resolve as command
from oncelog.console import resolve_plans
from oncelog.core.two_phase.dual_write import StoredState
from oncelog.recipes import SqliteDatabase
from oncelog.testing import TestBroker
from oncelog.types import PreparedTxnState
from tests.cli.transactions.test_in_doubt import in_doubt
from tests.cli.transactions.test_resolve import end, states
from tests.cli.world import Cli
from tests.console.test_plans import client_of, post

__all__ = ["in_doubt"]  # a fixture
IDS = ("doubt-decided", "doubt-undecided", "doubt-elsewhere")


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    """Where nobody else has anything in doubt."""
    with TestBroker({"transaction.two.phase.commit.enable": "true"}) as broker:
        yield Cli(broker.bootstrap_servers)


@pytest.fixture
def client(cli: Cli, in_doubt: str) -> Iterator[TestClient]:
    with client_of(cli, allow_writes=True, database_url=in_doubt) as client:
        yield client
    end(cli, *(name for name, state in zip(IDS, states(cli, *IDS), strict=True) if state == "Ongoing"))


def became(answer: Any) -> dict[str, str]:
    return {row[0]: row[2] for row in answer["rows"]}


def test_the_command_of_a_row_says_what_the_database_does(client: TestClient) -> None:
    """The row said abort, and its command neither --abort nor --commit."""
    rows = {each["transactional_id"]: each for each in client.get("/api/v1/in-doubt").json()["rows"]}
    ends = {name: rows[name]["repair"].split()[-1] for name in IDS}
    assert (ends["doubt-decided"], ends["doubt-undecided"]) == ("--commit", "--abort")
    assert ends["doubt-elsewhere"].count(":") == 1, "nobody here knows: its command ends with its state"


def test_everything_is_ended_as_the_database_says(
    client: TestClient, cli: Cli, in_doubt: str, caplog: pytest.LogCaptureFixture
) -> None:
    made = post(client, "plans", 200, action="resolve")
    assert made["text"][0] == "commit 1, abort 1 as the database says, leave 1 as they are"
    assert made["columns"] == ["transactional id", "database says", "will be", "transaction", "open for"]
    shown = {row[0]: (row[1], row[2]) for row in made["rows"]}
    assert shown == {
        "doubt-decided": ("commit", "committed"),
        "doubt-undecided": ("abort", "aborted"),
        "doubt-elsewhere": ("not-here", "left as it is"),
    }
    assert (made["word"], made["command"].split()[3:]) == (
        "resolve",
        ["transactions", "resolve", "--from", "database", "--database", "URL"],
    )
    assert in_doubt not in str(made), "a URL may hold a password"
    assert states(cli, *IDS) == ["Ongoing"] * 3
    post(client, f"plans/{made['id']}", 400, word="doubt-decided")
    with caplog.at_level(logging.WARNING, "oncelog.console"):
        done = post(client, f"plans/{made['id']}", 200, word="resolve")
    assert done["done"] == "committed 1, aborted 1"
    assert became(done) == {"doubt-decided": "committed", "doubt-undecided": "aborted"}
    assert states(cli, *IDS) == ["CompleteCommit", "CompleteAbort", "Ongoing"], "another's is never touched"
    lines = [each.getMessage() for each in caplog.records if "resolve: " in each.getMessage()]
    assert [("testclient" in each, "of 'doubt-" in each) for each in lines] == [(True, True)] * 2
    assert "decides nothing that is in doubt" in post(client, "plans", 502, action="resolve")["message"]


def test_one_is_ended_by_its_name(client: TestClient, cli: Cli) -> None:
    made = post(client, "plans", 200, action="resolve", transactional_id="doubt-undecided")
    assert made["text"][0] == "commit 0, abort 1 as the database says, leave 0 as they are"
    assert made["command"].endswith("--database URL --transactional-id doubt-undecided")
    done = post(client, f"plans/{made['id']}", 200, word="doubt-undecided")
    assert became(done) == {"doubt-undecided": "aborted"}
    assert states(cli, "doubt-decided", "doubt-elsewhere") == ["Ongoing"] * 2
    refused = post(client, "plans", 502, action="resolve", transactional_id="doubt-elsewhere")
    assert "has never seen" in refused["message"]
    gone = post(client, "plans", 502, action="resolve", transactional_id="doubt-undecided")
    assert "has no open transaction" in gone["message"]


def test_only_what_is_as_it_was_shown_is_ended(client: TestClient, cli: Cli) -> None:
    made = post(client, "plans", 200, action="resolve")
    end(cli, "doubt-decided")
    cli.leave_open("doubt", "doubt-decided", two_phase=True)
    done = post(client, f"plans/{made['id']}", 502, word="resolve")
    assert (done["error"], done["message"]) == (
        "partial",
        "committed 0, aborted 1; 1 transaction not ended: each row says why",
    )
    assert became(done) == {"doubt-decided": "left as it is", "doubt-undecided": "aborted"}
    assert states(cli, "doubt-decided") == ["Ongoing"]
    again = post(client, "plans", 200, action="resolve", transactional_id="doubt-decided")
    end(cli, "doubt-decided")
    cli.leave_open("doubt", "doubt-decided", two_phase=True)
    stale = post(client, f"plans/{again['id']}", 409, word="doubt-decided")
    assert stale["plan"]["rows"][0][2] == "aborted"
    end(cli, "doubt-decided")
    over = post(client, f"plans/{stale['plan']['id']}", 409, word="doubt-decided")
    assert (over["plan"], "has no open transaction" in over["message"]) == (None, True)


def test_a_database_that_cannot_be_read_any_more_is_no_change(
    client: TestClient, cli: Cli, in_doubt: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was told as "it has changed since you looked"; the file is locked, or what is there now is no database."""
    made = post(client, "plans", 200, action="resolve", transactional_id="doubt-decided")
    file = pathlib.Path(in_doubt.removeprefix("sqlite:///"))
    kept = file.read_bytes()
    file.write_bytes(b"no database" * 1000)
    with caplog.at_level(logging.WARNING, "oncelog.console"):
        over = post(client, f"plans/{made['id']}", 409, word="doubt-decided")
    assert (over["plan"], over["message"]) == (None, "nothing was done: the database: file is not a database")
    assert "file is not a database" in caplog.text
    assert "changed" not in caplog.text
    assert states(cli, "doubt-decided") == ["Ongoing"]
    file.write_bytes(kept)
    made = post(client, "plans", 200, action="resolve", transactional_id="doubt-decided")
    assert became(post(client, f"plans/{made['id']}", 200, word="doubt-decided")) == {"doubt-decided": "committed"}


def test_a_decision_that_changed_is_not_carried_out(client: TestClient, cli: Cli, in_doubt: str) -> None:
    """Its instance lived, and its database committed after the plan said abort."""
    made = post(client, "plans", 200, action="resolve", transactional_id="doubt-undecided")
    with SqliteDatabase(in_doubt.removeprefix("sqlite:///")) as database:
        before, writing = database.read("doubt-undecided"), database.begin()
        assert before is not None
        stored = StoredState(before.instance_version, PreparedTxnState(made["rows"][0][3]))
        assert writing.store("doubt-undecided", stored)
        writing.commit()
    again = post(client, f"plans/{made['id']}", 409, word="doubt-undecided")["plan"]
    assert again["rows"][0][2] == "committed"
    post(client, f"plans/{again['id']}", 200, word="doubt-undecided")
    assert states(cli, "doubt-undecided") == ["CompleteCommit"]


def test_one_that_fails_is_shown_beside_the_others(
    client: TestClient, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    recovered = command._recovered

    def half(settings: Any, database: Any, each: Any) -> str:
        return (
            "failed: the database: is locked"
            if each.transactional_id == "doubt-decided"
            else recovered(settings, database, each)
        )

    monkeypatch.setattr(command, "_recovered", half)
    made = post(client, "plans", 200, action="resolve")
    done = post(client, f"plans/{made['id']}", 502, word="resolve")
    rows = {row[0]: row[2:] for row in done["rows"]}
    assert rows == {"doubt-decided": ["failed", "the database: is locked"], "doubt-undecided": ["aborted", ""]}
    assert states(cli, "doubt-decided") == ["Ongoing"]


def test_a_database_that_hangs_keeps_no_answer_for_ever(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    made = post(client, "plans", 200, action="resolve")

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(resolve_plans, "carried_out", never)
    monkeypatch.setattr(resolve_plans, "RESOLVED_S", 0.0)
    assert "is not known here" in post(client, f"plans/{made['id']}", 502, word="resolve")["message"]
    monkeypatch.setattr(resolve_plans, "DATABASE_TIMEOUT_S", 0.0)
    assert "has not answered" in post(client, "plans", 502, action="resolve")["message"]


def test_without_a_database_no_outcome_is_suggested(cli: Cli) -> None:
    with client_of(cli, allow_writes=True) as client:
        assert "start the console with --database" in post(client, "plans", 400, action="resolve")["message"]
