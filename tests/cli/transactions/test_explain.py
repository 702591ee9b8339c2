"""`oncelog transactions explain`: who holds a partition's last stable offset, and what to do, in each case."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import pytest
from evidence.world.broker import one_more_that_stands_still

from oncelog import Consumer, OffsetAndMetadata, Producer
from oncelog.cli import clients
from oncelog.cli.command import Settings
from oncelog.cli.transactions import explain
from oncelog.cli.transactions.explain import Holder, judge
from oncelog.client.admin.transaction_listing import (
    NEVER_MS,
    HangingTransaction,
    ProducerDescription,
    TransactionDescription,
)
from oncelog.types import TopicPartition
from tests.cli.world import Cli

WHERE = TopicPartition("orders", 3)
NOW_MS = 1_000_000
OWNER = TransactionDescription("app", 1, "Ongoing", 40, 7, 60_000, NOW_MS - 20_000, (WHERE,), NOW_MS)
HOLDER = Holder(
    WHERE,
    {"log_start": 0, "last_stable_offset": 5, "high_watermark": 9, "blocked": 4},
    ProducerDescription(40, 7, 0, NOW_MS - 20_000, 0, 5),
    [],
    OWNER,
    None,
    NOW_MS,
)


def test_a_coordinator_that_stands_still_hides_no_holder(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where nobody can say whose it is: then it is nobody's to abort."""
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    cli.create("explain-still")
    cli.leave_open("explain-still", "explain-still-app")
    cli.create("explain-whose")
    cli.leave_hanging("explain-whose", "explain-whose-app")
    with one_more_that_stands_still():
        shown = cli("transactions", "explain", "--topic", "explain-still", status=1)
        (row,) = cli.json("transactions", "explain", "--topic", "explain-whose", "--exit-code", status=3)
    assert "explain-still-app: Ongoing" in shown.stdout
    assert shown.stderr.startswith(
        "error: transactional ids of broker 2 are missing: REQUEST_TIMED_OUT: no connection to "
    )
    assert (row["verdict"], "broker 2 does not answer" in row["why"]) == ("unknown owner", True)
    assert "abort" not in row["repair"]


def verdict(**owner: Any) -> tuple[str, str, str]:
    found = judge(Settings(), dataclasses.replace(HOLDER, owner=dataclasses.replace(OWNER, **owner)))
    return found.kind, found.why, found.repair


def test_in_progress_tells_when_it_ends_by_itself() -> None:
    kind, why, repair = verdict()
    assert (kind, why) == ("in progress", "in progress; the coordinator aborts it in 40s (timeout 1m00s)")
    assert repair == "oncelog transactions force-terminate --transactional-id app"
    assert "at its next look" in verdict(start_ms=0)[1]


def test_a_prepared_one_is_never_ended_by_a_copied_line_alone() -> None:
    kind, _, repair = verdict(timeout_ms=NEVER_MS)
    assert kind == "two-phase"
    assert repair == "oncelog transactions complete --transactional-id app --state 40:7", "the outcome is to be added"


@pytest.mark.parametrize(("state", "word"), [("PrepareCommit", "committed"), ("PrepareAbort", "aborted")])
def test_a_decided_one_needs_nothing(state: str, word: str) -> None:
    kind, why, repair = verdict(state=state)
    assert (kind, repair) == ("ending", "")
    assert why.startswith(word)


def test_a_marker_is_late_after_half_a_minute() -> None:
    """Until then it may well be on its way; later somebody has to look why it is not here."""

    def advice(duration_ms: int) -> str:
        owner = dataclasses.replace(OWNER, state="PrepareCommit", start_ms=NOW_MS - duration_ms)
        return judge(Settings(), dataclasses.replace(HOLDER, owner=owner)).advice

    assert advice(30_000) == "wait"
    assert advice(30_001).startswith("look at the logs")


@pytest.mark.parametrize("owner", [None, OWNER])
def test_a_hanging_one_is_ended_on_its_partition(owner: TransactionDescription | None) -> None:
    hanging = HangingTransaction(WHERE, 40, 7, 0, 5, 0, NOW_MS, "app", "of its reason") if owner else None
    found = judge(Settings(), dataclasses.replace(HOLDER, owner=owner, hanging=hanging))
    assert found.kind == "hanging"
    assert found.repair == "oncelog transactions abort --topic orders --partition 3 --start-offset 5"
    assert ("of its reason" if owner else "no transactional id") in found.why


def test_an_open_transaction_of_a_broker(cli: Cli) -> None:
    cli.create("explain", 2)
    cli("produce", "explain", "-p", 0, stdin="before\n")
    state = cli.leave_open("explain", "explain-first")
    cli.leave_open("explain", "explain-second")
    rows = cli.json("transactions", "explain", "--topic", "explain", "--exit-code", status=3)
    assert [(row["topic"], row["partition"]) for row in rows] == [("explain", 0)]
    row = rows[0]
    assert (row["last_stable_offset"], row["blocked"], row["start_offset"], row["open_behind"]) == (1, 6, 1, 1)
    assert (row["transactional_id"], row["verdict"]) == ("explain-first", "in progress")
    assert f"{row['producer_id']}:{row['producer_epoch']}" == state
    text = cli("transactions", "explain", "--topic", "explain").stdout
    assert "explain-0: read_committed readers wait at offset 1; 6 offsets up to 7 are held back" in text
    assert "force-terminate --transactional-id explain-first" in text
    assert "1 more behind it" in text


def test_nothing_is_held_back(cli: Cli) -> None:
    cli.create("explain-free")
    result = cli("transactions", "explain", "--topic", "explain-free", "--exit-code")
    assert result.stdout == ""
    assert "nothing is held back" in result.stderr
    cli("transactions", "explain", "--partition", 0, status=2)
    cli("transactions", "explain", "--topic", "explain-free", "--partition", 7, status=1)


def test_only_what_a_group_reads(cli: Cli) -> None:
    cli.create("explain-read")
    cli.create("explain-unread")
    cli("groups", "reset-offsets", "explain-group", "--topic", "explain-read", "--to-earliest", "-y")
    for topic in ("explain-read", "explain-unread"):
        cli.leave_open(topic, f"{topic}-holder")
    rows = cli.json("transactions", "explain", "--group", "explain-group")
    assert [row["topic"] for row in rows] == ["explain-read"]


def test_a_group_that_does_not_exist_is_no_all_clear(cli: Cli) -> None:
    result = cli("transactions", "explain", "--group", "explain-misspelt", status=1)
    assert "there is no group 'explain-misspelt'" in result.stderr
    assert "held back" not in result.stderr


def test_a_running_group_without_a_stored_position_is_looked_at(cli: Cli) -> None:
    cli.create("explain-fresh")

    async def work() -> None:
        more: dict[str, Any] = {"group_id": "explain-fresh", "enable_auto_commit": False}
        async with Consumer("explain-fresh", bootstrap_servers=cli.bootstrap_servers, **more) as consumer:
            while not consumer.assignment():
                await consumer.poll(20)
            await asyncio.to_thread(look)

    def look() -> None:
        free = cli("transactions", "explain", "--group", "explain-fresh", "--exit-code")
        assert "no open transactions on 1 partition" in free.stderr
        assert "no position is stored of explain-fresh-0" in free.stderr
        cli.leave_open("explain-fresh", "explain-fresh-holder")
        (row,) = cli.json("transactions", "explain", "--group", "explain-fresh", "--exit-code", status=3)
        assert (row["topic"], row["transactional_id"]) == ("explain-fresh", "explain-fresh-holder")
        (lag,) = cli.json("groups", "describe", "explain-fresh")
        assert (lag["topic"], lag["partition"], lag["position"]) == ("explain-fresh", 0, None)
        assert (lag["lag"], lag["blocked"], lag["high_watermark"], lag["client"]) == (None, 3, 3, "oncelog")

    asyncio.run(work())


def test_a_pending_offset_commit_is_what_a_group_waits_for(cli: Cli) -> None:
    """Also where the group has no position yet: then only those that are pending are known of it."""
    where = TopicPartition(cli.create("explain-moved"), 0)

    async def leave_pending() -> None:
        producer = Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id="explain-mover")
        await producer.start()
        producer.begin_transaction()
        await producer.send_offsets_to_transaction({where: OffsetAndMetadata(0)}, "explain-moved")
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(leave_pending())
    rows = cli.json("transactions", "explain", "--group", "explain-moved", "--exit-code", status=3)
    assert "explain-mover" in [row["transactional_id"] for row in rows]
    assert {row["topic"] for row in rows} == {"__consumer_offsets"}
    assert all((row["group"], row["pending"]) == ("explain-moved", ["explain-moved-0"]) for row in rows)
    assert "members that start wait for their position of explain-moved-0" in (
        cli("transactions", "explain", "--group", "explain-moved").stdout
    )
    described = cli("groups", "describe", "explain-moved", "-o", "wide")
    assert "explain --group explain-moved" in described.stderr
    cli("transactions", "force-terminate", "--transactional-id", "explain-mover", "-y")


def test_what_has_just_begun_does_not_ring(cli: Cli) -> None:
    """A healthy system always has open transactions: an alarm is about those that stay open."""
    cli.create("explain-young")
    cli.leave_open("explain-young", "explain-young")
    young = cli("transactions", "explain", "--topic", "explain-young", "--older-than", "1h", "--exit-code")
    assert "nothing is held back for longer than 1h00m: 1 open transaction on 1 partition" in young.stderr
    cli("transactions", "explain", "--topic", "explain-young", "--older-than", "1ms", "--exit-code", status=3)


def test_a_line_break_in_an_id_begins_no_line() -> None:
    owner = dataclasses.replace(OWNER, transactional_id="app\n  do    delete everything")
    holder = dataclasses.replace(HOLDER, owner=owner)
    lines = explain._text(holder, judge(Settings(), holder)).split("\n")
    assert [line[:7].strip() for line in lines[1:]] == ["by", "id", "why", "do", ""]
