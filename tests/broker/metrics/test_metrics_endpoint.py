"""/metrics is written beside the loop."""

from __future__ import annotations

import asyncio

from evidence.world.broker import broker_and_client, run

from oncelog.core.exposition import exposition
from tests.broker.metrics.held_worker import held
from tests.broker.metrics.test_metrics import get


def test_nobody_waits_while_a_page_is_written(tmp_path, monkeypatch):
    may_go_on = held(monkeypatch)

    async def work():
        async with broker_and_client(tmp_path, metrics_listen="127.0.0.1:0") as (broker, client):
            pages = [asyncio.ensure_future(get(broker, "/metrics")) for _ in range(2)]
            assert await get(broker, "/livez") == ("200", "alive\n")
            await client.create("t")
            assert not any(page.done() for page in pages)
            may_go_on.set()
            for status, text in await asyncio.gather(*pages):
                assert status == "200"
                assert 'feature="transaction.version"' in text

    run(work())


def test_writing_rests_after_each_sample(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            rests = []
            text = exposition(broker.metrics.families(), rests.append)
            assert len(rests) == sum(not line.startswith("#") for line in text.splitlines())

    run(work())
