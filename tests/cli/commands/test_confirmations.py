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
