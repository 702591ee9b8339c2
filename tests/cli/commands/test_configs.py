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
    assert rows == [{"key": "retention.ms", "value": None, "result": "deleted", "consequence": None}]
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
        cli("produce", "configs-asked", stdin="kept\n")
    key = change.split("=")[0]
    refused = cli("configs", "set", "--topic", "configs-asked", change, status=2)
    assert f"let the broker delete records of topic configs-asked for good: {key}: " in refused.stderr
    assert values(cli, "--topic", "configs-asked") == {}


def test_a_machine_is_told_of_each_key_what_it_lets_the_broker_delete(cli: Cli) -> None:
    cli.create("configs-told")
    cli("produce", "configs-told", stdin="kept\n")
    rows = cli.json(
        "configs", "set", "--topic", "configs-told", "retention.ms=5", "max.message.bytes=2000", "--dry-run"
    )
    told = "let the broker delete records of topic configs-told for good: retention.ms: 604800000 -> 5"
    assert [row["consequence"] for row in rows] == [told, None]


@pytest.mark.parametrize("which", ["default", "1"])
def test_what_holds_now_is_named_where_the_key_itself_is_not_set(cli: Cli, which: str) -> None:
    asked = cli("configs", "set", "--broker", which, "log.retention.ms=600000", status=2).stderr
    assert "log.retention.ms: 604800000 -> 600000" in asked
    longer = cli("configs", "set", "--broker", which, "log.retention.ms=604800001", "--dry-run")
    assert longer.stderr == ""
    asked = cli("configs", "set", "--broker", which, "log.retention.bytes=1", status=2).stderr
    assert "log.retention.bytes: -1 -> 1" in asked


def test_what_keeps_more_is_not_asked_about(cli: Cli) -> None:
    cli.create("configs-kept")
    cli("produce", "configs-kept", stdin="kept\n")
    cli("configs", "set", "--topic", "configs-kept", "retention.ms=-1", "max.message.bytes=2000")
    cli("configs", "delete", "--topic", "configs-kept", "max.message.bytes")
    cli("configs", "delete", "--topic", "configs-kept", "retention.ms", status=2)
    assert values(cli, "--topic", "configs-kept") == {"retention.ms": "-1"}


def test_what_was_not_set_is_not_said_to_be_deleted(cli: Cli) -> None:
    cli.create("configs-unset")
    cli("configs", "set", "--topic", "configs-unset", "max.message.bytes=2000", "-y")
    rows = cli.json("configs", "delete", "--topic", "configs-unset", "segment.bytes", "max.message.bytes", "-y")
    assert [row["result"] for row in rows] == ["was not set", "deleted"]
    for which in ("1", "default"):
        rows = cli.json("configs", "delete", "--broker", which, "message.max.bytes", "log.preallocate", "-y")
        assert [row["result"] for row in rows] == ["was not set"] * 2
    cli("configs", "set", "--broker", "default", "log.preallocate=true", "-y")
    rows = cli.json("configs", "delete", "--broker", "default", "log.preallocate", "-y")
    assert [row["result"] for row in rows] == ["deleted"]
    rows = cli.json("configs", "delete", "--group", "configs-unset", "consumer.session.timeout.ms", "-y")
    assert [row["result"] for row in rows] == ["was not set"]


@pytest.mark.parametrize(
    ("which", "key", "near"),
    [
        (("--topic", "configs-named"), "retention.m", "retention.ms"),
        (("--broker", "default"), "mesage.max.bytes", "message.max.bytes"),
        (("--broker", "1"), "mesage.max.bytes", "message.max.bytes"),
        (("--group", "g"), "consumer.session.timeout", "consumer.session.timeout.ms"),
    ],
)
def test_a_key_that_there_is_not_is_refused_with_the_nearest(
    cli: Cli, which: tuple[str, str], key: str, near: str
) -> None:
    if which[1] == "configs-named":
        cli.create("configs-named")
    told = cli("configs", "delete", *which, key, "-y", status=1).stderr
    assert f"config name: {key} (did you mean {near}?)" in told


def test_a_key_is_given_once(cli: Cli) -> None:
    for arguments in (("set", "retention.ms=1", "retention.ms=2"), ("delete", "retention.ms", "retention.ms")):
        shown = cli("configs", arguments[0], "--topic", "t", *arguments[1:], "-y", status=2)
        assert "retention.ms is given twice" in shown.stderr


def test_where_nothing_is_kept_nothing_is_asked_about(cli: Cli) -> None:
    cli.create("configs-empty")
    assert "may delete" not in cli("configs", "set", "--topic", "configs-empty", "retention.ms=1000").stderr


def test_a_broker_that_there_is_not(cli: Cli) -> None:
    told = cli("configs", "describe", "--broker", "7", status=1).stderr
    assert "broker 7 is not known (is its id right? `oncelog" in told
