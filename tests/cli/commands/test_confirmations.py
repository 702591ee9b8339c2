"""What cannot be undone, or changes what others may do, is asked about: without a terminal and `--yes` it is not done."""

from __future__ import annotations

import pytest

from tests.cli.world import Cli

CHANGES = [
    ("topics", "add-partitions", "asked", "--total", "2"),
    ("features", "downgrade", "transaction.version=2"),
    ("quotas", "set", "--user", "asked", "producer_byte_rate=1"),
    ("quotas", "delete", "--user", "asked", "producer_byte_rate"),
    ("credentials", "set", "asked"),
    ("credentials", "remove", "asked", "--mechanism", "SCRAM-SHA-256"),
    ("recover", "--prefix", "asked"),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda words: " ".join(words[:2]))
def test_nothing_is_changed_without_a_yes(cli: Cli, change: tuple[str, ...]) -> None:
    if "asked" not in {row["topic"] for row in cli.json("topics", "list")}:
        cli.create("asked")
    refused = cli(*change, stdin="secret\n", status=2)
    assert "add --yes" in refused.stderr
    assert refused.stdout == ""
    assert cli.json("topics", "describe", "asked")[1:] == []
    assert cli.json("quotas", "list", "--user", "asked") == []
    assert cli.json("credentials", "list") == []


ASKED = [
    *CHANGES[:1],
    *CHANGES[2:-2],
    ("features", "downgrade", "share.version=0"),
    ("credentials", "remove", "dry-user", "--mechanism", "SCRAM-SHA-256"),
    ("configs", "set", "--topic", "dry", "retention.ms=5", "cleanup.policy=compact"),
    ("configs", "set", "--broker", "default", "log.retention.ms=5"),
    ("configs", "delete", "--topic", "dry", "retention.bytes"),
    ("topics", "delete", "dry"),
    ("topics", "delete-records", "dry", "--all"),
    ("groups", "delete", "dry"),
    ("groups", "delete-offsets", "dry", "--topic", "dry"),
    ("groups", "reset-offsets", "dry", "--to-earliest"),
]


@pytest.mark.parametrize("form", ["table", "json"])
@pytest.mark.parametrize("change", ASKED, ids=lambda words: " ".join(words[:2]))
def test_a_dry_run_says_what_is_asked_about(cli: Cli, change: tuple[str, ...], form: str) -> None:
    change = tuple(word.replace("asked", "dry") for word in change)
    if change[1] == "remove":
        cli("credentials", "set", "dry-user", "--mechanism", "SCRAM-SHA-256", "--yes", stdin="secret\n")
    if "dry" not in {row["topic"] for row in cli.json("topics", "list")}:
        cli.create("dry")
        cli("produce", "dry", stdin="kept\n")
        cli("configs", "set", "--topic", "dry", "retention.bytes=1000000", "--yes")
        cli("consume", "dry", "-e", "-g", "dry")
    told, *_ = cli(*change, stdin="secret\n", status=2).stderr.splitlines()
    shown = cli(*change, "--dry-run", "-o", form, stdin="secret\n").stderr
    assert shown.splitlines()[0] == f"dry run, would: {told}"
    if change[1] == "remove":
        cli("credentials", "remove", "dry-user", "--yes")
