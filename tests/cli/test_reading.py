"""Reading a topic that a broker writes, from a moment on: what is said where nothing comes."""

from __future__ import annotations

from tests.cli.world import Cli


def test_who_is_over_its_quota_is_told_so(cli: Cli) -> None:
    cli.create("reading-quota")
    cli.leave_open("reading-quota", "reading-quota-app")
    cli("quotas", "set", "--client-id", "reading-slow", "consumer_byte_rate=1", "-y")
    try:
        arguments = ("transactions", "history", "reading-quota-app", "-X", "client.id=reading-slow")
        result = cli(*arguments, "--timeout", "1500ms", status=1)
    finally:
        cli("quotas", "delete", "--client-id", "reading-slow", "consumer_byte_rate", "-y")
    assert "nothing came for 1.5s: __transaction_state-" in result.stderr
    assert "a quota holds it up: the broker told it to wait for " in result.stderr
