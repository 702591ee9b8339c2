"""`oncelog configs` against a broker."""

from __future__ import annotations

import pytest

from tests.cli.world import Cli


def values(cli: Cli, *which: object) -> dict[str, str]:
    return {row["key"]: row["value"] for row in cli.json("configs", "describe", *which)}


def test_set_describe_delete(cli: Cli) -> None:
    cli.create("configs-a")
    cli("configs", "set", "--topic", "configs-a", "retention.ms=60000", "cleanup.policy=compact", "-y")
    assert values(cli, "--topic", "configs-a") == {"retention.ms": "60000", "cleanup.policy": "compact"}
    assert len(values(cli, "--topic", "configs-a", "--all")) > 10
    rows = cli.json("configs", "delete", "--topic", "configs-a", "retention.ms", "-y")
    assert rows == [{"key": "retention.ms", "value": None, "result": "deleted"}]
    assert values(cli, "--topic", "configs-a") == {"cleanup.policy": "compact"}


def test_a_dry_run_is_checked_by_the_broker_and_changes_nothing(cli: Cli) -> None:
    cli.create("configs-dry")
    row = cli.json("configs", "set", "--topic", "configs-dry", "retention.ms=1", "--dry-run")[0]
    assert row["result"] == "would be set"
    assert values(cli, "--topic", "configs-dry") == {}
    error = cli.json("configs", "set", "--topic", "configs-dry", "retention.ms=soon", "--dry-run", status=1)
    assert error["error"] == "INVALID_CONFIG"


def test_a_brokers_settings(cli: Cli) -> None:
    assert values(cli, "--broker", 1)["transaction.two.phase.commit.enable"] == "true"


@pytest.mark.parametrize(
    "which", [(), ("--topic", "a", "--broker", "1"), ("--broker", "one"), ("--topic", "")], ids=str
)
def test_one_thing_at_a_time(cli: Cli, which: tuple[str, ...]) -> None:
    cli("configs", "describe", *which, status=2)


@pytest.mark.parametrize("change", ["retention.ms=1", "retention.bytes=1", "cleanup.policy=compact"])
def test_what_lets_records_be_deleted_is_asked_about(cli: Cli, change: str) -> None:
    if "configs-asked" not in {row["topic"] for row in cli.json("topics", "list")}:
        cli.create("configs-asked")
    key = change.split("=")[0]
    refused = cli("configs", "set", "--topic", "configs-asked", change, status=2)
    assert f"may delete records of topic configs-asked for good: {key}: " in refused.stderr
    assert values(cli, "--topic", "configs-asked") == {}


def test_what_keeps_more_is_not_asked_about(cli: Cli) -> None:
    cli.create("configs-kept")
    cli("configs", "set", "--topic", "configs-kept", "retention.ms=-1", "max.message.bytes=2000")
    cli("configs", "delete", "--topic", "configs-kept", "max.message.bytes")
    cli("configs", "delete", "--topic", "configs-kept", "retention.ms", status=2)
    assert values(cli, "--topic", "configs-kept") == {"retention.ms": "-1"}
