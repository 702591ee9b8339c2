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
