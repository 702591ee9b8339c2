"""What belongs to `oncelog migrate` is not mended like a reader: its state, its transaction, topics that it froze."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from oncelog import OffsetAndMetadata, Producer, TopicPartition
from oncelog.client.admin.acls import Acl
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.testing import TestBroker
from tests.cli.why.test_why import NOW, kinds, position, why
from tests.cli.world import Cli

STATE = "__oncelog-migration-Qm9yIHRoZSBzb3VyY2U"


@pytest.fixture(scope="module")
def cli() -> Iterator[Cli]:
    rules = {"authorizer.class.name": STANDARD_AUTHORIZER, "allow.everyone.if.no.acl.found": "true"}
    with TestBroker(rules) as broker:
        yield Cli(broker.bootstrap_servers)


def test_the_state_of_a_migration_is_no_reader(cli: Cli) -> None:
    """Its positions are the source's offsets. To move them, as was advised, makes the next run copy again, or leave out."""
    cli("produce", cli.create("moved", 2), "-p", 0, stdin="a\nb\n")
    position(cli, STATE, TopicPartition("moved", 0), 900)
    position(cli, STATE, TopicPartition("moved", 1), 0)
    found = why(cli, STATE, "--as", "group", "--exit-code")
    assert (found["verdict"], found["causes"]) == ("free", [])
    result = cli("why", STATE, "--as", "group")
    assert result.stdout == ""
    assert f"{STATE} is where `oncelog migrate` keeps how far it has copied: nobody reads with it" in result.stderr
    assert "Change nothing" in result.stderr
    assert "run the same `oncelog migrate` again" in result.stderr
    assert "no members" not in result.stderr
    refused = cli("groups", "reset-offsets", STATE, "--topic", "moved:0", "--to-earliest", "--dry-run", status=1)
    assert "keeps how far it has copied" in refused.stderr


def test_the_transaction_of_a_migration_is_left_to_it(cli: Cli) -> None:
    cli.create("half")

    async def leave_open() -> None:
        producer = Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id=STATE)
        await producer.start()
        producer.begin_transaction()
        await producer.send("half", b"x", partition=0)
        await producer.send_offsets_to_transaction({TopicPartition("half", 0): OffsetAndMetadata(5)}, STATE)
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(leave_open())
    (cause,) = why(cli, "half", *NOW)["causes"]
    assert (cause["kind"], cause["transactional_id"]) == ("open transaction", STATE)
    assert "It is a migration's (`oncelog migrate`)" in cause["why"]
    assert "run the same command again: it takes over" in cause["advice"]
    assert cause["command"].endswith(f"transactions describe {STATE}")
    assert kinds(why(cli, STATE, "--as", "group", *NOW)) == ["open transaction"]
    cli("transactions", "force-terminate", "--transactional-id", STATE, "-y")


def test_a_topic_that_was_frozen_is_said(cli: Cli) -> None:
    """At the source, after the switch: nobody writes there, and whoever starts the readers there reads what nobody adds to."""
    for topic in ("gone", "stays"):
        cli("produce", cli.create(topic), stdin="a\n")

    async def freeze() -> None:
        from oncelog import Admin

        async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
            rules = [Acl("topic", "gone", "User:*", "all"), Acl("topic", "gone", "User:*", "write", permission="deny")]
            await admin.create_acls(rules)

    for group, topic in (("left", "gone"), ("here", "stays")):
        position(cli, group, TopicPartition(topic, 0), 0)
    asyncio.run(freeze())
    said = "nobody may write to gone, a rule denies it to everybody: `oncelog migrate --switch` makes such a rule"
    assert said in cli("why", "gone").stderr
    assert "denies" not in cli("why", "stays").stderr
    (cause,) = why(cli, "left")["causes"]
    assert (cause["kind"], said in cli("why", "left").stderr) == ("no members", True)
    assert "start them at the destination" in cause["advice"]
    assert "start them, and see" not in cause["advice"]
    assert cause["command"].endswith("acls list --topic gone --matching")
    (cause,) = why(cli, "here")["causes"]
    assert "destination" not in cause["advice"]
