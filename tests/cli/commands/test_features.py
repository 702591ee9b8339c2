"""`oncelog features` against a broker."""

from __future__ import annotations

from tests.cli.world import Cli


def test_levels_are_shown(cli: Cli) -> None:
    levels = {row["feature"]: row for row in cli.json("features", "describe")}
    assert levels["transaction.version"]["finalized"] == 3
    assert (levels["transaction.version"]["supported_min"], levels["transaction.version"]["supported_max"]) == (0, 3)


def test_a_change_is_checked_without_being_made(cli: Cli) -> None:
    row = cli.json("features", "upgrade", "transaction.version=3", "--dry-run")[0]
    assert row["result"] == "would be changed"
    row = cli.json("features", "upgrade", "transaction.version=99", "--dry-run", status=1)[0]
    assert (row["result"], row["error"]) == ("failed", "INVALID_UPDATE_VERSION")


def test_a_refusal_says_why(cli: Cli) -> None:
    state = cli.leave_open(cli.create("features"), "features-prepared", two_phase=True)
    row = cli.json("features", "downgrade", "transaction.version=2", "-y", status=1)[0]
    assert "features-prepared" in row["message"]
    levels = {row["feature"]: row["finalized"] for row in cli.json("features", "describe")}
    assert levels["transaction.version"] == 3
    complete = ("transactions", "complete", "--transactional-id", "features-prepared", "--state", state)
    cli(*complete, "--abort", "-y")


def test_a_level_is_a_number(cli: Cli) -> None:
    assert "a level is a number" in cli("features", "upgrade", "transaction.version=high", status=2).stderr
    cli("features", "upgrade", "transaction.version", status=2)


def test_a_downgrade_that_lowers_nothing_is_not_asked_about(cli: Cli) -> None:
    """It asked whether to lower transaction.version from 3 to 5."""
    result = cli("features", "downgrade", "transaction.version=5", status=1)
    assert "lower" not in result.stderr
    assert "INVALID_UPDATE_VERSION" in result.stderr
    cli("features", "downgrade", "transaction.version=3")
    assert (
        "lower transaction.version from 3 to 2, for all clients"
        in cli(*("features", "downgrade", "transaction.version=2"), status=2).stderr
    )
