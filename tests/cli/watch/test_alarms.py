"""What rings beside readers that are held back: unit by unit, and by a broker whose partitions and coordinators are away."""

from __future__ import annotations

import asyncio
import dataclasses
import pathlib
from typing import Any

import pytest

from oncelog import Admin
from oncelog.cli.command import Settings
from oncelog.cli.watch import looks as module
from oncelog.cli.watch.alarms import MARKER_STUCK, OFFLINE, SILENT, Alarm, Alarms
from oncelog.cli.watch.looks import Looks, Seen
from oncelog.cli.watch.screen import alert_lines
from oncelog.core.diagnosis.facts import Owner
from oncelog.core.diagnosis.watching import Watching
from oncelog.errors import RequestTimedOut
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from tests.cli.world import Cli, damaged_broker

WHERE = TopicPartition("orders", 0)
GONE = Alarm(OFFLINE, str(WHERE), (WHERE,), is_at_once=True)


def decided(age_ms: int) -> Owner:
    return Owner("ledger-7", 1, "PrepareAbort", 5, 1, 60_000, age_ms, None)


def test_what_is_offline_rings_when_it_has_lasted_or_when_nobody_looks_again() -> None:
    assert Alarms(5_000, is_only_look=True).looked([GONE], 0).rung == (GONE,)
    alarms = Alarms(5_000)
    assert alarms.looked([GONE], 0).now == ()
    assert alarms.looked([], 4_000).now == ()
    assert alarms.looked([GONE], 6_000).now == (), "it was served between"
    ringing = alarms.looked([GONE], 11_000)
    assert [(each.name, each.lasting_ms) for each in ringing.rung] == [("orders-0", 5_000)]
    assert (alarms.looked([GONE], 13_000).rung, len(alarms.looked([GONE], 15_000).now)) == ((), 1)
    assert [each.name for each in alarms.looked([], 17_000).over] == ["orders-0"]


def test_a_marker_for_a_partition_that_nobody_serves_rings_at_once() -> None:
    late = Alarm(MARKER_STUCK, "ledger-7", (WHERE,), decided(1_000))
    lost = Alarm(MARKER_STUCK, "ledger-7", (WHERE,), decided(1_000), is_at_once=True)
    alarms = Alarms(5_000)
    assert alarms.looked([late], 0).now == ()
    assert len(alarms.looked([lost], 1_000).now) == 1
    assert len(alarms.looked([late], 5_000).now) == 1, "the same one, for as long as it was seen"
    only = Alarms(5_000, is_only_look=True)
    assert (only.is_doubtful(late), only.is_doubtful(lost)) == (False, False)
    assert only.is_doubtful(Alarm(MARKER_STUCK, "ledger-7", (WHERE,), decided(5_000)))


def test_a_coordinator_that_does_not_answer_rings_when_it_lasts() -> None:
    silent = Alarm(SILENT, "the transactional ids of broker 2")
    assert Alarms(5_000, is_only_look=True).looked([silent], 0).now == (), "that is: not everything could be read"
    alarms = Alarms(5_000)
    alarms.looked([silent], 0)
    assert len(alarms.looked([silent], 5_000).rung) == 1


async def _looks(cli: Cli, looks: Looks, *moments_ms: int) -> list[Seen]:
    async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
        return [await looks.look(admin, now_ms) for now_ms in moments_ms]


def test_an_offline_partition_is_an_alarm_and_not_read(tmp_path: pathlib.Path) -> None:
    """And so is the transaction that was aborted, whose marker nobody takes there."""
    with damaged_broker(tmp_path, lambda cli: cli.leave_open("lost", "lost-holder")) as cli:
        found = cli.json("watch", "--once", "--exit-code", status=3)
        assert (found["verdict"], found["alerts"]) == ("offline", ["lost-0"])
        assert [(each["what"], each["error"]) for each in found["not_read"]] == [("lost-0", "KAFKA_STORAGE_ERROR")]
        text = cli("watch", "--once", status=1)
        assert text.stderr.splitlines()[0].startswith("alert: lost-0 is offline: oncelog -b ")
        assert cli.json("watch", "flip", "--once", "--exit-code")["alerts"] == []
        cli("transactions", "force-terminate", "--transactional-id", "lost-holder", "-y", "--timeout", "3s", status=1)
        text = cli("watch", "--once", "--exit-code", status=3)
        assert "alert: markers of lost-holder (PrepareAbort, open for " in text.stderr
        assert ") do not arrive on lost-0: oncelog -b" in text.stderr
        looks = Looks((), Watching(5_000), Alarms(5_000))
        seen = asyncio.run(_looks(cli, looks, 0, 4_999, 5_000, 7_000))
        lines = [[line for line in alert_lines(Settings(), each, 0) if "offline" in line] for each in seen]
        assert [bool(each) for each in lines] == [False, False, True, False]
        assert lines[2] == ["alert: lost-0 is offline for 5.0s: oncelog topics describe lost -o wide"]


@pytest.mark.parametrize("topic", ["__transaction_state", "__consumer_offsets"])
def test_a_coordinator_that_is_offline_is_an_alarm(tmp_path: pathlib.Path, topic: str) -> None:
    config = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with TestBroker(config, data_dir=str(tmp_path)) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("orders")
        cli("produce", "orders", "--transactional-id", "done", stdin="a\n")
        cli("consume", "orders", "-e", "-g", "reader")
    log = tmp_path / f"{topic}-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    for snapshot in log.parent.glob("*.snapshot"):
        snapshot.unlink()
    with TestBroker(config, data_dir=str(tmp_path)) as broker:
        cli = Cli(broker.bootstrap_servers)
        found = cli.json("watch", "orders", "--once", "--exit-code", "--timeout", "2s", status=3)
        assert (found["verdict"], found["alerts"]) == ("unknown", [f"{topic}-0"])
        assert f"{topic}-0" in found["not_read"][0]["what"]
        assert f"alert: {topic}-0 is offline" in cli("watch", "--once", "--timeout", "2s", status=1).stderr


def test_markers_that_are_just_under_way_ring_only_where_they_still_are(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that was open for an hour is decided for a moment, too; who looks once looks again then."""
    monkeypatch.setattr(module, "pause", lambda _seconds: asyncio.sleep(0))
    cli.create("late-topic")
    cli.leave_open("late-topic", "late-app")

    async def look(*, still: bool) -> Seen:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            describe = admin.describe_transactions
            count = 0

            async def described(ids: Any, **more: Any) -> Any:
                nonlocal count
                found, count = await describe(ids, **more), count + 1
                is_decided = still or count == 1
                return {k: _as_decided(v) if k == "late-app" and is_decided else v for k, v in found.items()}

            monkeypatch.setattr(admin, "describe_transactions", described)
            looks = Looks(["late-topic"], Watching(3_600_000), Alarms(0, is_only_look=True))
            return await looks.look(admin, 0)

    assert [each.name for each in asyncio.run(look(still=True)).ringing.now] == ["late-app"]
    assert asyncio.run(look(still=False)).ringing.now == ()


def _as_decided(found: Any) -> Any:
    return dataclasses.replace(found, state="PrepareCommit")


def test_a_silent_coordinator_hides_nothing_of_the_others(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.create("partly-topic")
    cli.leave_open("partly-topic", "partly-app")

    async def look() -> list[Seen]:
        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            list_transactions = admin.list_transactions

            async def listed(**more: Any) -> Any:
                found = await list_transactions(**more)
                if more.get("unreachable") is not None:
                    node = next(iter(admin._cluster.view.nodes.values()))
                    more["unreachable"][node] = RequestTimedOut("no answer")
                return found

            monkeypatch.setattr(admin, "list_transactions", listed)
            looks = Looks(["partly-topic"], Watching(3_600_000), Alarms(5_000))
            return [await looks.look(admin, now_ms) for now_ms in (0, 5_000)]

    first, second = asyncio.run(look())
    assert "partly-app" in {each.transactional_id for each in first.owners}
    assert [each.what for each in first.not_read] == ["the transactional ids of broker 1"]
    assert (first.ringing.now, [each.kind for each in second.ringing.rung]) == ((), [SILENT])
    (line,) = [each for each in alert_lines(Settings(), second, 0) if "ids" in each]
    assert line == "alert: the transactional ids of broker 1 could not be read for 5.0s: oncelog transactions list"
