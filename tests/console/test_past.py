"""A window of the past as JSON: as it was at the moment, who held readers back and what became of it, what is not known."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

from oncelog import Admin, Producer, TopicPartition
from oncelog.cli.command import Settings
from oncelog.client.admin.past_reading import PastReading
from oncelog.console import past
from oncelog.console.past import PastLooks, TooManyLooks, window_of
from oncelog.console.routes import application
from oncelog.console.security import Gate
from tests.cli.world import Cli
from tests.client.admin.test_lane_reading import readable_up_to
from tests.console.test_routes import ORIGIN, TestClient, get

MINUTE = 60_000


async def _write_history(servers: str, now_ms: int) -> None:
    """quick: some of everybody's day; froze: twenty minutes behind one transaction, and one that is open to this day."""

    async def write(producer: Producer, topic: str, minutes: float) -> None:
        await producer.send(topic, b"x", partition=0, timestamp_ms=now_ms - int(minutes * MINUTE))
        await producer.flush()

    async with (
        Producer(bootstrap_servers=servers, transactional_id="slow-load") as slow,
        Producer(bootstrap_servers=servers, transactional_id="victim") as victim,
        Producer(bootstrap_servers=servers) as plain,
    ):
        slow.begin_transaction()
        await write(slow, "froze", 40)
        victim.begin_transaction()
        await write(victim, "froze", 39)
        await victim.commit_transaction()
        await write(plain, "froze", 38)
        await write(plain, "quick", 30)
        await slow.abort_transaction()
        await write(plain, "froze", 20)
    async with Admin(bootstrap_servers=servers) as admin:
        await readable_up_to(admin, TopicPartition("froze", 0), 6)


@pytest.fixture(scope="module")
def now_ms(night: Cli) -> int:
    for topic in ("froze", "quick"):
        night.create(topic)
    now_ms = int(time.time() * 1000)
    asyncio.run(_write_history(night.bootstrap_servers, now_ms))
    return now_ms


@pytest.fixture(scope="module")
def client(night: Cli) -> Iterator[TestClient]:
    settings = Settings(bootstrap_servers=night.bootstrap_servers)
    with TestClient(application(settings, Gate(None, is_open=True)), base_url=ORIGIN) as client:
        yield client


def look(client: TestClient, topic: str, at_ms: int, width_ms: int = 4 * MINUTE) -> Any:
    window = f"from_ms={at_ms - width_ms // 2}&at_ms={at_ms}&to_ms={at_ms + width_ms // 2}"
    return get(client, f"lanes?topic={topic}&{window}")


def test_who_froze_readers_then(client: TestClient, night: Cli, now_ms: int) -> None:
    found = look(client, "froze,quick", now_ms - int(38.5 * MINUTE))
    froze, quick = found["partitions"]
    assert (froze["word"], froze["lso"], froze["high_watermark"], froze["blocked"]) == ("stopped", 0, 2, 2)
    assert (quick["word"], quick["blocked"], quick["spans"]["outcome"]) == ("active", 0, [])
    opened = {each["transactional_id"]: each for each in found["open"]}
    assert set(opened) == {"slow-load", "victim"}
    assert opened["slow-load"]["holds"] == ["froze-0"]
    assert opened["slow-load"]["future"].startswith("aborted at ")
    assert opened["victim"]["future"].startswith("committed at ")
    assert sorted(zip(froze["spans"]["first"], froze["spans"]["outcome"], strict=True)) == [(0, 2), (1, 1)]
    card = found["causes"][0]
    assert (card["letter"], card["transactional_id"], card["kind"]) == ("A", "slow-load", "aborted")
    assert card["what"].startswith("held readers of froze-0 back from ")
    assert "read_committed stood at offset 0" in card["why"]
    assert f"-b {night.bootstrap_servers} transactions history slow-load" in card["command"]
    assert froze["held"][0][:2] == [0, 4]
    assert found["verdict"].endswith("UTC: stopped: 1 of 2 partitions, oldest by slow-load for 1m30s")
    assert (found["notes"], found["not_read"], froze["read_to_ms"]) == ([], [], None)


def test_before_it_began_nobody_was_stopped(client: TestClient, now_ms: int) -> None:
    found = look(client, "froze", now_ms - 50 * MINUTE)
    assert found["verdict"].endswith("UTC: nobody is stopped: 1 partition looked at")
    assert (found["open"], found["partitions"][0]["blocked"]) == ([], 0)


def test_what_began_before_the_window_is_found_beside_it(client: TestClient, now_ms: int) -> None:
    """Nothing of slow-load lies in the window: the leader's list of what was aborted names it."""
    found = look(client, "froze", now_ms - 25 * MINUTE)
    (lane,) = found["partitions"]
    assert (lane["word"], lane["lso"], lane["lso_ms"]) == ("stopped", 0, now_ms - 40 * MINUTE)
    assert "slow-load" in found["verdict"]


def test_what_could_not_be_asked_is_said(client: TestClient, now_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(*_: Any) -> None:
        return None

    monkeypatch.setattr(PastReading, "_fetch_one", nothing)
    found = look(client, "froze", now_ms - 25 * MINUTE)
    assert any("could not be asked: somebody may have held readers back" in each for each in found["notes"])
    assert any("a later marker of " in each and "slow-load" in each for each in found["notes"])
    assert found["partitions"][0]["word"] == "active"


def test_now_is_a_moment_like_any_other(client: TestClient, night: Cli) -> None:
    found = look(client, "orders", int(time.time() * 1000), 3_600_000)
    (lane,) = found["partitions"]
    assert lane["blocked"] == 3
    (opened,) = found["open"]
    assert opened["future"] == "open to this day"


def test_what_was_deleted_or_is_not_there_is_said(client: TestClient, night: Cli, now_ms: int) -> None:
    night.create("pruned")

    async def write() -> None:
        async with Producer(bootstrap_servers=night.bootstrap_servers) as plain:
            for minutes in (30, 20, 10):
                await plain.send("pruned", b"x", partition=0, timestamp_ms=now_ms - minutes * MINUTE)
                await plain.flush()
        async with Admin(bootstrap_servers=night.bootstrap_servers) as admin:
            await admin.delete_records({TopicPartition("pruned", 0): 1})

    asyncio.run(write())
    gone = look(client, "pruned,nope", now_ms - 30 * MINUTE)
    assert [each["what"] for each in gone["not_read"]] == ["topic nope", "pruned-0"]
    assert gone["not_read"][1]["why"].startswith("what lay before offset 1 was deleted; the first that is left is of ")
    assert gone["partitions"][0]["word"] == "unreadable"
    assert gone["verdict"].endswith("UTC: nothing could be read of 1 partition")
    part = look(client, "pruned", now_ms - 19 * MINUTE)
    assert part["notes"][0].startswith("pruned-0: what lay before offset 1 was deleted")
    assert part["partitions"][0]["word"] == "active"


@pytest.mark.parametrize(
    "query",
    [
        "from_ms=1",
        "from_ms=1&to_ms=2",
        "from_ms=0&to_ms=99999999",
        "from_ms=x&to_ms=1",
        "from_ms=0&to_ms=60000&at_ms=60001",
    ],
)
def test_a_window_that_makes_no_sense_is_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"/api/v1/lanes?{query}")
    assert (answer.status_code, answer.json()["error"]) == (400, "InvalidArgument")


def test_what_has_not_come_yet_is_refused() -> None:
    with pytest.raises(ValueError, match="has not come yet"):
        window_of({"from_ms": "0", "to_ms": "60000"}, 59_999)
    assert window_of({"from_ms": "0", "to_ms": "60000"}, 60_000).at_ms == 60_000


def test_so_many_at_a_time_and_who_leaves_is_read_for_no_longer(
    client: TestClient, now_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(past, "WAITING_MAX", 0)
    answer = client.get("/api/v1/lanes?topic=froze&from_ms=0&to_ms=60000")
    assert (answer.status_code, answer.json()["error"]) == (502, "TooManyLooks")
    ended: list[str] = []

    async def never(*_: Any) -> Any:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("reading")

    monkeypatch.setattr(PastReading, "open_past", never)
    monkeypatch.setattr(past, "WAITING_MAX", 1)

    async def leave() -> None:
        looks: PastLooks = client.app.state.past  # type: ignore[attr-defined]
        messages = iter([{"type": "http.request"}, {"type": "http.disconnect"}])
        begun = asyncio.Event()

        async def receive() -> dict[str, str]:
            while not looks.waiting:  # noqa: ASYNC110
                await asyncio.sleep(0)
            begun.set()
            return next(messages)

        scope = {"type": "http", "app": client.app, "headers": [], "query_string": b"from_ms=0&to_ms=60000"}
        with pytest.raises(TooManyLooks, match="nobody waits"):
            await past.lanes(past.Request(scope, receive))  # type: ignore[arg-type]
        assert (begun.is_set(), ended, looks.waiting) == (True, ["reading"], 0)

    assert client.portal is not None
    client.portal.call(leave)
