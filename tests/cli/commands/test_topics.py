"""`oncelog topics` against a broker."""

from __future__ import annotations

import pytest

from oncelog.testing import TestBroker
from tests.cli.world import Cli


def test_create_list_describe_delete(cli: Cli) -> None:
    created = cli.json("topics", "create", "topics-a", "topics-b", "-p", 2, "-c", "retention.ms=60000")
    assert [(row["topic"], row["result"]) for row in created] == [("topics-a", "created"), ("topics-b", "created")]
    listed = {row["topic"]: row for row in cli.json("topics", "list")}
    assert listed["topics-a"]["partitions"] == 2
    assert listed["topics-a"]["internal"] is False
    cli("produce", "topics-a", "-p", 1, stdin="one\ntwo\n")
    rows = cli.json("topics", "describe", "topics-a")
    assert [(row["partition"], row["high_watermark"], row["blocked"]) for row in rows] == [(0, 0, 0), (1, 2, 0)]
    cli("topics", "delete", "topics-a", "topics-b", "--yes")
    assert "topics-a" not in {row["topic"] for row in cli.json("topics", "list")}


def test_internal_topics_are_shown_when_asked_for(cli: Cli) -> None:
    cli("produce", cli.create("topics-i"), "--transactional-id", "topics-i", stdin="x\n")
    assert "__transaction_state" not in {row["topic"] for row in cli.json("topics", "list")}
    assert "__transaction_state" in {row["topic"] for row in cli.json("topics", "list", "--internal")}


def test_each_name_has_its_own_outcome(cli: Cli) -> None:
    cli.create("topics-there")
    rows = cli.json("topics", "create", "topics-there", "topics-new", "bad name", status=1)
    assert [row["result"] for row in rows] == ["failed", "created", "failed"]
    assert [row["error"] for row in rows] == ["TOPIC_ALREADY_EXISTS", None, "INVALID_TOPIC_EXCEPTION"]
    assert cli.json("topics", "create", "topics-there", "--if-not-exists")[0]["result"] == "exists already"


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    assert cli.json("topics", "create", "topics-dry", "--dry-run")[0]["result"] == "would be created"
    cli.create("topics-kept")
    result = cli("topics", "delete", "topics-kept", "--dry-run")
    assert (result.stdout, result.stderr) == (
        "",
        "dry run, would: delete topics-kept (1 partition), with all records\n",
    )
    assert cli.json("topics", "add-partitions", "topics-kept", "--total", 3, "--dry-run")[0]["result"] == "would have 3"
    names = {row["topic"]: row["partitions"] for row in cli.json("topics", "list")}
    assert "topics-dry" not in names
    cli("consume", "topics-kept", "-e", "-g", "topics-dry-reader")
    both = ("topics", "delete", "topics-kept", "__consumer_offsets")
    refused = cli.json(*both, "--dry-run", status=1)
    assert [(row["result"], row["error"]) for row in refused] == [
        ("would be deleted", None),
        ("failed", "INVALID_REQUEST"),
    ]
    (real,) = cli.json("topics", "delete", "__consumer_offsets", "-y", status=1)
    assert real == refused[1]
    assert names["topics-kept"] == 1


def test_deleting_is_asked_for(cli: Cli) -> None:
    cli.create("topics-asked")
    assert "--yes" in cli("topics", "delete", "topics-asked", status=2).stderr
    assert "topics-asked" in {row["topic"] for row in cli.json("topics", "list")}


def test_add_partitions(cli: Cli) -> None:
    cli.create("topics-grown")
    cli("topics", "add-partitions", "topics-grown", "--total", 3, "-y")
    assert len(cli.json("topics", "describe", "topics-grown")) == 3
    row = cli.json("topics", "add-partitions", "topics-grown", "--total", 2, status=1)[0]
    assert row["error"] == "INVALID_PARTITIONS"


@pytest.mark.parametrize("config", ["retention.ms", "=5"])
def test_settings_are_pairs(cli: Cli, config: str) -> None:
    assert "key=value" in cli("topics", "create", "topics-c", "-c", config, status=2).stderr


def test_what_is_blocked_by_an_open_transaction(cli: Cli) -> None:
    cli.create("topics-blocked")
    cli("produce", "topics-blocked", stdin="plain\n")
    cli.leave_open("topics-blocked", "topics-blocker")
    row = cli.json("topics", "describe", "topics-blocked")[0]
    assert (row["last_stable_offset"], row["high_watermark"], row["blocked"]) == (1, 4, 3)


def test_records_are_deleted_up_to_what_is_decided(cli: Cli) -> None:
    cli.create("purge", 2)
    for partition in (0, 1):
        cli("produce", "purge", "-p", partition, stdin="a\nb\nc\n")
    cli.leave_open("purge", "purge-holder")
    where = ("topics", "delete-records", "purge:0")
    assert "say up to where" in cli(*where, status=2).stderr
    cli(*where, "--before", 1, "--all", status=2)
    cli(*where, "--before-time", "yesterday", status=2)
    (row,) = cli.json(*where, "--before", 2, "--dry-run")
    assert (row["log_start"], row["before"], row["offsets"], row["result"]) == (0, 2, 2, None)
    assert "add --yes" in cli(*where, "--before", 2, status=2).stderr
    assert cli.json(*where, "--before", 2, "-y")[0]["result"] == 2
    (row,) = cli.json(*where, "--before", 100, "-y")
    assert (row["before"], row["result"]) == (3, 3), "nothing of the open transaction"
    assert cli.json(*where, "--all", "-y")[0]["result"] is None, "nothing is left to delete"
    assert cli.json("topics", "delete-records", "purge:1", "--before-time", "1971-01-01", "-y")[0]["offsets"] == 0
    assert cli.json("topics", "delete-records", "purge:1", "--before-time", "2999-01-01", "-y")[0]["result"] == 3
    cli("transactions", "force-terminate", "--transactional-id", "purge-holder", "-y")


def test_a_topic_that_is_not_there_hides_none_that_is(cli: Cli) -> None:
    cli.create("topics-here", 2)
    shown = cli("topics", "describe", "topics-here", "topics-nosuch", status=1)
    assert shown.stdout.count("topics-here") == 2
    assert "error: UNKNOWN_TOPIC_OR_PARTITION: topic 'topics-nosuch' (`oncelog topics list` shows" in shown.stderr
    assert cli.json("topics", "describe", "topics-nosuch", status=1)["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
    cli("topics", "describe", "topics-nosuch", "topics-neither", status=1)


def test_what_exists_is_not_said_to_be_created(cli: Cli) -> None:
    cli.create("topics-existing")
    rows = cli.json("topics", "create", "--if-not-exists", "topics-existing", "topics-fresh")
    assert [row["result"] for row in rows] == ["exists already", "created"]
    rows = cli.json("topics", "create", "--if-not-exists", "topics-twice", "topics-twice")
    assert [row["result"] for row in rows] == ["created", "exists already"]


def test_a_topic_that_is_not_there_has_a_row_for_programs(cli: Cli) -> None:
    cli.create("topics-found")
    rows = cli.json("topics", "describe", "topics-found", "topics-lost", status=1)
    assert [(row["topic"], row["partition"], row["state"]) for row in rows] == [
        ("topics-found", 0, "ok"),
        ("topics-lost", None, "UNKNOWN_TOPIC_OR_PARTITION"),
    ]


def test_a_dry_run_deletes_no_records_that_a_broker_would_not(cli: Cli) -> None:
    cli("topics", "create", "purge-compacted", "-c", "cleanup.policy=compact")
    cli("produce", "purge-compacted", "--key-separator", ":", stdin="a:b\n")
    cli.create("purge-internal")
    cli("produce", "purge-internal", stdin="a\n")
    cli("consume", "purge-internal", "-e", "-g", "purge-internal-reader")
    for topic, error in (("purge-compacted", "POLICY_VIOLATION"), ("__consumer_offsets", "INVALID_TOPIC_EXCEPTION")):
        for how in ("--yes", "--dry-run"):
            assert cli.json("topics", "delete-records", topic, "--all", how, status=1)["error"] == error


def test_a_dry_run_says_that_no_topic_can_be_deleted() -> None:
    with TestBroker({"delete.topic.enable": "false"}) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("there-to-stay")
        for how in ("--yes", "--dry-run"):
            (row,) = cli.json("topics", "delete", "there-to-stay", how, status=1)
            assert (row["result"], row["error"]) == ("failed", "TOPIC_DELETION_DISABLED")
