"""`oncelog acls` against a broker with an authorizer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.testing import TestBroker
from tests.cli.world import Cli


@pytest.fixture(scope="module")
def guarded() -> Iterator[Cli]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:ANONYMOUS"}
    with TestBroker(config) as broker:
        yield Cli(broker.bootstrap_servers)


def rules(cli: Cli, *which: object) -> list[tuple[str, ...]]:
    rows = cli.json("acls", "list", *which)
    return [
        (row["resource_name"], row["pattern_type"], row["principal"], row["permission"], row["operation"])
        for row in rows
    ]


def test_add_list_remove(guarded: Cli) -> None:
    guarded(
        "acls", "add", "--topic", "orders", "--principal", "User:a", "--operation", "read", "--operation", "describe"
    )
    guarded("acls", "add", "--topic", "ord", "--prefixed", "--principal", "User:*", "--operation", "write", "--deny")
    guarded("acls", "add", "--cluster", "--principal", "User:a", "--operation", "alter-configs", "--host", "10.0.0.1")
    assert rules(guarded, "--topic", "orders") == [
        ("orders", "literal", "User:a", "allow", "read"),
        ("orders", "literal", "User:a", "allow", "describe"),
    ]
    assert len(rules(guarded, "--topic", "orders", "--matching")) == 3
    assert len(rules(guarded, "--principal", "User:a")) == 3
    assert rules(guarded, "--group", "g") == []
    looked_at = guarded.json("acls", "remove", "--principal", "User:a", "--dry-run")
    assert len(looked_at) == len(rules(guarded, "--principal", "User:a")) == 3
    assert len(guarded.json("acls", "remove", "--topic", "orders", "--operation", "read", "--yes")) == 1
    assert len(guarded.json("acls", "remove", "--topic", "ord", "--prefixed", "--yes")) == 1
    guarded("acls", "remove", "--principal", "User:a", "--yes")
    assert rules(guarded) == []


def test_a_dry_run_adds_nothing(guarded: Cli) -> None:
    guarded("acls", "add", "--group", "g", "--principal", "User:a", "--operation", "all", "--dry-run")
    assert rules(guarded) == []


def test_a_dry_run_refuses_what_the_broker_refuses(guarded: Cli, cli: Cli) -> None:
    rule = ("acls", "add", "--group", "g", "--operation", "all", "--principal")
    for more in ((), ("--dry-run",)):
        assert guarded.json(*rule, "alice", *more, status=1)["error"] == "INVALID_REQUEST"
        assert cli.json(*rule, "User:a", *more, status=1)["error"] == "SECURITY_DISABLED"
    assert rules(guarded) == []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = Cli(f"127.0.0.1:{taken.getsockname()[1]}")
        nobody(*rule, "User:a", "--dry-run", "--timeout", "200ms", status=1)


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "--principal", "User:a", "--operation", "read"),
        ("add", "--group", "g", "--principal", "User:a", "--operation", "write"),
        ("add", "--cluster", "--principal", "User:a", "--operation", "read"),
        ("add", "--topic", "t", "--group", "g", "--principal", "User:a", "--operation", "read"),
        ("add", "--topic", "t", "--principal", "User:a"),
        ("remove",),
        ("list", "--matching"),
        ("add", "--topic", "t", "--principal", "User:a", "--operation", "fly"),
    ],
    ids=" ".join,
)
def test_wrong_usage(guarded: Cli, arguments: tuple[str, ...]) -> None:
    guarded("acls", *arguments, status=2)


def test_a_bad_principal_and_a_broker_without_authorizer(guarded: Cli, cli: Cli) -> None:
    rule = ("--topic", "t", "--operation", "read", "--principal")
    assert guarded.json("acls", "add", *rule, "nobody", status=1)["error"] == "INVALID_REQUEST"
    assert cli.json("acls", "list", status=1)["error"] == "SECURITY_DISABLED"


@pytest.mark.parametrize("host", ["localhost", "10.0.0.0/8", "10.0.0.*", ""])
def test_a_rule_for_a_host_that_no_client_has_is_refused(guarded: Cli, host: str) -> None:
    rule = ("acls", "add", "--topic", "t", "--principal", "User:a", "--operation", "read", "--host")
    assert f"--host {host}: an address, such as 10.0.0.1, or '*'" in guarded(*rule, host, status=2).stderr
    guarded(*rule, "::1", "--dry-run")


def test_an_operation_that_there_is_not_removes_nothing(guarded: Cli) -> None:
    told = guarded("acls", "remove", "--topic", "t", "--operation", "fly", "--yes", status=2).stderr
    assert "--operation fly: one of all, alter," in told
    assert "(str)" not in told


def test_how_an_authorizer_is_turned_on_is_said(cli: Cli) -> None:
    told = cli("acls", "list", status=1).stderr
    assert "No Authorizer is configured. (start it with authorizer.class.name=org.apache.kafka.metadata" in told
