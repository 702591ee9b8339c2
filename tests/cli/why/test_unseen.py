"""`oncelog why` where not everything can be seen: partitions offline or damaged, markers that do not arrive, missing rights."""

from __future__ import annotations

import asyncio
import pathlib
import shlex
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from oncelog import Admin, TopicPartition, sync
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import IllegalState
from oncelog.testing import TestBroker
from tests.cli.why.test_why import kinds, why
from tests.cli.world import Cli, cli_as, damaged_broker, oncelog

NOW = ("--older-than", "0s")


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """A transaction is open on lost-0."""
    reset = ("groups", "reset-offsets", "readers", "--topic", "flip", "--topic", "lost", "--to-earliest", "-y")
    directory = tmp_path_factory.mktemp("damaged")
    with damaged_broker(directory, lambda cli: cli.leave_open("lost", "lost-holder"), lambda cli: cli(*reset)) as cli:
        yield cli


def test_an_offline_partition_hides_no_other_cause(damaged: Cli) -> None:
    found = why(damaged, "readers", *NOW, "--exit-code", status=3)
    assert "lost-0" in [
        at for cause in found["causes"] if cause["kind"] == "offline partition" for at in cause["partitions"]
    ]
    assert kinds(found)[-1] == "no members"
    assert [(each["what"], each["error"]) for each in found["not_read"]] == [("lost-0", "KAFKA_STORAGE_ERROR")]
    result = damaged("why", "lost", *NOW, status=1)
    assert "lost-0 could not be read: KAFKA_STORAGE_ERROR" in result.stderr
    assert "topics describe lost -o wide" in result.stdout
    assert why(damaged, "lost:1", *NOW)["verdict"] == "free"


def test_a_marker_that_does_not_arrive(damaged: Cli) -> None:
    """Its partition cannot be asked; its coordinator can. What to mend first is the partition."""
    before = why(damaged, "lost", *NOW, status=1)["causes"]
    assert [(cause["kind"], cause["transactional_id"]) for cause in before] == [
        ("offline partition", None),
        ("open transaction", "lost-holder"),
    ]
    damaged("transactions", "force-terminate", "--transactional-id", "lost-holder", "-y", "--timeout", "3s", status=1)
    for name in ("lost", "lost-holder"):
        found = why(damaged, name, "--older-than", "20ms", status=1)
        assert kinds(found) == ["offline partition", "marker stuck"]
        stuck = found["causes"][1]
        assert (stuck["transactional_id"], stuck["state"], stuck["verdict"]) == (
            "lost-holder",
            "PrepareAbort",
            "ending",
        )
        assert stuck["command"].endswith("transactions describe lost-holder")


def test_a_damaged_batch_where_the_group_stands(damaged: Cli) -> None:
    """Nothing but a read shows it: the partition is served, and up to there its records are."""
    where = ("--topic", "flip:0")
    damaged("groups", "reset-offsets", "stopped", *where, "--to-offset", 1, "-y")
    assert "damaged partition" not in kinds(why(damaged, "stopped"))
    damaged("groups", "reset-offsets", "stopped", *where, "--to-offset", 2, "-y")
    found = why(damaged, "stopped")
    assert kinds(found) == ["offline partition", "damaged partition", "no members"], "once read, it takes nothing more"
    cause = found["causes"][1]
    assert cause["partitions"] == ["flip-0"]
    assert "flip-0 cannot be read at offset 2" in cause["what"]
    assert oncelog(*shlex.split(cause["command"])[1:]).stdout == "d" * 100 + "\n"


@pytest.fixture(scope="module")
def headless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cli]:
    """The coordinators of group "led" and of transactional id "owner", which is open on "orders", cannot be read."""
    directory = tmp_path_factory.mktemp("headless")
    config = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with TestBroker(config, data_dir=str(directory)) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("orders")
        cli.leave_open("orders", "owner")
        cli("groups", "reset-offsets", "led", "--topic", "orders", "--to-earliest", "-y")
    for topic in ("__consumer_offsets", "__transaction_state"):
        log = directory / f"{topic}-0" / "00000000000000000000.log"
        data = bytearray(log.read_bytes())
        data[80] ^= 1
        log.write_bytes(data)
        for snapshot in log.parent.glob("*.snapshot"):
            snapshot.unlink()
    with TestBroker(config, data_dir=str(directory)) as broker:
        yield Cli(broker.bootstrap_servers)


def test_a_coordinator_that_is_away_is_named_and_hides_no_partition(headless: Cli) -> None:
    """What is open on the partition has an owner that nobody can ask: it is not called hanging."""
    found = why(headless, "orders", *NOW, "--timeout", "5s", "--as", "topic", status=1)
    assert kinds(found) == ["unknown owner"]
    assert "__transaction_state-0" in found["causes"][0]["why"]
    assert [each["what"] for each in found["not_read"]] == ["whose an open transaction is"]
    assert "__transaction_state-0 is offline" in found["not_read"][0]["why"]
    for name, kind, at in (("led", "group", "__consumer_offsets-0"), ("owner", "transaction", "__transaction_state-0")):
        found = why(headless, name, "--as", kind, "--timeout", "5s", status=1)
        assert kinds(found) == ["offline partition"]
        assert (found["type"], found["causes"][0]["partitions"]) == (kind, [at])
        assert name in found["not_read"][0]["what"]


def test_an_owner_that_nobody_can_ask_for_is_no_all_clear(headless: Cli) -> None:
    """It was said, with exit status 0."""
    missing, why_not = "error: whose an open transaction is could not be read: ", "__transaction_state-0 is offline"
    assert f"{missing}Failed: {why_not}" in headless("why", "orders", *NOW, "--as", "topic", status=1).stderr
    assert f"{missing}{why_not}" in headless("transactions", "explain", "--topic", "orders", *NOW, status=1).stderr
    headless("transactions", "find-hanging", status=1)
    headless("transactions", "list", status=1)
    headless("groups", "list", status=1)
    headless("watch", "orders", "--once", status=1)


@pytest.fixture(scope="module")
def guarded() -> Iterator[TestBroker]:
    config = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:root"}
    users = {"root": "r", "eve": "e", "tina": "t"}
    with TestBroker(config, security="SASL_PLAINTEXT", mechanism="PLAIN", users=users) as broker:
        yield broker


@pytest.fixture
def as_user(guarded: TestBroker, tmp_path: pathlib.Path) -> Callable[[str], Cli]:
    return lambda user: cli_as(guarded, user, tmp_path)


def test_who_may_see_nothing_is_told_so(as_user: Callable[[str], Cli]) -> None:
    """Whether the name exists is not told: to those who may see nothing everything looks refused."""
    root, eve = as_user("root"), as_user("eve")
    root.create("secret")
    for name in ("secret", "nothing-of-that-name"):
        found = why(eve, name, status=1)
        assert (found["type"], found["verdict"], kinds(found)) == (None, "unknown", ["rights"])
        assert {each["error"] for each in found["not_read"]} == {
            "GROUP_AUTHORIZATION_FAILED",
            "TOPIC_AUTHORIZATION_FAILED",
            "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
        }
    group = why(eve, "secret", "--as", "group", "--exit-code", status=3)["causes"][0]
    assert "acls list --group secret --matching" in group["command"]
    assert "eve.properties" in group["command"]


def test_a_transaction_whose_owner_may_not_be_seen_is_not_called_hanging(
    as_user: Callable[[str], Cli], guarded: TestBroker
) -> None:
    """Its abort on the partition would tear it apart: who does not see the owner cannot know that there is none."""
    root, tina = as_user("root"), as_user("tina")
    root.create("seen")
    root("acls", "add", "--topic", "seen", "--principal", "User:tina", "--operation", "READ", "-y")

    async def leave_open() -> None:
        from oncelog import Producer

        producer = Producer(**guarded.client_options("root"), transactional_id="unseen")
        await producer.start()
        producer.begin_transaction()
        await producer.send("seen", b"x")
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(leave_open())
    (cause,) = why(tina, "seen", *NOW)["causes"]
    assert (cause["kind"], cause["verdict"], cause["transactional_id"]) == ("unknown owner", "unknown owner", None)
    assert "you may not see all transactional ids" in cause["why"]
    assert "abort" not in cause["command"]
    assert kinds(why(root, "seen", *NOW)) == ["open transaction"]

    (row,) = tina.json("transactions", "explain", "--topic", "seen")
    assert (row["verdict"], "abort" in row["repair"]) == ("unknown owner", False)
    result = tina("transactions", "find-hanging", "--topic", "seen", "--max-transaction-timeout", "0s")
    assert "abort" not in result.stdout
    assert "what has no owner here may have one: you may not see all transactional ids" in result.stderr
    root("acls", "add", "--cluster", "--principal", "User:tina", "--operation", "ALTER", "-y")
    abort = ("transactions", "abort", "--topic", "seen", "--partition", 0, "--start-offset", 0, "-y")
    assert "refused: it may have an owner" in tina(*abort, status=1).stderr

    async def abort_by_the_client() -> None:
        async with Admin(**guarded.client_options("tina")) as admin:
            with pytest.raises(IllegalState, match="may have an owner that is not shown"):
                await admin.abort_transaction(TopicPartition("seen", 0), start_offset=0)

    asyncio.run(abort_by_the_client())
    assert kinds(why(root, "seen", *NOW)) == ["open transaction"], "it was not touched"


def test_members_that_are_not_there_may_lack_rights(as_user: Callable[[str], Cli], guarded: TestBroker) -> None:
    root = as_user("root")
    root.create("read")
    root("produce", "read", stdin="x\n")

    async def store() -> None:
        async with Admin(**guarded.client_options("root")) as admin:
            await admin.alter_consumer_group_offsets("absent", {TopicPartition("read", 0): 0})

    asyncio.run(store())
    (cause,) = why(root, "absent")["causes"]
    assert cause["kind"] == "no members"
    assert "acls list --group absent --matching" in cause["command"]


def test_members_that_are_there_may_lack_rights_since(as_user: Callable[[str], Cli], guarded: TestBroker) -> None:
    """A member whose right to read was taken stays in its group, and nothing else shows."""
    root = as_user("root")
    root.create("taken")
    root("produce", "taken", stdin="x\n")
    more: dict[str, Any] = {"group_id": "taken-group", "enable_auto_commit": False, "auto_offset_reset": "earliest"}
    with sync.Consumer("taken", **guarded.client_options("root"), **more) as consumer:
        while not consumer.assignment():
            consumer.poll(20)
        consumer.commit({TopicPartition("taken", 0): 0})
        result = root("why", "taken-group", *NOW)
    assert "its members are slow or stuck, or may not read: " in result.stderr
    assert "acls list --topic taken --matching" in result.stderr
