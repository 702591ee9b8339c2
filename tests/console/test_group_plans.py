"""Plans that move a group's positions: what they show is what is stored, records are counted, nonsense is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

from starlette.testclient import TestClient

from oncelog import sync
from oncelog.console import group_plans
from tests.cli.why.test_why import in_one_transaction
from tests.cli.world import Cli
from tests.console.test_plans import client_of, post

TIMES_MS = (1_000, 2_000, 3_000)


@pytest.fixture(scope="module")
def client(night: Cli) -> Iterator[TestClient]:
    """moved: three records in partition 0, one in the other."""
    night.create("moved", 2)
    night("produce", "moved", "-p", 1, stdin="d\n")
    with sync.Producer(bootstrap_servers=night.bootstrap_servers) as producer:
        for each in TIMES_MS:
            producer.send("moved", b"x", partition=0, timestamp_ms=each).result()
    with client_of(night, allow_writes=True) as client:
        yield client


def wanted(group: str, to: str, at: object = "", topic: str = "moved", **more: Any) -> dict[str, Any]:
    return {"action": "reset-offsets", "group": group, "topic": topic, "to": to, "at": str(at), **more}


def stand(night: Cli, group: str, *where: object) -> None:
    night("groups", "reset-offsets", group, "--topic", "moved", *(where or ("--to-latest",)), "-y")


def positions(night: Cli, group: str) -> list[int]:
    return [row["position"] for row in night.json("groups", "describe", group)]


def test_they_are_moved_as_they_were_shown(client: TestClient, night: Cli) -> None:
    night.create("carried", 2)
    night("produce", "carried", "-p", 0, stdin="a\nb\nc\n")
    reset = ("groups", "reset-offsets", "movers", "--topic", "carried")
    night(*reset, "--to-latest", "-y")
    made = post(client, "plans", 200, **wanted("movers", "earliest", topic="carried"))
    assert made["text"] == ["move 2 positions of group movers: 3 records read again"]
    assert made["columns"] == ["partition", "now", "then", "what it means"]
    rows = [["carried-0", "3", "0", "3 records read again"], ["carried-1", "0", "0", "stays where it is"]]
    assert (made["rows"], made["more"]) == (rows, "")
    assert made["command"].endswith("groups reset-offsets movers --topic carried --to-earliest")
    night(*reset, "--to-offset", 1, "-y")
    again = post(client, f"plans/{made['id']}", 409, word="movers")["plan"]
    assert again["rows"][0] == ["carried-0", "1", "0", "1 record read again"], "moved meanwhile: this is how it is"
    post(client, f"plans/{again['id']}", 200, word="movers")
    assert positions(night, "movers") == [0, 0]
    latest = post(client, "plans", 200, **wanted("movers", "latest", topic="carried"))
    assert latest["text"] == ["move 2 positions of group movers: 3 records never read"]
    night("produce", "carried", "-p", 1, stdin="d\n")
    post(client, f"plans/{latest['id']}", 200, word="movers")
    assert positions(night, "movers") == [3, 0], "as it was shown"


@pytest.mark.parametrize(
    ("to", "at", "partition", "position", "command"),
    [
        ("offset", "1", 0, 1, "moved:0 --to-offset 1"),
        ("offset", " 0 ", -1, 0, "moved --to-offset 0"),
        ("time", "1970-01-01T00:00:02", 0, 1, "moved:0 --to-time 1970-01-01T00:00:02"),
        ("time", "2001", 0, 2, "moved:0 --to-time 2001"),
        ("time", "2100-01-01", 0, 3, "moved:0 --to-time 2100-01-01"),
    ],
)
def test_to_an_offset_and_to_a_time(
    client: TestClient, night: Cli, to: str, at: str, partition: int, position: int, command: str
) -> None:
    stand(night, "timely")
    made = post(client, "plans", 200, **wanted("timely", to, at, partition=partition))
    assert made["command"].endswith(f"groups reset-offsets timely --topic {command}")
    assert made["rows"][0][:3] == ["moved-0", "3", str(position)]
    assert night.json(*made["command"].split()[3:], "--dry-run")[0]["to"] == position, "the command does the same"
    post(client, f"plans/{made['id']}", 200, word="timely")
    assert positions(night, "timely")[0] == position


@pytest.mark.parametrize(
    ("to", "at", "more", "says"),
    [
        ("offset", "", {}, "'' is no offset: write a whole number"),
        ("offset", "-1", {}, "'-1' is no offset"),
        ("offset", "\u00b2", {}, "is no offset"),
        ("offset", "9" * 30, {}, "is no offset"),
        ("offset", "4", {"partition": 0}, "offset 4 is out of range: moved-0 ends at 3"),
        ("offset", "2", {}, "out of range: moved-1 ends at 1; choose one partition"),
        ("time", "", {}, "'' is no time: write 2026-01-31T12:00 (UTC)"),
        ("time", "yesterday", {}, "'yesterday' is no time"),
        ("time", "1969-12-31T23:59:59.999", {}, "is no time"),
        ("time", "9" * 4000, {}, "is no time"),
        ("nowhere", "", {}, "say which group, and to where"),
        ("earliest", "", {"group": ""}, "say which group"),
        ("earliest", "", {"topic": "", "partition": 0}, "of which topic that partition is"),
        ("earliest", "", {"topic": "moved:x"}, "partitions are written as TOPIC:0,1"),
    ],
)
def test_what_makes_no_sense_is_told(client: TestClient, to: str, at: str, more: dict[str, Any], says: str) -> None:
    assert says in post(client, "plans", 400, **{**wanted("senseless", to, at), **more})["message"]


def test_a_group_that_has_members_by_now_is_left_alone(client: TestClient, night: Cli) -> None:
    stand(night, "woken")
    made = post(client, "plans", 200, **wanted("woken", "offset", 0))
    servers = night.bootstrap_servers
    with sync.Consumer("moved", bootstrap_servers=servers, group_id="woken") as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=50)
        again = post(client, f"plans/{made['id']}", 409, word="woken")
        assert (again["plan"], "it has 1 member" in again["message"]) == (None, True)
        assert "has 1 member" in post(client, "plans", 502, **wanted("woken", "offset", 0))["message"]
    assert positions(night, "woken")[0] == 3


def test_records_that_nobody_sees_are_not_counted(client: TestClient, night: Cli) -> None:
    """Aborted ones and markers have offsets, too; what is held back by an open transaction nobody can count yet."""
    made = post(client, "plans", 200, **wanted("counting", "earliest", topic="orders"))
    assert made["rows"] == [["orders-0", "none", "0", "it begins here"]]
    assert made["text"] == ["move 1 position of group counting: no record is read again, and none is left out"]
    post(client, f"plans/{made['id']}", 200, word="counting")
    latest = post(client, "plans", 200, **wanted("counting", "latest", topic="orders"))
    assert latest["rows"] == [["orders-0", "0", "6", "2 records never read"]], "of three transactions one was aborted"
    held = post(client, "plans", 200, **wanted("counting", "offset", 8, topic="orders"))
    assert held["rows"] == [["orders-0", "0", "8", "up to 8 records never read"]]
    assert held["text"] == ["move 1 position of group counting: up to 8 records never read"]


def test_what_would_be_much_to_read_is_a_bound(client: TestClient, night: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    stand(night, "much", "--to-earliest")
    monkeypatch.setattr(group_plans, "COUNTED_S", -1.0)
    assert post(client, "plans", 200, **wanted("much", "latest"))["rows"][0][3] == "up to 3 records never read"


def test_a_part_of_a_batch_is_counted_as_its_part(client: TestClient, night: Cli) -> None:
    night.create("batched")
    night("produce", "batched", stdin="a\nb\nc\nd\n")
    night("groups", "reset-offsets", "parts", "--topic", "batched", "--to-offset", 1, "-y")
    made = post(client, "plans", 200, **wanted("parts", "offset", 3, topic="batched"))
    assert made["rows"] == [["batched-0", "1", "3", "2 records never read"]]


def test_a_position_that_a_transaction_may_still_move_is_told(client: TestClient, night: Cli) -> None:
    """Stored is what the plan shows, until that transaction commits."""
    night.create("unsettled")
    night("groups", "reset-offsets", "settling", "--topic", "unsettled", "--to-latest", "-y")
    in_one_transaction(night, "settles", "unsettled", 1, group="settling")
    made = post(client, "plans", 200, **wanted("settling", "latest", topic="unsettled"))
    assert "unsettled-0 is pending in an open transaction" in made["text"][1]
    night("transactions", "force-terminate", "--transactional-id", "settles", "-y")
    again = post(client, f"plans/{made['id']}", 409, word="settling")["plan"]
    assert len(again["text"]) == 1


def test_the_positions_of_a_share_group_are_moved_elsewhere(client: TestClient, night: Cli) -> None:
    with sync.ShareConsumer("moved", group_id="sharers", bootstrap_servers=night.bootstrap_servers) as consumer:
        while "sharers" not in night("groups", "list").stdout:  # on a busy machine it is a member only later
            consumer.poll(100)
        message = post(client, "plans", 400, **wanted("sharers", "latest"))["message"]
    assert "`oncelog groups reset-offsets` moves it" in message
