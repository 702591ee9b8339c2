"""`oncelog transactions`: list, describe, describe-producers, find-hanging."""

from __future__ import annotations

import pytest
from evidence.world.broker import one_more_that_stands_still

from oncelog.cli import clients
from tests.cli.world import LONG_AGO_MS, OPEN_MS, Cli


@pytest.fixture(scope="module")
def state(cli: Cli) -> str:
    """A transaction left open by id list-open on topic list; `PRODUCER-ID:EPOCH`."""
    cli.create("list")
    cli("produce", "list", "--transactional-id", "list-done", stdin="x\n")
    return cli.leave_open("list", "list-open")


@pytest.fixture(scope="module")
def ghost(cli: Cli) -> int:
    """The producer id of a hanging transaction on topic list-hanging."""
    return cli.leave_hanging(cli.create("list-hanging"), "list-ghost")


def test_listed_with_filters(cli: Cli, state: str) -> None:
    producer_id = int(state.split(":")[0])
    rows = {row["transactional_id"]: row for row in cli.json("transactions", "list")}
    assert rows["list-open"] == {
        "transactional_id": "list-open",
        "coordinator": 1,
        "producer_id": producer_id,
        "state": "Ongoing",
    }
    assert rows["list-done"]["state"] == "CompleteCommit"
    for filters in (
        ("--state", "ongoing", "--pattern", "list-.*"),
        ("--producer-id", producer_id),
        ("--open-longer-than", "1ms", "--pattern", "list-.*"),
    ):
        assert [row["transactional_id"] for row in cli.json("transactions", "list", *filters)] == ["list-open"]


@pytest.mark.parametrize("command", ["transactions", "groups"])
def test_a_broker_that_stands_still_hides_nothing_of_the_others(cli: Cli, state: str, command: str) -> None:
    cli("consume", "list", "--group", "list-group", "-e")
    with one_more_that_stands_still():
        shown = cli(command, "list", "--timeout", "5s", status=1)
    assert ("list-open" if command == "transactions" else "list-group") in shown.stdout
    (line,) = shown.stderr.splitlines()
    what = "transactional ids" if command == "transactions" else "groups"
    assert line.startswith(f"error: {what} of broker 2 are missing: REQUEST_TIMED_OUT: "), line


def test_a_coordinator_that_stands_still_hides_no_description_of_the_others(cli: Cli, state: str) -> None:
    cli("consume", "list", "--group", "list-other", "-e")
    with one_more_that_stands_still(coordinates=["list-done", "list-group"]):
        shown = cli("transactions", "describe", "list-open", "list-done", "--timeout", "5s", status=1)
        none = cli("groups", "describe", "--members", "list-other", "list-group", "--timeout", "5s", status=1)
    assert "list-open" in shown.stdout
    assert "list-done" not in shown.stdout
    (line,) = shown.stderr.splitlines()
    assert line.startswith("error: transactional ids of broker 2 are missing: REQUEST_TIMED_OUT: "), line
    assert "error: groups of broker 2 are missing: REQUEST_TIMED_OUT: " in none.stderr, none.stderr


def test_what_hangs_is_found_where_a_coordinator_stands_still_and_may_be_its(
    cli: Cli, ghost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    with one_more_that_stands_still():
        shown = cli("transactions", "find-hanging", "--topic", "list-hanging", status=1)
        none = cli(
            "transactions", "find-hanging", "--topic", "list-hanging", "--max-transaction-timeout", "9999d", status=1
        )
    assert f" {ghost} " in shown.stdout
    assert "transactional ids of broker 2 are missing" in shown.stderr
    assert "without an owner on the coordinators that answered" in none.stderr


def test_nothing_found_is_no_all_clear_where_a_broker_was_silent(cli: Cli) -> None:
    with one_more_that_stands_still():
        shown = cli("groups", "list", "--state", "dead", "--timeout", "5s", status=1)
    assert "there are no groups on the coordinators that answered" in shown.stdout + shown.stderr


def test_the_exit_status_for_monitoring(cli: Cli, state: str) -> None:
    cli("transactions", "list", "--pattern", "list-open", "--exit-code", status=3)
    cli("transactions", "list", "--pattern", "nobody", "--exit-code", status=0)
    assert "--pattern [: the broker takes it for no" in cli("transactions", "list", "--pattern", "[", status=2).stderr
    cli("transactions", "list", "--pattern", "list-open", status=0)


def test_described(cli: Cli, state: str) -> None:
    row = cli.json("transactions", "describe", "list-open")
    assert f"{row['producer_id']}:{row['producer_epoch']}" == state
    assert (row["state"], row["two_phase"], row["timeout_ms"]) == ("Ongoing", False, OPEN_MS)
    assert row["partitions"] == ["list-0"]
    assert row["duration_ms"] + row["remaining_ms"] == OPEN_MS
    rows = cli.json("transactions", "describe", "list-done", "--transactional-id", "list-open")
    assert [(row["transactional_id"], row["partitions"]) for row in rows] == [
        ("list-open", ["list-0"]),
        ("list-done", []),
    ][::-1]
    assert rows[0]["duration_ms"] is None
    assert "PRODUCER-EPOCH    " in cli("transactions", "describe", "list-open").stdout
    cli("transactions", "describe", status=2)


def test_producers_of_a_partition(cli: Cli, state: str) -> None:
    every = cli.json("transactions", "describe-producers", "--topic", "list")
    opened = cli.json("transactions", "describe-producers", "--topic", "list", "--partition", 0, "--open")
    assert len(every) == 2
    assert [f"{row['producer_id']}:{row['producer_epoch']}" for row in opened] == [state]
    assert opened[0]["transaction_start_offset"] == 2


def test_a_hanging_transaction_is_found_with_its_repair(cli: Cli, ghost: int, state: str) -> None:
    row = cli.json("transactions", "find-hanging", "--topic", "list-hanging")[0]
    assert (row["producer_id"], row["start_offset"], row["last_timestamp_ms"]) == (ghost, 0, LONG_AGO_MS)
    assert row["transactional_id"] == "list-ghost"
    assert row["repair"] == (
        f"oncelog -b {cli.bootstrap_servers} transactions abort --topic list-hanging --partition 0 --start-offset 0"
    )
    found = cli.json("transactions", "find-hanging", "--exit-code", status=3)
    assert "list" not in {row["topic"] for row in found}, "what a coordinator owns does not hang"


def test_what_is_not_hanging_long_enough(cli: Cli, ghost: int) -> None:
    command = ("transactions", "find-hanging", "--topic", "list-hanging", "--exit-code")
    assert cli.json(*command, "--max-transaction-timeout", "9999d") == []
    left_out = cli(*command, "--max-transaction-timeout", "9999d").stderr
    assert (
        "left out, as it was quiet for no longer than 9999d00h: 1 transaction that no coordinator will end" in left_out
    )
    assert "left out" not in cli(*command, status=3).stderr
    assert "--partition needs --topic" in cli("transactions", "find-hanging", "--partition", 0, status=2).stderr


def test_a_broker_that_is_not_there_is_no_all_clear_and_not_waited_for(cli: Cli) -> None:
    cli.create("list-nobody")
    for command in (("find-hanging", "--exit-code"), ("describe-producers", "--topic", "list-nobody")):
        found = cli.json("transactions", *command, "--broker-id", 77, status=1)
        assert (found["error"], found["message"]) == (
            "BROKER_NOT_AVAILABLE",
            "broker 77 is not there: there is broker 1",
        )
    assert cli.json("transactions", "find-hanging", "--topic", "list-nobody", "--broker-id", 1, "--exit-code") == []


def test_an_id_that_is_not_there_hides_none_that_is(cli: Cli, state: str) -> None:
    shown = cli("transactions", "describe", "list-open", "list-nosuch", status=1)
    assert "list-open" in shown.stdout
    assert "error: TRANSACTIONAL_ID_NOT_FOUND: transactional id 'list-nosuch'" in shown.stderr
