"""Partitions that are damaged or offline: named with the reason by every command, and they hide none of the others."""

from __future__ import annotations

import pathlib
import re
import shutil
from collections.abc import Iterator

import pytest

from oncelog.recipes import SqliteDatabase
from oncelog.testing import TestBroker
from tests.cli.world import Cli, damaged_broker

OFFLINE = "its disk failed or a batch is damaged"


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    def prepare(cli: Cli) -> None:
        for topic in ("flip", "lost"):
            cli("produce", topic, "-p", 1, stdin="whole\n")
        cli.leave_open("flip", "flip-holder")

    with damaged_broker(tmp_path_factory.mktemp("damaged"), prepare) as cli:
        yield cli


def test_a_read_gives_what_is_whole_names_the_damage_and_ends(damaged: Cli) -> None:
    result = damaged("consume", "flip", "-e", "--from", "earliest", status=1)
    assert sorted(result.stdout.split()) == ["a" * 100, "b" * 100, "whole"]
    assert "flip-0 at offset 2" in result.stderr
    assert damaged("consume", "flip:0", "-e", "--from", 3).stdout == "d" * 100 + "\n"
    damaged("consume", "flip:0", "-e", "-o", "json", status=1)


def test_an_offline_partition_hides_no_other(damaged: Cli) -> None:
    rows = damaged.json("topics", "describe", "lost", status=1)
    assert [(row["partition"], row["state"], row["high_watermark"]) for row in rows] == [
        (0, "unreadable", None),
        (1, "ok", 1),
    ]
    read = damaged("consume", "lost", "-e", status=1)
    assert (read.stdout, "lost-0 could not be looked at: KAFKA_STORAGE_ERROR" in read.stderr) == ("whole\n", True)
    assert damaged.json("transactions", "describe-producers", "--topic", "lost", status=1) != []
    assert "lost-0" in damaged("transactions", "find-hanging", "--topic", "lost", status=1).stderr
    assert "lost-0" in damaged("topics", "list").stderr


def test_an_offline_partition_is_no_all_clear(damaged: Cli) -> None:
    found = damaged.json("transactions", "explain", "--exit-code", status=3)
    by_partition = {(row["topic"], row["partition"]): row for row in found}
    assert by_partition["lost", 0]["verdict"] == "offline"
    assert OFFLINE in by_partition["lost", 0]["why"]
    assert "flip-holder" in [
        row["transactional_id"] for row in found if row["topic"] == "flip"
    ]  # damaged, it has a row of its own too
    damaged("transactions", "explain", "--topic", "lost", status=1)


def test_a_groups_other_positions_are_shown(damaged: Cli) -> None:
    damaged("groups", "reset-offsets", "lost-group", "--topic", "lost:1", "--to-earliest", "-y")
    damaged(
        "groups",
        "reset-offsets",
        "lost-group",
        "--topic",
        "lost:0",
        "--to-earliest",
        "-y",
        "--timeout",
        "3s",
        status=1,
    )
    assert damaged.json("groups", "describe", "lost-group")[0]["lag"] == 1


def test_what_is_sent_there_fails_within_the_timeout_and_says_why(damaged: Cli) -> None:
    result = damaged("produce", "lost", "-p", 0, "--timeout", "5s", stdin="x\n", status=1)
    assert "KAFKA_STORAGE_ERROR" in result.stderr
    assert OFFLINE in result.stderr
    assert "is a broker listening" not in result.stderr


def test_nothing_found_is_no_all_clear_where_coordinators_are_offline(tmp_path: pathlib.Path) -> None:
    """A directory that is gone, of the partition that has an open two-phase transaction, and of the group's."""
    with TestBroker(data_dir=str(tmp_path / "data")) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli.create("done")
        cli("produce", "t", "--transactional-id", "done", stdin="a\n")
        cli("consume", "t", "-e", "-g", "reader")
    for each in (tmp_path / "data").glob("__*_*-*"):
        if each.name.startswith(("__transaction_state-", "__consumer_offsets-")):
            shutil.rmtree(each)
    database = tmp_path / "rows.sqlite3"
    with SqliteDatabase(database) as made:
        made.migrate()
    with TestBroker(data_dir=str(tmp_path / "data")) as broker:
        cli = Cli(broker.bootstrap_servers)
        of_transactions, of_groups = "__transaction_state-", "__consumer_offsets-"
        for form in ((), ("-o", "wide"), ("-o", "json"), ("-o", "jsonl"), ("-o", "tsv"), ("--internal",)):
            listed = cli("topics", "list", *form).stderr
            assert all(re.search(rf"warning: {topic}\d+ is offline", listed) for topic in (of_transactions, of_groups))
        for command, none, topic in (
            (("transactions", "list"), "no transactional ids", of_transactions),
            (
                ("transactions", "in-doubt", "--database", f"sqlite:///{database}"),
                "no transaction is in doubt",
                of_transactions,
            ),
            (("transactions", "find-hanging", "--topic", "t"), "no hanging transactions", of_transactions),
            (("groups", "list"), "there are no groups", of_groups),
        ):
            shown = cli(*command, status=1)
            assert f"{none} on the coordinators that answered" in shown.stdout + shown.stderr, command
            assert f"error: {topic}" in shown.stderr, command
            assert " are missing" in shown.stderr, command
        recovered = cli("recover", "--prefix", "nobody", "--yes", status=1)
        assert "is offline: the transactional ids that it has are missing" in recovered.stderr
        planned = cli("recover", "--prefix", "nobody", "--dry-run", status=1)
        assert "is offline: the transactional ids that it has are missing" in planned.stderr
        assert "no open transactions on the coordinators that answered" in planned.stdout + planned.stderr
        asked = cli("--timeout", "1s", "why", "done", status=1)
        assert "something else, too, could not be asked" in asked.stderr
        assert "error: transactional id done could not be read" in asked.stderr
        for command, key, topic in (
            (("groups", "describe", "reader"), "reader", of_groups),
            (("groups", "describe", "reader", "--members"), "reader", of_groups),
            (("groups", "delete", "reader", "--yes"), "reader", of_groups),
            (("groups", "reset-offsets", "reader", "--to-earliest", "--yes"), "reader", of_groups),
            (("groups", "delete-offsets", "reader", "--topic", "t", "--yes"), "reader", of_groups),
            (("transactions", "describe", "done"), "done", of_transactions),
            (("transactions", "force-terminate", "--transactional-id", "done", "--yes"), "done", of_transactions),
        ):
            asked = cli(*command, status=1)
            told = asked.stdout + asked.stderr
            assert f"COORDINATOR_NOT_AVAILABLE: the coordinator of {key!r} is not available: {topic}" in told, told
            assert "not done within" not in told, (command, "nobody waits for what cannot come", told)


def test_partition_zero_is_no_count_of_none(damaged: Cli) -> None:
    lines = damaged("topics", "list", "-o", "wide").stdout.splitlines()
    assert [line.split()[-1] for line in lines if line.startswith("lost ")] == ["#0"]
    assert {row["topic"]: row["offline"] for row in damaged.json("topics", "list")}["lost"] == [0]
