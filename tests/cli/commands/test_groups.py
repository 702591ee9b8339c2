"""`oncelog groups`: three lags, positions moved, groups deleted."""

from __future__ import annotations

import asyncio
import json
import pathlib
from typing import Any

import pytest
from evidence.world.broker import Client, one_more_that_stands_still

from oncelog import sync
from oncelog.cli import clients
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from tests.cli.world import Cli


@pytest.fixture(scope="module")
def group(cli: Cli) -> str:
    """At offset 4 of 6 plain records, behind which a transaction is open with 3 more."""
    cli.create("groups")
    cli("produce", "groups", stdin="".join(f"{n}\n" for n in range(6)))
    cli("consume", "groups", "-g", "group", "-c", 4)
    cli.leave_open("groups", "groups-blocker")
    return "group"


def position(cli: Cli, name: str) -> Any:
    return cli.json("groups", "describe", name)[0]["position"]


def test_three_lags(cli: Cli, group: str) -> None:
    row = cli.json("groups", "describe", group)[0]
    assert (row["position"], row["last_stable_offset"], row["high_watermark"]) == (4, 6, 9)
    assert (row["lag"], row["blocked"], row["raw_lag"]) == (2, 3, 5)
    hint = cli("groups", "describe", group).stderr
    assert f"oncelog -b {cli.bootstrap_servers} transactions explain --topic groups --partition 0" in hint


def test_listed_with_its_state(cli: Cli, group: str) -> None:
    rows = {row["group"]: row for row in cli.json("groups", "list")}
    assert rows[group]["state"] == "Empty"
    assert group in {row["group"] for row in cli.json("groups", "list", "--state", "Empty")}
    assert group in {row["group"] for row in cli.json("groups", "list", "--state", "empty")}
    assert group not in {row["group"] for row in cli.json("groups", "list", "--state", "Stable")}
    assert "'Stabel' is not one of" in cli("groups", "list", "--state", "Stabel", status=2).stderr


@pytest.mark.parametrize(
    ("target", "to"),
    [
        (("--to-earliest",), 0),
        (("--to-latest",), 6),
        (("--to-offset", 2), 2),
        (("--to-offset", 99), 9),
        (("--shift-by", -1), 3),
        (("--shift-by", -99), 0),
        (("--to-time", "2020-01-01"), 0),
        (("--to-time", "2100-01-01T00:00:00Z"), 6),
        (("--by-duration", "36h"), 0),
        (("--by-duration", "1ms"), 6),
    ],
    ids=str,
)
def test_where_a_reset_would_go(cli: Cli, group: str, target: tuple[object, ...], to: int) -> None:
    rows = cli.json("groups", "reset-offsets", group, *target, "--dry-run")
    assert rows == [{"group": group, "topic": "groups", "partition": 0, "from": 4, "to": to}]
    assert position(cli, group) == 4


def test_a_reset_moves_named_topics(cli: Cli) -> None:
    cli.create("groups-moved", 2)
    cli("produce", "groups-moved", "-p", 1, stdin="1\n2\n3\n")
    cli("groups", "reset-offsets", "moved", "--topic", "groups-moved:1", "--to-latest", "-y")
    row = cli.json("groups", "describe", "moved")[0]
    assert (row["partition"], row["position"]) == (1, 3)
    cli("groups", "reset-offsets", "moved", "--shift-by", -2, "-y")
    assert position(cli, "moved") == 1


def test_a_group_with_members_is_left_alone(cli: Cli) -> None:
    cli.create("groups-live")
    cli("produce", "groups-live", stdin="1\n")
    with sync.Consumer(
        "groups-live", bootstrap_servers=cli.bootstrap_servers, group_id="live", auto_offset_reset="earliest"
    ) as consumer:
        while not consumer.poll(timeout_ms=200):
            pass
        consumer.commit()
        error = cli("groups", "reset-offsets", "live", "--to-earliest", "-y", status=1).stderr
        assert "group 'live' is Stable: it has 1 member" in error
        members = cli.json("groups", "describe", "live", "--members")
        assert [(row["client"], row["partitions"]) for row in members] == [("oncelog", ["groups-live-0"])]
        assert cli.json("groups", "describe", "live")[0]["client"] == "oncelog"
        assert cli.json("groups", "delete", "live", "-y", status=1)[0]["error"] == "NON_EMPTY_GROUP"
        looked_at = cli.json("groups", "delete", "live", "--dry-run", status=1)
        assert (len(looked_at), looked_at[0]["result"], looked_at[0]["error"]) == (1, "failed", "NON_EMPTY_GROUP")


def test_a_coordinator_that_stands_still_is_named_soon(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the broker that was asked first, which answers."""
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    cli.create("groups-still")
    cli("groups", "reset-offsets", "still", "--topic", "groups-still", "--to-earliest", "-y")
    with one_more_that_stands_still(coordinates=["still"]):
        shown = cli("groups", "describe", "still", status=1).stderr
    assert " within 1000 ms (the broker at 127.0.0.1:" in shown
    assert cli.bootstrap_servers not in shown


@pytest.mark.parametrize("form", ["table", "json"])
def test_one_whose_coordinator_stands_still_hides_none_of_the_others(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    names = ["answers-one", f"silent-{form}", "answers-two"]
    topic = cli.create(f"groups-beside-{form}")
    for name in names:
        cli("groups", "reset-offsets", name, "--topic", topic, "--to-earliest", "-y")
    with one_more_that_stands_still(coordinates=[names[1]]):
        shown = cli("groups", "describe", *names, "-o", form, status=1)
    if form == "json":
        found = {row["group"] for row in json.loads(shown.stdout)}
    else:
        found = {line.split()[0] for line in shown.stdout.splitlines()[1:]}
    assert found == {"answers-one", "answers-two"}
    errors = [line for line in shown.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, errors
    assert errors[0].startswith(f"error: group {names[1]!r}: REQUEST_TIMED_OUT: ")


def test_a_coordinator_that_stands_still_is_waited_for_once_by_all_that_is_deleted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    names = ["delete-still-1", "delete-still-2", "delete-beside"]
    topic = cli.create("groups-delete-still")
    for name in names:
        cli("groups", "reset-offsets", name, "--topic", topic, "--to-earliest", "-y")
    with one_more_that_stands_still(coordinates=names[:2]):
        rows = cli.json("groups", "delete", *names, "-y", "--timeout", "3s", status=1)
    assert [(row["group"], row["error"]) for row in rows] == [
        (names[0], "REQUEST_TIMED_OUT"),
        (names[1], "REQUEST_TIMED_OUT"),
        (names[2], None),
    ]
    assert all(row["message"].startswith("no connection to ") for row in rows[:2]), "not all of the time for each"


def test_positions_are_deleted_one_by_one(cli: Cli) -> None:
    cli.create("groups-part", 2)
    cli("groups", "reset-offsets", "part", "--topic", "groups-part", "--to-earliest", "-y")
    one = ("groups", "delete-offsets", "part", "--topic", "groups-part:1")
    assert cli.json(*one, "--dry-run") == [{"group": "part", "topic": "groups-part", "partition": 1, "position": 0}]
    assert len(cli.json("groups", "describe", "part")) == 2
    cli(*one, "-y")
    assert [row["partition"] for row in cli.json("groups", "describe", "part")] == [0]
    assert "group 'part' has no position there" in cli(*one, "-y", status=1).stderr
    with sync.Consumer("groups-part", bootstrap_servers=cli.bootstrap_servers, group_id="part") as consumer:
        while not consumer.assignment():
            consumer.poll(timeout_ms=20)
        refused = cli("groups", "delete-offsets", "part", "--topic", "groups-part:0", "-y", status=1).stderr
        dry = cli("groups", "delete-offsets", "part", "--topic", "groups-part:0", "--dry-run", status=1).stderr
        assert "GROUP_SUBSCRIBED_TO_TOPIC" in dry
    assert "GROUP_SUBSCRIBED_TO_TOPIC" in refused
    cli("groups", "delete-offsets", "part", "-y", status=2)


UNKNOWN_GROUP = "group 'unknown'; `oncelog groups list` shows which groups there are, and of which type each is"


def test_deleted(cli: Cli) -> None:
    cli.create("groups-gone")
    cli("groups", "reset-offsets", "gone", "--topic", "groups-gone", "--to-earliest", "-y")
    looked_at = cli.json("groups", "delete", "gone", "unknown", "--dry-run", status=1)
    assert [(row["result"], row["error"]) for row in looked_at] == [
        ("would be deleted", None),
        ("failed", "GROUP_ID_NOT_FOUND"),
    ]
    assert cli.json("groups", "delete", "gone", "--dry-run")[0]["result"] == "would be deleted"
    assert cli.json("groups", "delete", "gone", "unknown", "-y", status=1) == [
        {"group": "gone", "result": "deleted", "error": None, "message": None},
        {"group": "unknown", "result": "failed", "error": "GROUP_ID_NOT_FOUND", "message": UNKNOWN_GROUP},
    ]


def test_positions_of_a_deleted_topic_have_no_lag(cli: Cli) -> None:
    cli.create("groups-lost")
    cli.create("groups-kept")
    for topic in ("groups-lost", "groups-kept"):
        cli("groups", "reset-offsets", "lost", "--topic", topic, "--to-earliest", "-y")
    cli("topics", "delete", "groups-lost", "-y")
    rows = {row["topic"]: row["lag"] for row in cli.json("groups", "describe", "lost")}
    assert rows["groups-kept"] == 0
    assert rows.get("groups-lost") is None


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--to-earliest", "--to-latest"),
        ("--to-time", "someday"),
        ("--to-time", "1969-12-31T23:59:59.999"),  # -1: that would be the end
        ("--topic", "groups:x", "--to-latest"),
    ],
    ids=str,
)
def test_wrong_usage(cli: Cli, group: str, arguments: tuple[object, ...]) -> None:
    cli("groups", "reset-offsets", group, *arguments, "-y", status=2)


def test_a_shift_needs_a_position(cli: Cli, group: str) -> None:
    cli.create("groups-none")
    error = cli("groups", "reset-offsets", group, "--topic", "groups-none", "--shift-by", 1, "-y", status=1).stderr
    assert "no position to shift from: groups-none-0" in error


def test_positions_of_another_group_and_of_a_file(cli: Cli, tmp_path: pathlib.Path) -> None:
    cli.create("copied", 2)
    for partition in (0, 1):
        cli("produce", "copied", "-p", partition, stdin="a\nb\nc\n")
    reset = ("groups", "reset-offsets")
    cli(*reset, "source", "--topic", "copied:0", "--to-offset", 2, "-y")
    cli(*reset, "source", "--topic", "copied:1", "--to-offset", 0, "-y")
    (first, second) = cli.json(*reset, "copy", "--to-group", "source", "-y")
    assert [(row["partition"], row["from"], row["to"]) for row in (first, second)] == [(0, None, 2), (1, None, 0)]
    file = tmp_path / "positions.json"
    file.write_text(cli("groups", "describe", "copy", "-o", "json").stdout)
    cli(*reset, "copy", "--to-latest", "-y")
    assert [row["to"] for row in cli.json(*reset, "copy", "--to-file", file, "--dry-run")] == [2, 0]
    assert [row["to"] for row in cli.json(*reset, "copy", "--to-file", file, "--topic", "copied:0", "-y")] == [2]
    assert [row["position"] for row in cli.json("groups", "describe", "copy")] == [2, 3]
    file.write_text("copied,7,1\n")
    assert "no such partition" in cli(*reset, "copy", "--to-file", file, "-y", status=1).stderr
    assert "has no positions" in cli(*reset, "copy", "--to-group", "nobody-at-all", "-y", status=1).stderr
    file.write_text("copied,0,1\n")
    assert "no position of copied-1" in cli(*reset, "copy", "--to-file", file, "--topic", "copied", status=1).stderr


async def streams_member(cli: Cli, group_id: str, member_id: str, process_id: str) -> None:
    """A member of an application that keeps a store of topic `counted`, until it has its tasks."""
    source = Subtopology(
        subtopology_id="0", source_topics=["counted"], state_changelog_topics=[TopicInfo(name="counted-store")]
    )
    none: dict[str, Any] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    host, _, port = cli.bootstrap_servers.partition(":")
    client = await Client.connect_to(host, int(port))
    keys = ("streams.initial.rebalance.delay.ms", "streams.assignment.interval.ms")
    at_once = [AlterableConfig(name=key, config_operation=0, value="0") for key in keys]
    resource = AlterConfigsResource(resource_type=32, resource_name=group_id, configs=at_once)
    await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    joins: dict[str, Any] = {"topology": Topology(subtopologies=[source]), "rebalance_timeout_ms": 5000} | none
    reply, more = None, joins | {"process_id": process_id}
    while reply is None or not reply.active_tasks:
        epoch = 0 if reply is None else reply.member_epoch
        request = StreamsGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch, **more)
        reply, more = await client.call(request, 0), none
        assert reply.error_code == 0, reply.error_message
    client.close()


def test_a_streams_group_is_listed_and_described(cli: Cli) -> None:
    cli.create("counted", 2)
    asyncio.run(streams_member(cli, "counting", "m", "p"))
    row = next(row for row in cli.json("groups", "list") if row["group"] == "counting")
    assert (row["state"], row["type"], row["protocol"]) == ("Stable", "streams", "streams")
    (member,) = cli.json("groups", "describe", "counting", "--members")
    assert (member["member"], member["partitions"], member["standby"]) == ("m", ["counted-0", "counted-1"], [])
    assert [each["partition"] for each in cli.json("groups", "describe", "counting")] == [0, 1]
    looked_at = cli.json("why", "counting")
    assert (looked_at["type"], looked_at["verdict"]) == ("group", "free")


def test_a_share_group_is_listed_and_described(cli: Cli) -> None:
    cli.create("shared")
    cli("configs", "set", "--group", "sharers", "share.auto.offset.reset=earliest")
    cli("produce", "shared", stdin="".join(f"{n}\n" for n in range(5)))
    with sync.ShareConsumer("shared", group_id="sharers", bootstrap_servers=cli.bootstrap_servers) as consumer:
        assert len(consumer.poll(30_000)) == 5
        assert consumer.commit() == {}
        members = cli.json("groups", "describe", "sharers", "--members")
        assert [row["assignor"] for row in members] == ["simple"]
    rows = {row["group"]: row for row in cli.json("groups", "list")}
    assert (rows["sharers"]["type"], rows["sharers"]["state"]) == ("share", "Empty")
    (row,) = cli.json("groups", "describe", "sharers")
    assert (row["topic"], row["position"], row["lag"], row["blocked"]) == ("shared", 0, 0, None), "as it is stored"


def test_the_positions_of_a_share_group_are_moved_and_forgotten(cli: Cli) -> None:
    cli.create("shared-moved", 2)
    cli("configs", "set", "--group", "movers", "share.auto.offset.reset=earliest")
    cli("produce", "shared-moved", stdin="".join(f"{n}\n" for n in range(5)))
    with sync.ShareConsumer("shared-moved", group_id="movers", bootstrap_servers=cli.bootstrap_servers) as consumer:
        assert consumer.poll(30_000)
        error = cli("groups", "delete-offsets", "movers", "--topic", "shared-moved", "-y", status=1).stderr
        assert "stop them first" in error
        assert "stop its members first" in cli("groups", "delete", "movers", "-y", status=1).stderr
    moved = cli.json("groups", "reset-offsets", "movers", "--topic", "shared-moved", "--to-latest", "-y")
    assert sum(row["to"] for row in moved) == 5
    rows = cli.json("groups", "describe", "movers")
    assert [(row["position"], row["lag"]) for row in rows] == [(row["to"], 0) for row in moved]
    other = ("groups", "reset-offsets", "movers-too", "--to-group", "movers", "-y")
    assert [(row["partition"], row["to"]) for row in cli.json(*other)] == [
        (row["partition"], row["to"]) for row in moved
    ]
    error = cli("groups", "delete-offsets", "movers", "--topic", "shared-moved:0", "-y", status=1).stderr
    assert "forgets whole topics" in error
    cli("groups", "delete-offsets", "movers", "--topic", "shared-moved", "-y")
    assert cli.json("groups", "describe", "movers") == []
    error = cli("groups", "delete-offsets", "movers", "--topic", "shared-moved", "-y", status=1).stderr
    assert "has no position there" in error


def test_a_group_that_is_not_there_is_named_by_its_code(cli: Cli) -> None:
    told = cli("groups", "describe", "nosuch", status=1).stderr
    assert (
        told == "error: GROUP_ID_NOT_FOUND: there is no group 'nosuch' (`oncelog groups list` shows the known groups)\n"
    )


def test_a_group_that_is_not_there_hides_none_that_is(cli: Cli) -> None:
    cli.create("groups-here")
    cli("groups", "reset-offsets", "here", "--topic", "groups-here", "--to-earliest", "-y")
    for more in ((), ("--members",)):
        shown = cli("groups", "describe", "here", "nosuch", *more, status=1)
        assert "GROUP_ID_NOT_FOUND" in shown.stderr
        assert ("groups-here" in shown.stdout) == (not more)
