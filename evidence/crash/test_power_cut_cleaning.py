"""The power goes at every operation while a broker cleans a log: the steps and syncs of the broker's own cleaner."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import pytest

from evidence.world.direct import DATA, START_MS, Client, DirectNetwork, direct_host
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk, survivals
from evidence.world.requests import Session, visible_records
from oncelog.broker.broker import Broker
from oncelog.broker.partitions.log_cleaner import LogCleaner
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import batches, build_batch

CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": 1,
    "log.cleaner.backoff.ms": 3_600_000,
    "log.cleanup.policy": "compact",
}
T0 = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def silent():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


async def produce(client: Client, rows: list[tuple[str, str]], producer=(-1, -1), name: str | None = None) -> None:
    batch = build_batch(
        [(START_MS, key.encode(), value.encode(), ()) for key, value in rows],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0 if name else -1,
        is_transactional=name is not None,
    )
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    reply = await client.call(ProduceRequest(transactional_id=name, acks=-1, timeout_ms=9000, topic_data=[data]), 12)
    assert reply.responses[0].partition_responses[0].error_code == ErrorCode.NONE


async def table(client: Client) -> dict[str, str]:
    found = {}
    offset = 0
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic="t", partitions=[wanted])]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, isolation_level=1, topics=topics)
        data = (await client.call(request, 11)).responses[0].partitions[0]
        assert data.error_code == ErrorCode.NONE
        if not data.records:
            return found
        for record in visible_records(data.records, data.aborted_transactions or []):
            found[record.key.decode()] = record.value.decode()
        offset = list(batches(data.records))[-1].end_offset


async def fill(broker: Broker, network: DirectNetwork) -> dict[str, str]:
    """Several small segments; the table that they make."""
    client = await Client.connect(network)
    session = Session(client)
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    topic.configs = [CreatableTopicConfig(name="min.cleanable.dirty.ratio", value="0")]
    await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
    log = broker.partitions.get(T0).log
    log.config = replace(log.config, segment_bytes=1500)
    expected = {}
    reply = await session.init("x")
    producer = (reply.producer_id, reply.producer_epoch)
    for index in range(9):
        rows = [(f"k{index % 3}", f"{index}" * 60), ("often", str(index))]
        await produce(client, rows, producer, "x")
        reply = await session.end("x", producer, commit=index % 3 != 1)
        producer = (reply.producer_id, reply.producer_epoch)
        while not (await session.state("x")).startswith("Complete"):  # noqa: ASYNC110 - time passes only while all wait
            await asyncio.sleep(0.01)
        if index % 3 != 1:
            expected |= dict(rows)
        if index % 2:
            log.roll()
    await broker.flusher.sync_all()
    return expected


def recorded(seed: int) -> tuple[list[tuple[str, PowerDisk]], dict[str, str]]:
    """Each moment of a cleaning, and what readers must find at all of them."""
    disk, cuts, told = PowerDisk(seed), [], {}

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = Broker(DATA, CONFIG, direct_host(disk, network, seed))
        await broker.start()
        told.update(await fill(broker, network))
        assert len(broker.partitions.get(T0).log.segments) > 4
        disk.on_operation = lambda what, path: cuts.append((f"{what} {path}", disk.copy(f"{seed} {len(cuts)}")))
        while await broker.log_cleaner.clean_dirtiest():
            pass
        disk.on_operation = None
        assert broker.metrics.count("log_cleanings") == 1
        assert await table(await Client.connect(network)) == told

    run_simulated(seed, main)
    return cuts, told


def found_after(disk: PowerDisk, seed: str) -> dict[str, str]:
    found = {}

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = Broker(DATA, CONFIG, direct_host(disk, network, seed))
        await broker.start()
        assert not broker.partitions.is_offline(T0)
        client = await Client.connect(network)
        found.update(await table(client))
        while await broker.log_cleaner.clean_dirtiest():
            pass
        assert await table(client) == found

    run_simulated(seed, main)
    return found


def first_difference(seed: int) -> str | None:
    cuts, told = recorded(seed)
    assert len(cuts) > 25
    for number, (operation, disk) in enumerate(cuts):
        for name, survive in list(survivals(disk, f"{seed} {number}", random_count=1))[:: 3 if number % 4 else 1]:
            survivor = disk.copy(f"{seed} {number} {name}")
            survive(survivor)
            try:
                if found_after(survivor, f"{seed} {number}") != told:
                    return f"cut {number} in {operation}, {name}: readers see something else"
            except AssertionError as error:
                return f"cut {number} in {operation}, {name}: {error}"
    return None


def test_power_cut_at_every_operation_of_a_cleaning():
    assert first_difference(1) is None


def test_a_cleaner_that_does_not_sync_between_its_steps_is_found(monkeypatch):
    async def no_sync(self, partition):
        return None

    monkeypatch.setattr(LogCleaner, "_sync_names", no_sync)
    assert first_difference(1) is not None
