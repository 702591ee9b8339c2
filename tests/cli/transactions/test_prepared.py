"""What the command line shows of two-phase transactions, prepared or kept by a newer instance, and that it can be used."""

from __future__ import annotations

import pytest

from tests.cli.world import Cli, oncelog

KINDS = ["prepared", "kept", "kept twice"]


def leave(cli: Cli, kind: str) -> tuple[str, str]:
    """A two-phase transaction of a topic and id of its own, which newer instances may have kept; the id and its state."""
    name = f"two-phase-{kind.replace(' ', '-')}"
    if name not in {row["topic"] for row in cli.json("topics", "list")}:
        cli.create(name, 2)
    state = cli.leave_open(name, name, two_phase=True)
    for _ in range(KINDS.index(kind)):
        assert cli.keep(name) == state
    return name, state


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("commit", [True, False])
def test_every_look_at_a_two_phase_transaction_agrees(cli: Cli, kind: str, commit: bool) -> None:
    before = oncelog("-b", cli.bootstrap_servers, "consume", f"two-phase-{kind.replace(' ', '-')}", "-e").stdout.count(
        "\n"
    )
    name, state = leave(cli, kind)
    producer_id = int(state.split(":")[0])

    listed = cli.json("transactions", "list", "--pattern", name, "--open-longer-than", "1ms")
    assert [(row["transactional_id"], row["state"], row["producer_id"]) for row in listed] == [
        (name, "Ongoing", producer_id)
    ]
    row = cli.json("transactions", "describe", name)
    assert f"{row['producer_id']}:{row['producer_epoch']}" == state, (
        "the transaction's own identity, not the next one's"
    )
    assert (row["state"], row["two_phase"]) == ("Ongoing", True)
    assert (row["timeout_ms"], row["remaining_ms"]) == (None, None), "it never times out"
    assert 0 <= row["duration_ms"] < 600_000
    assert row["partitions"] == [f"{name}-0"]

    explained = cli.json("transactions", "explain", "--topic", name)
    assert len(explained) == 1
    found = explained[0]
    assert (found["transactional_id"], found["verdict"], found["state"]) == (name, "two-phase", "Ongoing")
    assert f"{found['producer_id']}:{found['producer_epoch']}" == state
    assert (found["blocked"], found["open_behind"]) == (3, 0)
    assert found["last_stable_offset"] == found["start_offset"] == found["high_watermark"] - 3
    assert found["repair"].endswith(f"transactions complete --transactional-id {name} --state {state}")
    assert "no timeout" in found["why"]

    repair = found["repair"].removeprefix("oncelog ").split()
    assert oncelog(*repair).exit_code == 2, "a copied line alone decides nothing"
    done = oncelog(*repair, "--commit" if commit else "--abort", "-y")
    assert done.exit_code == 0, done.stderr
    after = cli("consume", name, "-e").stdout.count("\n")
    assert after - before == (3 if commit else 0)
    ended = cli.json("transactions", "describe", name)
    assert (ended["state"], ended["partitions"]) == (f"Complete{'Commit' if commit else 'Abort'}", [])
    assert (ended["duration_ms"], ended["remaining_ms"]) == (None, None)
    assert cli.json("transactions", "explain", "--topic", name) == []
