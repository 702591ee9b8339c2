"""`oncelog watch`: what holds readers back, in `why`'s words; it outlives a broker, and partitions that are lost."""

from __future__ import annotations

import asyncio
import json
import pathlib
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from oncelog import TopicPartition
from oncelog.cli.watch import watch as module
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.diagnosis.watching import STOPPED
from oncelog.testing import TestBroker
from tests.cli.why.test_why import position
from tests.cli.world import Cli, cli_as, oncelog

ROOT = pathlib.Path(__file__).parents[3]
HOSTILE = "w\x1b[31m\nevil"
LOOK_KEYS = {
    *("time_ms", "verdict", "partitions", "open_transactions", "blocked", "alerts", "transactions", "groups"),
    *("causes", "not_read", "notes"),
}


def test_three_kinds_of_holders_with_the_words_and_commands_of_why(cli: Cli) -> None:
    topics = ["watch-open", "watch-prepared", "watch-ghost"]
    for topic in topics:
        cli.create(topic)
    cli.leave_open(topics[0], HOSTILE)
    cli.leave_open(topics[1], "watch-payments", two_phase=True)
    cli.leave_hanging(topics[2], "watch-ghost-app")
    position(cli, "watch-group", TopicPartition(topics[2], 0), 0)
    found = cli.json("watch", *topics, "--once", "--older-than", "0s", "--alert-after", "1h", "--exit-code", status=3)
    assert set(found) == LOOK_KEYS
    assert (found["verdict"], found["partitions"][STOPPED], found["alerts"]) == (STOPPED, 1, ["watch-ghost-0"])
    blocked = {each["topic"]: each for each in found["blocked"]}
    assert blocked["watch-ghost"]["groups"] == ["watch-group"]
    assert (blocked["watch-open"]["transactional_id"], blocked["watch-open"]["state"]) == (HOSTILE, "waiting")
    assert {
        each["verdict"] for each in found["transactions"] if each["transactional_id"] in (HOSTILE, "watch-payments")
    } == {
        "in progress",
        "two-phase",
    }
    causes = {each["kind"]: each["command"] for each in found["causes"]}
    for topic, kind in zip(topics, ("open transaction", "prepared transaction", "hanging transaction"), strict=True):
        (same,) = cli.json("why", topic, "--older-than", "0s")["causes"]
        assert (same["kind"], same["command"]) == (kind, causes[kind])
    text = cli("watch", *topics, "--once")
    assert "\x1b" not in text.stdout + text.stderr
    assert "w\\x1b[31m\\nevil" in text.stdout
    assert text.stderr.startswith("alert: watch-ghost-0 held back for ")
    assert text.stdout.count("oncelog -b") == 1, "the others are young"


def test_wrong_usage_and_what_is_not_there(cli: Cli) -> None:
    cli.create("watch-quiet", 2)
    quiet = cli.json("watch", "watch-quiet", "--once", "--exit-code")
    assert (quiet["verdict"], quiet["partitions"]["active"], quiet["blocked"]) == ("active", 2, [])
    missing = cli.json("watch", "watch-quiet", "watch-nosuch", "--once", status=1)
    assert missing["not_read"][0]["what"] == "topic watch-nosuch"
    cli("watch", "--once", "--metrics-port", 0, status=2)
    cli("watch", "--exit-code", status=2)
    cli("watch", "", "--once", status=2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused = cli("watch", "--metrics-port", taken.getsockname()[1], status=1)
        assert "in use by another process" in refused.stderr
        nobody = oncelog("-b", f"127.0.0.1:{_free_port()}", "watch", "--once", "--timeout", "200ms")
    assert (nobody.exit_code, "is a broker listening" in nobody.stderr) == (1, True)


def test_who_may_not_see_owners_is_told_of_no_abort(tmp_path: pathlib.Path) -> None:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users={"root": "r", "tina": "t"}) as broker:
        root, tina = cli_as(broker, "root", tmp_path), cli_as(broker, "tina", tmp_path)
        root.create("seen")
        root("acls", "add", "--topic", "seen", "--principal", "User:tina", "--operation", "READ", "-y")
        asyncio.run(_leave_open(broker.client_options("root")))
        found = tina.json("watch", "--once", "--older-than", "0s")
        assert [(each["kind"], each["transactional_id"]) for each in found["causes"]] == [("unknown owner", None)]
        assert "abort" not in found["causes"][0]["command"]
        root("acls", "remove", "--topic", "seen", "--principal", "User:tina", "-y")
        blind = tina.json("watch", "--once", "--exit-code", status=1)
        assert blind["partitions"] == {"active": 0, "waiting": 0, "stopped": 0, "offline": 0}
        assert (blind["verdict"], blind["not_read"][0]["why"]) == ("unknown", "you may not see all topics")


async def _leave_open(options: dict[str, Any]) -> None:
    from oncelog import Producer

    producer = Producer(**options, transactional_id="unseen")
    await producer.start()
    producer.begin_transaction()
    await producer.send("seen", b"x")
    await producer.detach_transaction()
    await producer.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def test_it_outlives_a_restart_and_shows_what_is_left(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks: two with the broker, four without, then with a partition that does not open; metrics after each."""
    port, metrics_port = _free_port(), _free_port()
    data = tmp_path / "data"
    config = {"listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    brokers = [TestBroker(config, data_dir=str(data)), TestBroker(config, data_dir=str(data))]
    cli = Cli(f"127.0.0.1:{port}")
    brokers[0].__enter__()
    cli.create("lost", 2)
    cli.leave_open("lost", "lost-holder")
    looks, metrics = 0, []
    ready: list[int] = []

    def between() -> None:
        nonlocal looks
        looks += 1
        metrics.append(_get(metrics_port, "/metrics")[1])
        ready.append(_get(metrics_port, "/readyz")[0])
        if looks == 2:
            brokers[0].__exit__(None, None, None)
            _damage(data / "lost-0")
        elif looks == 6:
            brokers[1].__enter__()
        elif looks == 8:
            raise KeyboardInterrupt

    async def pause(_seconds: float) -> None:
        await asyncio.to_thread(between)

    monkeypatch.setattr(module, "pause", pause)
    arguments = ("-b", cli.bootstrap_servers, "watch", "-o", "json", "--alert-after", "0s", "--timeout", "2s")
    result = oncelog(*arguments, "--metrics-port", metrics_port)
    brokers[1].__exit__(None, None, None)
    assert result.exit_code == 130
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(set(line) == LOOK_KEYS for line in lines)
    verdicts = [line["verdict"] for line in lines]
    assert verdicts == ["waiting"] * 2 + ["unknown"] * 4 + ["offline"] * 2
    assert result.stderr.count("alert: lost-0 held back for ") == 1, result.stderr
    last = lines[-1]
    assert last["partitions"] == {"active": 1, "waiting": 0, "stopped": 0, "offline": 1}
    assert [cause["kind"] for cause in last["causes"]][:1] == ["offline partition"]
    assert ["oncelog_watch_up 1" in text for text in metrics] == [True] * 2 + [False] * 4 + [True] * 2
    assert ready == [200] * 4 + [503] * 2 + [200] * 2
    assert 'oncelog_watch_partitions{state="offline"} 1' in metrics[-1]


def _get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def _damage(directory: pathlib.Path) -> None:
    log = directory / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[80] ^= 1
    log.write_bytes(data)
    for snapshot in directory.glob("*.snapshot"):
        snapshot.unlink()
