"""Topics through the admin client."""

from __future__ import annotations

import asyncio

import pytest

from oncelog import Admin, Broker
from oncelog.client.admin.topics import NewTopic
from oncelog.client.cluster.cluster import Cluster


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
