"""`oncelog transactions history` and `oncelog audit`: who killed my transaction?"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.broker.admission import deeds
from oncelog.cli.audit import EVENTS
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.testing import TestBroker
from tests.cli.world import Cli, cli_as

HOSTILE = "night\x1b[31m\nshift"


@pytest.fixture(scope="module")
def kept() -> Iterator[Cli]:
    with TestBroker({"oncelog.audit.topic": "true"}) as broker:
        yield Cli(broker.bootstrap_servers)


def audited(cli: Cli, count: int) -> list[dict[str, Any]]:
    """What is kept, once so much is: no request waits for it."""
    for _ in range(200):
        if "__oncelog_audit" in cli("topics", "list").stdout:
            rows: list[dict[str, Any]] = cli.json("audit")
            if len(rows) >= count:
                return rows
    raise AssertionError("it was not kept")


def test_the_next_morning(kept: Cli) -> None:
    kept.create("orders")
    kept.create("gone")
    for name in ("ledger-7", HOSTILE):
        kept.leave_open("orders", name)
        kept("transactions", "force-terminate", "--transactional-id", name, "-y", "-X", "client.id=night-operator")
    kept("topics", "delete", "gone", "-y")
    found = audited(kept, 5)
    rows = kept.json("transactions", "history", "ledger-7")
    states = [row["event"] for row in rows if row["source"] == "__transaction_state"]
    assert states[:4] == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
    abort, fence = [row for row in rows if row["source"] == "__oncelog_audit"]
    assert (abort["event"], abort["client_id"]) == ("abort", "night-operator")
    assert (fence["event"], fence["principal"], fence["client_id"], fence["outcome"]) == (
        "fence",
        "User:ANONYMOUS",
        "night-operator",
        "done",
    )
    assert fence["producer_epoch"] > rows[0]["producer_epoch"]
    ended = next(row for row in rows if row["event"] == "PrepareAbort")
    assert ended["what"].startswith("aborted after ")
    assert ended["what"].endswith(": orders-0")
    text = kept("transactions", "history", HOSTILE)
    assert "\x1b" not in text.stdout + text.stderr
    assert "is compacted" in text.stderr
    assert [(row["event"], row["transactional_id"]) for row in found] == [
        ("abort", "ledger-7"),
        ("fence", "ledger-7"),
        ("abort", HOSTILE),
        ("fence", HOSTILE),
        ("delete-topics", None),
    ]
    assert [row["event"] for row in kept.json("audit", "--who", "night-operator", "--what", "ledger")] == [
        "abort",
        "fence",
    ]
    assert kept.json("audit", "--event", "timeout") == []
    refused = kept("audit", "--event", "nonsense", status=2).stderr
    assert "'nonsense' is not one of 'abort', 'fence', 'timeout'" in refused
    assert "\x1b" not in kept("audit").stdout
    assert kept.json("audit", "--since", "0s") == []


def test_what_nobody_kept_is_said(cli: Cli) -> None:
    cli.create("unkept")
    cli.leave_open("unkept", "unkept-app")
    result = cli("transactions", "history", "unkept-app")
    assert "Ongoing" in result.stdout
    assert "who asked is not kept here" in result.stderr
    assert "oncelog keeps it with oncelog.audit.topic=true" in cli("audit", status=1).stderr
    assert (
        "nothing is kept of transactional id 'unkept-nobody'"
        in cli("transactions", "history", "unkept-nobody", status=1).stderr
    )
    cli("transactions", "history", "", status=2)


def test_who_may_not_read_is_told_what_it_takes(tmp_path: pathlib.Path) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root", "oncelog.audit.topic": "true"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users={"root": "r", "eve": "e"}) as broker:
        root, eve = cli_as(broker, "root", tmp_path), cli_as(broker, "eve", tmp_path)
        root.create("secret")
        root("topics", "delete", "secret", "-y")
        assert [(row["event"], row["principal"]) for row in audited(root, 1)] == [("delete-topics", "User:root")]
        refused = eve("transactions", "history", "any", status=1)
        assert "__transaction_state could not be read: TOPIC_AUTHORIZATION_FAILED" in refused.stderr
        assert "__oncelog_audit could not be read" in refused.stderr
        assert "secret" not in eve("audit", status=1).stdout


def test_the_events_that_can_be_asked_for_are_those_that_brokers_write() -> None:
    named = {deeds.EVENTS.get(key, key.name.lower().replace("_", "-")) for key in deeds.CHANGES}
    assert set(EVENTS) == named | {"timeout", "expiration"}
