"""Topics through the admin client."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Admin, Broker, sync
from oncelog.client.admin.topics import NewTopic
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.connection import Connection
from oncelog.errors import Network, UnknownTopicOrPartition
from oncelog.types import Node


def test_many_new_topics_are_waited_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was asked for by itself, with all before it: a thousand topics took minutes, ten thousand an hour."""
    asked: list[int] = []
    once = Cluster._refresh_once

    async def counted(cluster: Cluster, wanted: set[str] | None) -> None:
        asked.append(-1 if wanted is None else len(wanted))
        await once(cluster, wanted)

    async def main() -> None:
        async with Broker() as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            monkeypatch.setattr(Cluster, "_refresh_once", counted)
            made = await admin.create_topics([NewTopic(f"t-{n}", 1, 1, {}) for n in range(20)])
            assert len(made) == 20

    asyncio.run(main())
    assert len(asked) <= 3, asked


def test_a_deletion_whose_answer_was_lost_is_one(oncelog_broker, oncelog_faults) -> None:
    """It was done, asked for again, and reported as an unknown topic."""
    with sync.Admin(bootstrap_servers=oncelog_faults.bootstrap_servers, default_api_timeout_ms=5_000) as admin:
        admin.create_topics(["deleted-once", "deleted-too"])
        oncelog_faults.drop("DeleteTopics", after=True)
        admin.delete_topics(["deleted-once", "deleted-too"])
        assert oncelog_faults.seen["DeleteTopics"] == 2
        assert not {"deleted-once", "deleted-too"} & admin.list_topics().keys()


def test_a_connection_that_was_refused_deleted_nothing(oncelog_broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that never was is told, as without the refusal: nothing had been sent that could have deleted it."""
    connect, refusals = Cluster.connection, iter([Network("refused")])

    async def refused_once(cluster: Cluster, node: Node, lane: str = "") -> Connection:
        for refusal in refusals:
            raise refusal
        return await connect(cluster, node, lane)

    with sync.Admin(bootstrap_servers=oncelog_broker.bootstrap_servers) as admin:
        admin.list_topics()
        monkeypatch.setattr(Cluster, "connection", refused_once)
        with pytest.raises(UnknownTopicOrPartition):
            admin.delete_topics(["never-there"])
    assert next(refusals, None) is None
