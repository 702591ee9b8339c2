"""What `oncelog why` collects of a group that has nothing (any more) to be looked at."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from evidence.world.broker import one_more_that_stands_still

from oncelog import Admin, OffsetAndMetadata, Producer, TopicPartition
from oncelog.cli import clients
from oncelog.cli.transactions.group_scope import GroupScope
from oncelog.cli.why.collecting import _name_gone_topics
from oncelog.cli.why.looking import Looking
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.view import TopicView
from oncelog.types import Node
from tests.cli.why.test_why import position, why
from tests.cli.world import Cli


def test_a_group_whose_topics_are_gone_is_no_all_clear(cli: Cli) -> None:
    """With the topic its positions are gone, too, by and by: either way nothing was looked at."""
    cli.create("why-gone")
    position(cli, "why-gone-group", TopicPartition("why-gone", 0), 0)
    cli("topics", "delete", "why-gone", "-y")
    result = cli("why", "why-gone-group", "--exit-code", status=1)
    assert "what why-gone-group reads" in result.stderr
    assert "nothing holds it back" not in result.stderr
    found = why(cli, "why-gone-group", status=1)
    assert (found["verdict"], found["partition_count"]) == ("unknown", 0)


def gone_from(names: list[str], positions: dict[TopicPartition, int], left: int) -> Looking:
    at = {where: OffsetAndMetadata(offset) for where, offset in positions.items()}
    partitions = tuple(sorted(at))[:left]
    looking = Looking(cast("Admin", None), {name: TopicView(name, bytes(16), False, 0) for name in names})
    _name_gone_topics(looking, GroupScope("g", partitions, at, frozenset(), None, None))
    return looking


def test_topics_that_are_gone_are_named() -> None:
    kept, lost = TopicPartition("kept", 0), TopicPartition("lost", 1)
    none = gone_from(["kept"], {lost: 3}, 0)
    assert [(each.what, each.error) for each in none.not_read] == [
        ("what g reads (lost)", "UNKNOWN_TOPIC_OR_PARTITION")
    ]
    some = gone_from(["kept"], {kept: 1, lost: 3}, 1)
    assert (some.not_read, some.notes) == (
        [],
        ["g has positions of what is not there (any more), or may not be seen: lost"],
    )
    assert (gone_from(["kept"], {kept: 1}, 1).not_read, gone_from(["kept"], {kept: 1}, 1).notes) == ([], [])


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """When connections to the broker that stands still are begun, and given up."""
    monkeypatch.setattr(clients, "CONNECT_TIMEOUT_MS", 1_000)
    seen: list[str] = []
    connect = Cluster._connect

    async def noted(self: Cluster, node: Node) -> object:
        if node.node_id != 2:
            return await connect(self, node)
        seen.append("begun")
        try:
            return await connect(self, node)
        finally:
            seen.append("given up")

    monkeypatch.setattr(Cluster, "_connect", noted)
    return seen


def assert_waited_for_once(waits: list[str]) -> None:
    """Side by side, or not again."""
    assert "begun" not in waits[waits.index("given up") :], waits


def test_a_coordinator_that_stands_still_hides_no_owner_of_the_others(cli: Cli, waits: list[str]) -> None:
    cli.create("why-owned")

    async def leave_open() -> None:
        producer = Producer(bootstrap_servers=cli.bootstrap_servers, transactional_id="why-owned-app")
        await producer.start()
        producer.begin_transaction()
        await producer.send("why-owned", b"x")
        await producer.detach_transaction()
        await producer.stop()

    asyncio.run(leave_open())
    with one_more_that_stands_still():
        shown = cli("why", "why-owned", "--older-than", "0s", status=1)
    assert "why-owned-app: Ongoing" in shown.stdout
    assert "unknown owner" not in shown.stdout
    assert "error: the list of transactional ids of broker 2 could not be read: REQUEST_TIMED_OUT" in shown.stderr
    assert shown.stderr.count("the list of transactional ids of broker 2") == 1
    assert_waited_for_once(waits)
    del waits[:]
    with one_more_that_stands_still(coordinates=["why-still-group"]):
        cli("watch", "--once", "why-owned", "--older-than", "0s", "--alert-after", "0s", status=1)
    assert_waited_for_once(waits)
