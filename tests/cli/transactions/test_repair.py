"""`oncelog transactions abort | force-terminate | complete`: what they do, refuse, and say."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog import Producer
from tests.cli.world import Cli


def _without_times(shown: str) -> list[str]:
    return [word for word in shown.split() if not word.endswith(("s", "m"))]


def state_of(cli: Cli, transactional_id: str) -> str:
    return str(cli.json("transactions", "describe", transactional_id)["state"])


def is_open(cli: Cli, topic: str) -> bool:
    return bool(cli.json("transactions", "describe-producers", "--topic", topic, "--open"))


def values(cli: Cli, topic: str) -> list[str]:
    return cli("consume", topic, "-e").stdout.splitlines()


def test_abort_ends_a_hanging_transaction(cli: Cli) -> None:
    ghost = cli.leave_hanging(cli.create("repair-hanging"), "repair-ghost")
    command = ("transactions", "abort", "--topic", "repair-hanging", "--partition", 0, "--start-offset", 0)
    said = cli(*command, "--dry-run").stderr
    assert said.startswith(f"dry run, would: write an ABORT marker for producer {ghost}:0 on repair-hanging-0")
    assert "it is hanging" in said
    assert "--yes" in cli(*command, status=2).stderr
    assert is_open(cli, "repair-hanging")
    row = cli.json(*command, "--yes")[0]
    assert (row["producer_id"], row["start_offset"], row["result"]) == (ghost, 0, "aborted")
    assert not is_open(cli, "repair-hanging")
    assert "no open transaction of repair-hanging-0 starts at offset 0" in cli(*command, "-y", status=1).stderr


def test_what_may_be_part_of_a_commit_is_looked_at_before_it_is_aborted(cli: Cli) -> None:
    """docs/kafka-notes.md R4: a marker that was lost leaves just this behind, and an abort tears the commit apart."""
    cli.leave_hanging_behind_commit(cli.create("repair-lost-marker"), "repair-lost-marker")
    place = "--topic repair-lost-marker --partition 0 --start-offset 2"
    (row,) = cli.json("transactions", "explain", "--topic", "repair-lost-marker")
    assert row["verdict"] == "hanging"
    assert "this may be part of it, whose marker was lost" in row["why"]
    assert row["repair"].endswith(f"transactions abort {place} --dry-run")
    (row,) = cli.json("transactions", "find-hanging", "--topic", "repair-lost-marker")
    assert row["repair"].endswith(f"transactions abort {place} --dry-run")
    said = cli("transactions", "abort", *place.split(), "--dry-run").stderr
    assert "this abort tears it apart" in said
    assert is_open(cli, "repair-lost-marker")
    ghost = ("transactions", "abort", "--topic", "repair-hanging-plain", "--partition", 0, "--start-offset", 0)
    cli.leave_hanging(cli.create("repair-hanging-plain"), "repair-hanging-plain")
    assert "tears it apart" not in cli(*ghost, "--dry-run").stderr


def test_abort_by_ids(cli: Cli) -> None:
    ghost = cli.leave_hanging(cli.create("repair-ids"), "repair-ids-ghost")
    ids = ("--producer-id", ghost, "--producer-epoch", 0, "--coordinator-epoch", 0)
    cli("transactions", "abort", "--topic", "repair-ids", "--partition", 0, *ids, "-y")
    assert not is_open(cli, "repair-ids")


def test_abort_refuses_what_its_coordinator_owns(cli: Cli) -> None:
    cli.leave_open(cli.create("repair-owned"), "repair-owned")
    command = ("transactions", "abort", "--topic", "repair-owned", "--partition", 0, "--start-offset", 0, "-y")
    error = cli(*command, status=1).stderr
    assert "refused: its coordinator still owns this transaction (repair-owned)" in error
    assert f"oncelog -b {cli.bootstrap_servers} transactions force-terminate --transactional-id repair-owned" in error
    assert "its owner can still commit it" in error
    assert "two-phase" not in error
    assert is_open(cli, "repair-owned")
    cli(*command, "--force")
    assert not is_open(cli, "repair-owned")
    assert state_of(cli, "repair-owned") == "Ongoing", "the coordinator knows nothing of it: this is what force risks"


@pytest.mark.parametrize(
    "which",
    [(), ("--start-offset", 0, "--producer-id", 1), ("--producer-id", 1, "--producer-epoch", 0)],
    ids=str,
)
def test_abort_needs_one_way_to_say_which(cli: Cli, which: tuple[object, ...]) -> None:
    assert "say which" in cli("transactions", "abort", "--topic", "x", "--partition", 0, *which, status=2).stderr


def test_force_terminate(cli: Cli) -> None:
    cli.leave_open(cli.create("repair-terminated"), "repair-terminated")
    command = ("transactions", "force-terminate", "--transactional-id", "repair-terminated")
    assert "abort its transaction" in cli(*command, "--dry-run").stderr
    assert state_of(cli, "repair-terminated") == "Ongoing"
    assert cli.json(*command, "-y")[0]["result"] == "aborted"
    assert not is_open(cli, "repair-terminated")
    assert values(cli, "repair-terminated") == []
    assert cli.json(*command, "-y")[0]["result"] == "fenced"


@pytest.mark.parametrize("two_phase", [True, False])
@pytest.mark.parametrize("commit", [True, False])
def test_complete_as_decided(cli: Cli, two_phase: bool, commit: bool) -> None:
    name = f"repair-{two_phase}-{commit}"
    state = cli.leave_open(cli.create(name), name, two_phase=two_phase)
    command = ("transactions", "complete", "--transactional-id", name, "--state", state)
    said, other = ("--commit", "--abort") if commit else ("--abort", "--commit")
    assert "say what was decided" in cli(*command, "-y", status=2).stderr
    cli(*command, said, "--dry-run")
    assert state_of(cli, name) == "Ongoing"
    row = cli.json(*command, said, "-y")[0]
    assert row == {"transactional_id": name, "state": state, "result": "committed" if commit else "aborted"}
    assert len(values(cli, name)) == (3 if commit else 0)
    cli(*command, said, "-y")
    assert "is over, and not that way" in cli(*command, other, "-y", status=1).stderr


def test_complete_leaves_any_other_transaction_alone(cli: Cli) -> None:
    state = cli.leave_open(cli.create("repair-other"), "repair-other", two_phase=True)
    command = ("transactions", "complete", "--transactional-id", "repair-other", "--commit", "-y", "--state")
    producer_id = int(state.split(":")[0])
    assert "has no transaction" in cli(*command, f"{producer_id + 9}:0", status=1).stderr
    cli(*command, "nonsense", status=2)
    cli(*command, "", status=2)
    assert state_of(cli, "repair-other") == "Ongoing"
    cli(*command, state)


def test_two_decisions_are_none(cli: Cli) -> None:
    """The last one won in silence: an alias with --commit, and an --abort typed behind it."""
    words = ("transactions", "complete", "--transactional-id", "nobody", "--state", "1:1", "--yes")
    for more in (("--commit", "--abort"), ("--abort", "--commit"), ()):
        assert "one of --commit and --abort" in cli(*words, *more, status=2).stderr


@pytest.mark.parametrize("commit", [True, False])
def test_complete_takes_over_what_a_new_instance_kept(cli: Cli, commit: bool) -> None:
    """KIP-939: the application came back, kept the prepared transaction, and went away again without deciding."""
    name = f"repair-kept-{commit}"
    state = cli.leave_open(cli.create(name), name, two_phase=True)

    async def come_and_go() -> None:
        more: dict[str, Any] = {
            "transactional_id": name,
            "transaction_two_phase_commit_enable": True,
            "keep_prepared_txn": True,
        }
        async with Producer(bootstrap_servers=cli.bootstrap_servers, **more) as producer:
            assert str(producer.prepared_state) == state

    asyncio.run(come_and_go())
    command = ("transactions", "complete", "--transactional-id", name, "--state")
    wrong = f"{state.split(':')[0]}:99"
    assert "was initialised since" in cli(*command, wrong, "--commit", "-y", status=1).stderr
    cli(*command, state, "--commit" if commit else "--abort", "-y")
    assert len(values(cli, name)) == (3 if commit else 0)


def test_a_state_of_another_transaction_touches_nobody(cli: Cli) -> None:
    """It fenced a living producer, and its transaction, which had a timeout, had none any more."""
    name = cli.create("repair-mistyped")
    command = ("transactions", "complete", "--transactional-id", name, "--state")

    async def in_the_middle() -> tuple[str, str, str, str]:
        async with Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id=name) as producer:
            async with producer.transaction():
                await producer.send(name, b"1")
            async with producer.transaction():
                await producer.send_and_wait(name, b"2")
                before = await asyncio.to_thread(cli, "transactions", "describe", name)
                state = await asyncio.to_thread(cli.json, "transactions", "describe", name)
                stale = f"{state['producer_id']}:{state['producer_epoch'] - 1}"
                refused = await asyncio.to_thread(cli, *command, stale, "--abort", "-y", status=1)
                after = await asyncio.to_thread(cli, "transactions", "describe", name)
            return stale, refused.stderr, _without_times(before.stdout), _without_times(after.stdout)

    stale, told, before, after = asyncio.run(in_the_middle())
    assert before == after
    assert f"{name} was initialised since {stale}, nothing was done: its open transaction is " in told
    assert values(cli, name) == ["1", "2"]
    told = cli(*command, stale, "--commit", "-y", status=1).stderr
    assert f"nothing was done: it is CompleteCommit; how {stale} ended" in told


def test_a_prepared_transaction_is_not_ended_without_its_decision(cli: Cli) -> None:
    """Whoever decided about it, a database, would disagree with the topic afterwards."""
    state = cli.leave_open(cli.create("repair-prepared"), "repair-prepared", two_phase=True)
    command = ("transactions", "force-terminate", "--transactional-id", "repair-prepared")
    for more in ("-y", "--dry-run"):
        refused = cli(*command, more, status=1)
        assert "waits for what was decided elsewhere" in refused.stderr
        assert f"complete --transactional-id repair-prepared --state {state} --commit or --abort" in refused.stderr
        assert "repair-prepared-0" in refused.stderr, "what is known of it"
    assert cli.json("transactions", "describe", "repair-prepared")["state"] == "Ongoing"
    abort = ("transactions", "abort", "--topic", "repair-prepared", "--partition", 0, "--start-offset", 0)
    refused = cli(*abort, "-y", status=1)
    assert "force-terminate" not in refused.stderr, "which would be refused, too"
    assert f"complete --transactional-id repair-prepared --state {state} --commit or --abort" in refused.stderr
    for said in (refused, cli(*abort, "--force", "--dry-run")):
        assert "it is in two-phase commit: its database may have committed already" in said.stderr
    done = cli(*command, "--even-if-prepared", "-y")
    assert "topic and database then disagree" in done.stderr
    assert cli.json("transactions", "describe", "repair-prepared")["state"] == "Empty"


def test_a_dry_run_of_complete_says_what_the_real_run_would(cli: Cli) -> None:
    name = "repair-dry"
    state = cli.leave_open(cli.create(name), name, two_phase=True)
    command = ("transactions", "complete", "--transactional-id", name, "--state")
    other = f"{state.split(':')[0]}:7"
    assert (
        f"its open transaction is {state}, not {other}"
        in cli(*command, other, "--commit", "--dry-run", status=1).stderr
    )
    cli(*command, state, "--commit", "--dry-run")
    cli(*command, state, "--commit", "-y")
    for status, said in ((0, "--commit"), (1, "--abort")):
        for how in ("--dry-run", "-y"):
            cli(*command, state, said, how, status=status)
    cli(*command, "999999:0", "--commit", "--dry-run", status=1)


def test_abort_by_ids_writes_what_it_shows(cli: Cli) -> None:
    topic = cli.create("repair-epoch")
    producer_id = cli.leave_hanging(topic, "repair-epoch-ghost")
    ids = ("--producer-id", producer_id, "--coordinator-epoch", 0, "--producer-epoch")
    command = ("transactions", "abort", "--topic", topic, "--partition", 0, *ids)
    for how in ("-y", "--dry-run"):
        refused = cli(*command, 5, how, status=1)
        assert f"is of producer {producer_id}:0, not {producer_id}:5" in refused.stderr
    assert cli.json(*command, 5, "--force", "-y")[0]["producer_epoch"] == 5
    (left,) = cli.json("transactions", "describe-producers", "--topic", topic)
    assert (left["producer_epoch"], left["transaction_start_offset"]) == (5, None)


def test_a_dry_run_gives_machines_its_plan(cli: Cli) -> None:
    cli.leave_open(cli.create("repair-plan"), "repair-plan")
    (row,) = cli.json("transactions", "force-terminate", "--transactional-id", "repair-plan", "--dry-run")
    assert (row["transactional_id"], row["result"]) == ("repair-plan", "would be aborted")
    assert cli.json("topics", "delete", "repair-plan", "--dry-run")[0]["result"] == "would be deleted"
    assert cli("topics", "delete", "repair-plan", "--dry-run").stdout == ""
