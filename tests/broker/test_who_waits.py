"""Whoever waits in the broker is woken on every way that an event can go: done, refused, failed, deleted, disconnected."""

from __future__ import annotations

import asyncio
import dataclasses

import pytest
from evidence.world.broker import Client, ConnectionClosed, broker_and_client, fetch_request, keys, run, until, visible

from oncelog.broker.broker import Broker
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.host import real_host
from oncelog.types import TopicPartition
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from tests.broker.coordinators.test_transactions import stop_markers
from tests.broker.network.test_drain import HeldSyncer

E = ErrorCode
FOR_LONG_MS = 1_000_000  # longer than the test's own bound: only a wake ends it
T0 = TopicPartition("t", 0)


async def parked(broker, reader, offset, *, committed):
    before = len(broker.server.tasks)
    reader.send(fetch_request("t", offset, committed=committed, wait_ms=FOR_LONG_MS), 12)
    await until(lambda: len(broker.server.tasks) > before)
    await until(lambda: bool(broker.partitions.get(T0)._watchers))


def test_a_fetch_of_what_is_committed_wakes_when_the_transaction_before_it_ends(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            producer = await client.init("x")
            await client.produce("t", "in doubt", producer=producer, sequence=0, transactional_id="x")
            await client.produce("t", "behind it")
            reader = await Client.connect(broker)
            await parked(broker, reader, 0, committed=True)
            assert (await client.end("x", producer, commit=True)).error_code == E.NONE
            _, reply = await reader.receive()
            assert visible(reply.responses[0].partitions[0]) == ["in doubt", "behind it"]
            reader.close()

    run(work())


def test_a_fetch_wakes_when_its_offset_is_deleted(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            producer = await client.init("x")
            await client.produce("t", "in doubt", producer=producer, sequence=0, transactional_id="x")
            reader = await Client.connect(broker)
            await parked(broker, reader, 0, committed=True)
            gone = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=1)])
            await client.call(DeleteRecordsRequest(topics=[gone], timeout_ms=1000))
            _, reply = await reader.receive()
            assert reply.responses[0].partitions[0].error_code == E.OFFSET_OUT_OF_RANGE
            reader.close()

    run(work())


def test_a_fetch_whose_client_goes_away_watches_nothing_any_more(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            reader = await Client.connect(broker)
            await parked(broker, reader, 0, committed=False)
            reader.close()
            await until(lambda: not broker.partitions.get(T0)._watchers)

    run(work())


def test_a_produce_that_waits_for_its_sync_is_answered_when_the_topic_is_deleted(tmp_path):
    async def work():
        host = real_host()
        syncer = HeldSyncer(host.syncer)
        async with Broker(str(tmp_path), keys({}), dataclasses.replace(host, syncer=syncer)) as broker:
            client, other = await Client.connect(broker), await Client.connect(broker)
            await client.create("t")
            await client.create("u")
            partition = broker.partitions.get(T0)
            syncer.is_held = True
            other.send(other.produce_request("u", "keeps the disk busy"), 12)
            await until(lambda: syncer.waiting == 1)
            client.send(client.produce_request("t", "waits for the next sync"), 12)
            await until(lambda: partition.waiting_commit_count == 1)
            partition.go_away()
            _, reply = await client.receive()
            assert reply.responses[0].partition_responses[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            syncer.is_held = False
            syncer.go.set()
            _, reply = await other.receive()
            assert reply.responses[0].partition_responses[0].error_code == E.NONE
            deleted = await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000), 6)
            assert deleted.responses[0].error_code == E.NONE
            client.close()
            other.close()
        syncer.close()

    run(work())


@pytest.mark.parametrize("fails", [False, True], ids=["stored", "refused by the disk"])
def test_all_who_wait_for_a_change_of_the_metadata_are_answered(tmp_path, fails):
    """One change is on its way to the disk; others wait for it: one of them for the coordinators' topic."""

    async def work():
        host = real_host()
        syncer = HeldSyncer(host.syncer)
        async with Broker(str(tmp_path), keys({}), dataclasses.replace(host, syncer=syncer)) as broker:
            clients = [await Client.connect(broker) for _ in range(4)]
            for each in clients:
                await each.call(DeleteTopicsRequest(topics=[], timeout_ms=1000), 6)
            syncer.is_held = True
            for index, client in enumerate(clients[:3]):
                topic = CreatableTopic(name=f"t{index}", num_partitions=1, replication_factor=1)
                client.send(CreateTopicsRequest(topics=[topic]), 5)
            clients[3].send(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
            await until(lambda: syncer.waiting == 1)
            if fails:
                broker.store._log.fail(StorageError("the disk is gone"))
            syncer.is_held = False
            syncer.go.set()
            codes = []
            for client in clients[:3]:
                _, reply = await client.receive()
                codes.append(E(reply.topics[0].error_code))
            _, reply = await clients[3].receive()
            if fails:
                assert set(codes[1:]) == {E.KAFKA_STORAGE_ERROR}
                assert reply.error_code == E.COORDINATOR_NOT_AVAILABLE
            else:
                assert codes == [E.NONE] * 3
                assert reply.error_code == E.NONE
            for each in clients:
                each.close()
        syncer.close()

    run(work())


def test_many_who_wait_for_producer_ids_get_one_each(tmp_path):
    """The first of them reserves the block, the others wait for it."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            clients = [await Client.connect(broker) for _ in range(20)]
            for index, client in enumerate(clients):
                client.send(InitProducerIdRequest(transactional_id=f"x{index}", transaction_timeout_ms=60_000), 5)
            given = [(await client.receive())[1] for client in clients]
            assert {each.error_code for each in given} == {E.NONE}
            assert len({each.producer_id for each in given}) == 20
            for client in clients:
                client.close()

    run(work())


def test_the_coordinators_topic_is_made_where_there_is_no_room_for_other_topics(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_partitions=1, oncelog_max_topics=1) as (_, client):
            await client.create("t")
            reply = await client.call(InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000), 5)
            assert reply.error_code == E.NONE

    run(work())


def test_who_waits_in_the_gate_and_goes_away_is_forgotten_there(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            producer = await client.init("x")
            added = {"producer": producer, "transactional_id": "x"}
            await client.produce("t", "a", sequence=0, **added)
            stop_markers(broker)
            ended = await client.end("x", producer, commit=True)
            leaver = await Client.connect(broker)
            next_one = ended.producer_id, ended.producer_epoch
            held = leaver.produce_request("t", "b", producer=next_one, sequence=0, transactional_id="x")
            leaver.send(held, 12)
            await until(lambda: len(broker.gate) == 1)
            leaver.close()
            await until(lambda: len(broker.gate) == 0)

    run(work())


def test_a_handler_that_breaks_ends_its_connection_and_no_other(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            other = await Client.connect(broker)
            await parked(broker, other, 0, committed=False)
            asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # it is said in the log
            handle = broker.server.handle
            broker.server.handle = lambda _: 1 / 0
            client.send(client.produce_request("t", "never taken"), 12)
            with pytest.raises(ConnectionClosed):
                await client.receive()
            broker.server.handle = handle
            third = await Client.connect(broker)
            await third.produce("t", "news")
            _, reply = await other.receive()
            assert visible(reply.responses[0].partitions[0]) == ["news"]
            other.close()
            third.close()

    run(work())
