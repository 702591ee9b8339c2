"""Who may see nothing is given no all-clear."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import Iterator

import pytest

from oncelog import Producer
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.recipes import SqliteDatabase
from oncelog.testing import TestBroker
from tests.cli.world import Cli, cli_as

BLIND = "that are not shown"


@pytest.fixture(scope="module")
def guarded() -> Iterator[TestBroker]:
    yield from _guarded()


def _guarded() -> Iterator[TestBroker]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    users = {"root": "r", "alice": "a"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as broker:
        yield broker


@pytest.mark.parametrize(
    ("kind", "none", "command"),
    [
        ("topics", "nothing was looked at: there are no topics that you may see", ("transactions", "explain")),
        ("topics", "no hanging transactions that you may see", ("transactions", "find-hanging")),
        ("transactional ids", "no transactional ids that you may see", ("transactions", "list")),
        ("transactional ids", "no transactional ids that you may see", ("transactions", "list", "--state", "Ongoing")),
        ("topics", "there are no topics that you may see", ("topics", "list")),
        ("groups", "there are no groups that you may see", ("groups", "list")),
        ("groups", "there are no groups that you may see", ("groups", "list", "--state", "Stable")),
    ],
)
def test_who_may_see_nothing_is_told_so(
    guarded: TestBroker, tmp_path: pathlib.Path, kind: str, none: str, command: tuple[str, ...]
) -> None:
    alice, root = cli_as(guarded, "alice", tmp_path), cli_as(guarded, "root", tmp_path)
    shown = alice(*command)
    assert f"you may not see all {kind}: there may be some {BLIND}" in shown.stderr
    assert none in shown.stderr
    if command[0] == "transactions":
        alice(*command, "--exit-code", status=1)
    assert BLIND not in root(*command).stderr
    assert "that you may see" not in root(*command).stderr


def test_nothing_in_doubt_is_no_all_clear_for_who_may_see_no_ids(guarded: TestBroker, tmp_path: pathlib.Path) -> None:
    alice, root = cli_as(guarded, "alice", tmp_path), cli_as(guarded, "root", tmp_path)
    database = tmp_path / "rows.sqlite3"
    with SqliteDatabase(database) as made:
        made.migrate()
    command = ("transactions", "in-doubt", "--database", f"sqlite:///{database}", "--exit-code")
    shown = alice(*command, status=1).stderr
    assert "no transaction is in doubt, of the ids that you may see" in shown
    assert BLIND in shown
    assert BLIND not in root(*command).stderr


def test_who_may_see_some_may_look_for_what_is_not_there(guarded: TestBroker, tmp_path: pathlib.Path) -> None:
    """And an alarm of somebody who may see one topic, or one id, does not ring for what others have."""
    alice, root = cli_as(guarded, "alice", tmp_path), cli_as(guarded, "root", tmp_path)
    root.create("mine")
    root("produce", "mine", "--transactional-id", "mine", stdin="x\n")
    rules = [("--topic", "mine", "READ"), ("--transactional-id", "mine", "DESCRIBE")]
    for option, name, operation in rules:
        root("acls", "add", option, name, "--principal", "User:alice", "--operation", operation, "-y")
    for command in (
        ("transactions", "list", "--state", "Ongoing"),
        ("transactions", "explain"),
        ("transactions", "find-hanging"),
        ("watch", "--once"),
    ):
        assert BLIND not in alice(*command, "--exit-code").stderr, command
    for option, name, _ in rules:
        root("acls", "remove", option, name, "--principal", "User:alice", "-y")


def test_a_broker_without_rules_hides_nothing_and_makes_no_topic_for_the_question() -> None:
    with TestBroker() as broker:
        cli = Cli(broker.bootstrap_servers)
        for command in (("transactions", "list"), ("groups", "list"), ("topics", "list"), ("transactions", "explain")):
            assert "may" not in cli(*command).stderr, command
        cli("watch", "--once", "--exit-code")
        cli("transactions", "find-hanging", "--exit-code")
        assert cli.json("topics", "list", "--internal") == []


@pytest.fixture
def own() -> Iterator[TestBroker]:
    """One whose rights a test may change."""
    yield from _guarded()


def test_a_recovery_that_may_see_no_ids_says_so(own: TestBroker, tmp_path: pathlib.Path) -> None:
    alice, root = cli_as(own, "alice", tmp_path), cli_as(own, "root", tmp_path)
    root("produce", root.create("recovered"), "--transactional-id", "makes-the-topic", stdin="x\n")
    for command in (("recover", "--dry-run"), ("recover", "--query", "q-1", "--dry-run")):
        shown = alice(*command, status=1)
        assert f"you may not see all transactional ids: there may be some {BLIND}" in shown.stderr
        assert BLIND not in root(*command).stderr
    rule = ("acls", "add", "--transactional-id", "oncelog-spark.q-1.", "--prefixed", "--principal", "User:alice")
    root(*rule, "--operation", "DESCRIBE", "-y")
    assert BLIND not in alice("recover", "--query", "q-1", "--dry-run").stderr, "its own are enough"


def test_what_no_owner_is_seen_of_is_not_called_hanging(own: TestBroker, tmp_path: pathlib.Path) -> None:
    alice, root = cli_as(own, "alice", tmp_path), cli_as(own, "root", tmp_path)
    topic = root.create("in-part")
    for operation in ("READ", "DESCRIBE"):
        root("acls", "add", "--topic", topic, "--principal", "User:alice", "--operation", operation, "-y")

    async def leave_open() -> None:
        producer = Producer(**own.client_options("root"), transactional_id="in-part")
        await producer.start()
        producer.begin_transaction()
        await producer.send(topic, b"x")
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(leave_open())
    shown = alice("transactions", "find-hanging", "--topic", topic, "--exit-code", status=1).stderr
    assert "what has no owner here may have one: you may not see all transactional ids" in shown
    assert "1 transaction without an owner that is seen" in shown
    assert "will end" not in shown
    assert "will end" not in root("transactions", "find-hanging", "--topic", topic, "--exit-code").stderr
