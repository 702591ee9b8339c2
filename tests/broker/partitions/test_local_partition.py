"""A partition and its log: one of them says whether anything is taken, whoever meets the damage."""

from __future__ import annotations

import gc
import weakref

import pytest
from evidence.world.broker import broker_and_client, fetch_request, run, until

from oncelog.errors import DamagedLog, ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

E = ErrorCode
T = TopicPartition("t", 0)


def damage(tmp_path, batch):
    """Its magic, or of the first one its record's length: a lookup by time ends there."""
    (log,) = tmp_path.glob("**/t-0/*.log")
    data = bytearray(log.read_bytes())
    data[12 + int.from_bytes(data[8:12], "big") + 16 if batch else 61] ^= 0x40
    log.write_bytes(data)


async def list_offset(client, timestamp):
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    return E((await client.call(ListOffsetsRequest(topics=[asked]))).topics[0].partitions[0].error_code)


async def by_fetch(_broker, client):
    reply = await client.call(fetch_request("t", 1, committed=False), 12)
    return E(reply.responses[0].partitions[0].error_code)


async def by_time(_broker, client):
    return await list_offset(client, 1)


async def by_its_log_alone(broker, _client):
    """As the cleaner, a coordinator's load, or a look that answers nobody."""
    with pytest.raises(DamagedLog):
        list(broker.partitions.existing(T).log.all_batches())


MET = {
    by_fetch: E.CORRUPT_MESSAGE,
    by_time: E.KAFKA_STORAGE_ERROR,
    by_its_log_alone: None,
}


@pytest.mark.parametrize("met", MET, ids=lambda met: met.__name__)
def test_whoever_meets_damage_the_partition_is_offline_at_once(tmp_path, met):
    async def main():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for value in "abc":
                await client.produce("t", value)
        async with broker_and_client(tmp_path) as (broker, client):
            await until(lambda: broker.partitions.existing(T) is not None)
            damage(tmp_path, 0 if met is by_time else 1)
            assert await met(broker, client) == MET[met]
            assert (broker.partitions.is_offline(T), broker.partitions.offline_count) == (True, 1)
            assert broker.metrics.count("handler_failures") == 0
            assert (await client.produce("t", "d")).error_code == E.KAFKA_STORAGE_ERROR
            assert await client.read("t", offset=2, committed=False) == ["c"], "what is whole is given"

    run(main())


@pytest.mark.parametrize("policy", ["fsync with a journal", "fsync", "interval", "os"])
def test_of_a_deleted_partition_nothing_is_kept(tmp_path, policy):
    """Whoever was to sync or commit it forgets it at once, whatever its turn is."""
    config = {} if "journal" in policy else {"journal": "off", "flush_policy": policy, "flush_interval_ms": 60_000}

    async def main():
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("t")
            await client.produce("t", "a")
            await client.produce("t", "b", acks=1)
            partition = weakref.ref(broker.partitions.existing(T))
            assert partition() is not None
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
            assert await list_offset(client, -1) == E.UNKNOWN_TOPIC_OR_PARTITION
            gc.collect()
            assert partition() is None

    run(main())
