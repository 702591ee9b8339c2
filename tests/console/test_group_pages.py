"""What groups stand still for beside transactions, on their page and beside the lanes: words and commands of `oncelog why`."""

from __future__ import annotations

import asyncio
import contextlib
import pathlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

with warnings.catch_warnings():  # it would rather have a client that nothing else here needs
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from oncelog import Admin, sync
from oncelog.cli.command import Settings
from oncelog.console import group_judging, pages, watch
from oncelog.console.group_rounds import KINDS
from oncelog.console.routes import application
from oncelog.console.security import Gate
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from tests.cli.why.test_why import NOW, in_one_transaction, member, position
from tests.cli.world import Cli, cli_as
from tests.console.test_routes import ORIGIN, get, until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_judging, "CALM_MS", 100)
    monkeypatch.setattr(watch, "GROUPS_EVERY_MS", 50)
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(pages, "EVERY_S", 0.0)


@contextlib.contextmanager
def console_of(bootstrap_servers: str, **more: Any) -> Iterator[TestClient]:
    made = application(Settings(bootstrap_servers=bootstrap_servers, **more), Gate(hosts=None, is_open=True))
    with TestClient(made, base_url=ORIGIN) as client:
        yield client


@pytest.fixture(scope="module")
def client(night: Cli) -> Iterator[TestClient]:
    with console_of(night.bootstrap_servers) as client:
        yield client


def watching(client: TestClient, topic: str) -> contextlib.AbstractContextManager[None]:
    """As an open page does: what lasts is told by several looks."""
    shared: watch.Watch = client.app.state.watch  # type: ignore[attr-defined]
    return shared.watched(watch.view_of(topic, "", ""))


def causes_of(group: str) -> Any:
    """Of an answer of either page: the kinds and commands that it shows of a group."""

    def found(answer: Any) -> dict[str, str]:
        own = [each for one in answer.get("groups", ()) if one["group"] == group for each in one["causes"]]
        return {each["kind"]: each["command"] for each in [*own, *answer["causes"]] if each.get("group") == group}

    return found


def test_a_rebalance_that_does_not_end_is_on_both_pages(client: TestClient, night: Cli) -> None:
    """The first member has its partitions and does not poll again, so the second waits for it."""
    night("produce", night.create("shared", 2), stdin="a\n")
    position(night, "storm", TopicPartition("shared", 0), 0)
    with member(night, "storm", "shared"):
        ended = threading.Event()

        def join() -> None:
            with sync.Consumer("shared", bootstrap_servers=night.bootstrap_servers, group_id="storm") as second:
                while not ended.is_set():
                    second.poll(20)

        thread = threading.Thread(target=join)
        thread.start()
        try:
            found = until(client, "groups", lambda answer: "rebalancing" in causes_of("storm")(answer))
            assert causes_of("storm")(found)["rebalancing"].endswith("groups describe storm --members --watch")
            with watching(client, "shared"):
                lanes = until(client, "lanes?topic=shared", lambda answer: "rebalancing" in causes_of("storm")(answer))
                elsewhere = get(client, "lanes?topic=payments")
            (card,) = [each for each in lanes["causes"] if each["kind"] == "rebalancing"]
            assert card["what"].startswith("rebalancing: storm has not come to rest for ")
            assert "rebalancing" not in {each["kind"] for each in elsewhere["causes"]}, "no lane of it is a reader's"
            overview = until(client, "overview", lambda answer: "rebalancing" in causes_of("storm")(answer))
            assert causes_of("storm")(overview) == causes_of("storm")(found)
            assert overview["verdict"].endswith("still")
            assert overview["rounds"]["standing"] >= 1
        finally:
            ended.set()
            thread.join()


def test_a_quota_is_on_both_pages(client: TestClient, night: Cli) -> None:
    night("produce", night.create("slow"), stdin="".join(f"{'x' * 100}{n}\n" for n in range(50)))
    position(night, "throttled", TopicPartition("slow", 0), 0)
    with member(night, "throttled", "slow"):
        night("quotas", "set", "--client-id", "throttled-reader", "consumer_byte_rate=1", "-y")
        try:
            (same,) = night.json("why", "throttled", *NOW)["causes"]
            for path in ("groups", "lanes?topic=slow", "overview"):
                found = until(client, path, lambda answer: "quota" in causes_of("throttled")(answer))
                assert causes_of("throttled")(found) == {"quota": same["command"]}
        finally:  # the broker is everybody's
            night("quotas", "delete", "--client-id", "throttled-reader", "consumer_byte_rate", "-y")


def test_positions_out_of_range_and_nobody_who_reads_are_on_the_overview(client: TestClient, night: Cli) -> None:
    """It told of partitions and transactions only: nothing of a group that could never read on."""
    night("produce", night.create("left"), stdin="a\nb\n")
    position(night, "beyond", TopicPartition("left", 0), 99)
    position(night, "asleep", TopicPartition("left", 0), 1)
    position(night, "done", TopicPartition("left", 0), 2)
    position(night, "of-no-topic", TopicPartition(night.create("dropped"), 0), 0)
    night("topics", "delete", "dropped", "-y")
    found = until(client, "overview", lambda answer: causes_of("asleep")(answer))
    same = {name: night.json("why", name, "--as", "group")["causes"] for name in ("beyond", "asleep")}
    for name, (cause,) in same.items():
        assert causes_of(name)(found) == {cause["kind"]: cause["command"]}
    assert causes_of("beyond")(found).keys() == {"position out of range"}
    assert causes_of("asleep")(found).keys() == {"no members"}
    assert (causes_of("done")(found), causes_of("of-no-topic")(found)) == ({}, {})
    kinds = [each["kind"] for each in found["causes"] if each.get("group")]
    assert kinds == sorted(kinds, key=KINDS.index), "the most pressing first"
    rounds = found["rounds"]
    assert (rounds["looked_at"], rounds["standing"]) == (
        rounds["count"],
        len({each["group"] for each in found["causes"] if each.get("group")}),
    )


def test_a_pending_position_is_said_of_its_partition(client: TestClient, night: Cli) -> None:
    night.create("moved-later")
    in_one_transaction(night, "mover", "moved-later", 1, "waits")
    (group,) = get(client, "groups?group=waits")["groups"]
    assert [(row["topic"], row["pending"]) for row in group["rows"]] == [("moved-later", True)]
    assert group["rows"] == night.json("groups", "describe", "waits")
    assert any("is pending in a transaction" in note for note in group["notes"])


def test_who_reads_one_page_forgets_no_group_of_another(client: TestClient, night: Cli) -> None:
    """What lasts is told by the looks before: a page about one group took those of all others away."""
    for name in ("one", "other"):
        position(night, name, TopicPartition("orders", 0), 0)
    get(client, "groups")
    get(client, "groups?group=one")
    judge = client.app.state.group_judge  # type: ignore[attr-defined]
    assert {"one", "other"} <= judge._memory._seen.keys()


@pytest.fixture(scope="module")
def guarded() -> Iterator[TestBroker]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users={"root": "r", "eve": "e"}) as broker:
        yield broker


def test_missing_rights_are_a_cause_with_the_rules_to_look_at(guarded: TestBroker, tmp_path: pathlib.Path) -> None:
    """A group that may not be seen was left out of the lanes, and of its own page, without a word."""
    root = cli_as(guarded, "root", tmp_path)
    cli_as(guarded, "eve", tmp_path)
    for topic in ("seen", "secret", "listed"):
        root.create(topic)

    async def store() -> None:
        async with Admin(**guarded.client_options("root")) as admin:
            await admin.alter_consumer_group_offsets("billing", {TopicPartition("seen", 0): 0})

    asyncio.run(store())
    for place in (("--topic", "seen", "--operation", "READ"), ("--topic", "listed", "--operation", "DESCRIBE")):
        root("acls", "add", *place, "--principal", "User:eve", "-y")
    root("acls", "add", "--cluster", "--principal", "User:eve", "--operation", "DESCRIBE", "-y")
    config = str(tmp_path / "eve.properties")
    with console_of(guarded.bootstrap_servers, command_config=config) as client:
        groups = get(client, "groups")
        assert groups["groups"] == []
        (cause,) = groups["causes"]
        assert (cause["kind"], cause["what"]) == ("rights", "rights: you may not look at group billing")
        assert cause["command"].endswith("acls list --group billing --matching")
        overview = get(client, "overview")
        assert [each["command"] for each in overview["causes"] if "billing" in each["what"]] == [cause["command"]]
        assert "group billing" in {each["what"] for each in overview["not_read"]}
        (cause,) = get(client, "why?group=billing")["causes"]
        assert cause["kind"] == "rights"
        for topic in ("secret", "listed"):
            found = until(client, f"lanes?topic={topic},seen", lambda answer: answer["partitions"] and answer["causes"])
            (cause,) = [each for each in found["causes"] if f"topic {topic}" in each["what"]]
            assert cause["kind"] == "rights"
            assert cause["command"].endswith(f"acls list --topic {topic} --matching")
            assert "TOPIC_AUTHORIZATION_FAILED" in {each["error"] for each in found["not_read"]}
            (seen,) = [each for each in found["partitions"] if each["topic"] == "seen"]
            assert (seen["word"], found["error"]) == ("active", None)
