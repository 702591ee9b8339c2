"""Who looks leaves no trace: a partition that was never written is answered from memory, and made by its first append."""

from __future__ import annotations

import asyncio
import pathlib
from typing import Any

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, run, visible

from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicRequest
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

E = ErrorCode


def made(directory: pathlib.Path) -> list[str]:
    return sorted(each.name for each in directory.rglob("t-*") if each.is_dir())


def test_describe_producers(tmp_path: pathlib.Path) -> None:
    """Whoever asked about all of 40,000 partitions made 40,000 directories: a minute in which nobody else was answered."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t", 2)
            await client.produce("t", "x", partition=1)
            asked = [TopicRequest(name="t", partition_indexes=[0, 1, 2])]
            found = (await client.call(DescribeProducersRequest(topics=asked))).topics[0].partitions
            assert found == [
                PartitionResponse(partition_index=0),
                PartitionResponse(partition_index=1),
                PartitionResponse(partition_index=2, error_code=E.UNKNOWN_TOPIC_OR_PARTITION),
            ]

    run(work())
    assert made(tmp_path) == ["t-1"]


@pytest.mark.parametrize("timestamp", [-1, -2, -3, -4, -5, 0, 1_700_000_000_000])
@pytest.mark.parametrize("isolation_level", [0, 1])
def test_list_offsets(tmp_path: pathlib.Path, timestamp: int, isolation_level: int) -> None:
    """The answer is that of a partition which exists and is empty."""

    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", 2)
            broker.partitions.get(next(iter(broker.node.metadata.topics["t"].partitions())))
            asked = [ListOffsetsPartition(partition_index=n, timestamp=timestamp) for n in (0, 1)]
            message = ListOffsetsRequest(
                isolation_level=isolation_level, topics=[ListOffsetsTopic(name="t", partitions=asked)]
            )
            empty, never = (await client.call(message)).topics[0].partitions
            never.partition_index = 0
            assert never == empty

    run(work())
    assert made(tmp_path) == ["t-0"]


def test_fetch_leader_epochs_and_deletions(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            found = await fetched(client, 0)
            assert (found.error_code, found.high_watermark, found.last_stable_offset, found.log_start_offset) == (
                0,
            ) * 4
            assert (await fetched(client, 1)).error_code == E.OFFSET_OUT_OF_RANGE
            for leader_epoch in (0, 1):
                asked = [OffsetForLeaderPartition(partition=0, current_leader_epoch=0, leader_epoch=leader_epoch)]
                topics = [OffsetForLeaderTopic(topic="t", partitions=asked)]
                (answer,) = (await client.call(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics))).topics
                assert (answer.partitions[0].leader_epoch, answer.partitions[0].end_offset) == (-1, -1)
            for offset, code in ((0, 0), (-1, 0), (1, E.OFFSET_OUT_OF_RANGE)):
                places = [DeleteRecordsPartition(partition_index=0, offset=offset)]
                message = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=places)])
                (result,) = (await client.call(message)).topics[0].partitions
                assert (result.error_code, result.low_watermark) == (code, -1 if code else 0)

    run(work())
    assert made(tmp_path) == []


async def fetched(client: Client, offset: int) -> Any:
    reply = await client.call(fetch_request("t", offset, committed=True, wait_ms=0), 12)
    return reply.responses[0].partitions[0]


async def is_parked(broker: Any) -> bool:
    await asyncio.sleep(0)
    return len(broker.server.tasks) >= 1


def test_who_waits_for_the_first_record_gets_it(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            reader = await Client.connect(broker)
            reader.send(fetch_request("t", 0, committed=True, wait_ms=60_000), 12)
            await eventually(lambda: is_parked(broker))
            assert len(broker.partitions._first_watchers) == 1
            await client.produce("t", "first")
            _, reply = await reader.receive()
            assert visible(reply.responses[0].partitions[0]) == ["first"]
            reader.close()
            (partition,) = broker.partitions.of_topic("t")
            assert (len(broker.partitions._first_watchers), partition._watchers) == (0, {})

    run(work())


def test_who_waits_and_goes_is_forgotten(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.call(fetch_request("t", 0, committed=True, wait_ms=1), 12)
            assert len(broker.partitions._first_watchers) == 0

    run(work())
    assert made(tmp_path) == []


def test_who_waits_hears_that_the_topic_is_gone(tmp_path: pathlib.Path) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            reader = await Client.connect(broker)
            reader.send(fetch_request("t", 0, committed=True, wait_ms=60_000), 12)
            await eventually(lambda: is_parked(broker))
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
            _, reply = await reader.receive()
            assert reply.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            reader.close()

    run(work())


def test_who_waits_hears_that_it_cannot_be_made(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            reader = await Client.connect(broker)
            reader.send(fetch_request("t", 0, committed=True, wait_ms=60_000), 12)
            await eventually(lambda: is_parked(broker))

            def fails(*_: object) -> None:
                raise StorageError("no space left")

            monkeypatch.setattr(broker.partitions, "_create_directory", fails)
            with pytest.raises(StorageError):
                broker.partitions.get(TopicPartition("t", 0))
            _, reply = await reader.receive()
            assert reply.responses[0].partitions[0].error_code == E.KAFKA_STORAGE_ERROR
            reader.close()

    run(work())
