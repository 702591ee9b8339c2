"""/metrics is written beside the loop."""

from __future__ import annotations

import asyncio

from evidence.world.broker import broker_and_client, run

from oncelog.broker.metrics.metrics_endpoint import readiness
from oncelog.core.exposition import exposition
from oncelog.types import TopicPartition
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


def test_a_broker_with_offline_partitions_is_ready_and_says_how_many(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, metrics_listen="127.0.0.1:0") as (broker, client):
            await client.create("t", 2)
            for partition in range(2):
                await client.produce("t", "x", partition=partition)
            assert await get(broker, "/readyz") == ("200", "ready\n")
            for partition in range(2):
                broker.partitions.get(TopicPartition("t", partition)).go_offline("its disk is full")
            assert await get(broker, "/readyz") == ("200", "ready; offline partitions: 2\n")
            assert await client.read("t") == ["x"], "no reason to send readers away"

    run(work())


def test_a_broker_that_does_not_serve_is_not_ready():
    assert readiness(is_ready=False, offline_count=0) == ("503 Service Unavailable", "not ready\n")


def test_writing_rests_after_each_sample(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            rests = []
            text = exposition(broker.metrics.families(), rests.append)
            assert len(rests) == sum(not line.startswith("#") for line in text.splitlines())

    run(work())
