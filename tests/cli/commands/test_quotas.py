"""`oncelog quotas` against a broker."""

from __future__ import annotations

from typing import Any

from tests.cli.world import Cli


def shown(cli: Cli, *which: object) -> list[tuple[Any, ...]]:
    rows = cli.json("quotas", "list", *which)
    return [(row["user"], row["client_id"], row["ip"], row["quota"], row["value"]) for row in rows]


def test_set_list_delete(cli: Cli) -> None:
    cli("quotas", "set", "--user", "q", "producer_byte_rate=1000", "request_percentage=12.5", "-y")
    cli("quotas", "set", "--user", "q", "--client-id", "default", "consumer_byte_rate=2000", "-y")
    assert sorted(shown(cli, "--user", "q"), key=str) == [
        ("q", "default", None, "consumer_byte_rate", 2000.0),
        ("q", None, None, "producer_byte_rate", 1000.0),
        ("q", None, None, "request_percentage", 12.5),
    ]
    planned = cli.json("quotas", "set", "--user", "q", "producer_byte_rate=1", "--dry-run")
    assert planned == [{"quota": "producer_byte_rate", "value": 1.0, "result": "would be set"}]
    cli("quotas", "delete", "--user", "q", "request_percentage", "-y")
    assert ("q", None, None, "producer_byte_rate", 1000.0) in shown(cli, "--user", "q")
    cli("quotas", "delete", "--user", "q", "producer_byte_rate", "-y")
    cli("quotas", "delete", "--user", "q", "--client-id", "default", "consumer_byte_rate", "-y")
    assert shown(cli, "--user", "q") == []


def test_refusals(cli: Cli) -> None:
    assert cli.json("quotas", "set", "--user", "q", "no_such=1", "-y", status=1)["error"] == "INVALID_REQUEST"
    cli("quotas", "set", "--user", "q", "producer_byte_rate=fast", "-y", status=2)
    cli("quotas", "set", "producer_byte_rate=1", "-y", status=2)


def test_what_was_not_set_is_not_said_to_be_deleted(cli: Cli) -> None:
    cli("quotas", "set", "--user", "unset", "producer_byte_rate=1000", "-y")
    rows = cli.json("quotas", "delete", "--user", "unset", "consumer_byte_rate", "producer_byte_rate", "-y")
    assert [row["result"] for row in rows] == ["was not set", "deleted"]
    for action, key in (("delete", "producer_byte_rat"), ("set", "producer_byte_rat=1")):
        told = cli("quotas", action, "--user", "unset", key, "-y", status=1).stderr
        assert "Unknown quota: producer_byte_rat (did you mean producer_byte_rate?)" in told
    cli("quotas", "delete", "--user", "unset", "producer_byte_rate", "producer_byte_rate", "-y", status=2)


def test_a_quota_is_finite(cli: Cli) -> None:
    for text in ("nan", "inf"):
        told = cli("quotas", "set", "--user", "u", f"producer_byte_rate={text}", "-y", status=2).stderr
        assert f"producer_byte_rate={text}: a quota is a number" in told


def test_what_is_asked_about_names_the_very_number(cli: Cli) -> None:
    whose = ("--user", "exact", "--client-id", "default")
    asked = cli("quotas", "set", *whose, "producer_byte_rate=1234567", status=2).stderr
    assert "set producer_byte_rate to 1234567 of user exact, client-id default\n" in asked
