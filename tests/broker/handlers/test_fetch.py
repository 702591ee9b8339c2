"""Fetch: long polls, sessions, topic ids, bounds, errors; ListOffsets, DeleteRecords and leader epochs beside it."""

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, fetch_request, run, until, visible

from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

E = ErrorCode


def test_a_parked_fetch_wakes_with_the_commit(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            reader = await Client.connect(broker)
            reader.send(fetch_request("t", 0, committed=False, wait_ms=60_000), 12)
            await eventually(lambda: is_parked(broker))
            await client.produce("t", "news")
            _, reply = await reader.receive()
            assert visible(reply.responses[0].partitions[0]) == ["news"]
            reader.close()

    run(work())


async def is_parked(broker):
    await asyncio.sleep(0)
    return len(broker.server.tasks) >= 1


def test_a_parked_fetch_waits_for_min_bytes_and_no_longer_than_it_said(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            reader = await Client.connect(broker)
            reader.send(fetch_request("t", 0, committed=True, wait_ms=60_000, min_bytes=300), 12)
            await eventually(lambda: is_parked(broker))
            await client.produce("t", "x" * 100)
            assert await is_parked(broker)
            await client.produce("t", "y" * 200)
            _, reply = await reader.receive()
            assert len(visible(reply.responses[0].partitions[0])) == 2
            assert await reader.read("t", offset=2, wait_ms=20) == []
            reader.close()

    run(work())


def test_a_parked_fetch_hears_that_its_topic_is_gone(tmp_path):
    async def work():
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


def by_id(broker, offset=0, **fields):
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=broker.metadata.topics["t"].topic_id, partitions=[wanted])
    return FetchRequest(max_bytes=1 << 20, topics=[topic], **fields)


def test_a_session_tells_only_what_is_new(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "a")
            first = await client.call(by_id(broker, session_epoch=0), 18)
            assert first.session_id > 0
            assert visible(first.responses[0].partitions[0]) == ["a"]
            moved = await client.call(by_id(broker, 1, session_id=first.session_id, session_epoch=1), 18)
            assert moved.responses == []
            await client.produce("t", "b")
            news = await client.call(FetchRequest(session_id=first.session_id, session_epoch=2), 18)
            assert visible(news.responses[0].partitions[0]) == ["b"]
            wrong = await client.call(FetchRequest(session_id=first.session_id, session_epoch=9), 18)
            assert wrong.error_code == E.INVALID_FETCH_SESSION_EPOCH
            unknown = await client.call(FetchRequest(session_id=12345, session_epoch=1), 18)
            assert unknown.error_code == E.FETCH_SESSION_ID_NOT_FOUND

    run(work())


def test_sessions_begin_with_version_7(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            wanted = fetch_request("t", 0, committed=False).replace(session_epoch=0)
            first = await client.call(wanted, 7)
            assert first.session_id > 0
            wrong = await client.call(FetchRequest(session_id=first.session_id, session_epoch=9), 7)
            assert wrong.error_code == E.INVALID_FETCH_SESSION_EPOCH
            before = await client.call(fetch_request("t", 0, committed=False), 6)
            assert len(before.responses) == 1

    run(work())


def test_errors_are_told_per_partition(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "a")
            reply = await client.call(fetch_request("t", 5, committed=True, wait_ms=60_000), 12)
            part = reply.responses[0].partitions[0]
            assert (part.error_code, part.high_watermark, part.last_stable_offset) == (E.OFFSET_OUT_OF_RANGE, -1, -1)
            reply = await client.call(fetch_request("nosuch", 0, committed=True), 12)
            part = reply.responses[0].partitions[0]
            assert (part.error_code, part.aborted_transactions) == (E.UNKNOWN_TOPIC_OR_PARTITION, [])
            request = by_id(broker)
            request.topics[0].topic_id = b"n" * 16
            reply = await client.call(request, 18)
            assert reply.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_ID
            assert (await client.call(FetchRequest(isolation_level=2), 12)).error_code == E.INVALID_REQUEST

    run(work())


def test_one_batch_comes_whole_however_small_the_bounds(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t", 2)
            for partition in range(2):
                for value in ("a" * 1000, "b" * 1000):
                    await client.produce("t", value, partition=partition)
            wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in range(2)]
            request = FetchRequest(max_bytes=1, topics=[FetchTopic(topic="t", partitions=wanted)])
            first, second = (await client.call(request, 12)).responses[0].partitions
            assert visible(first) == ["a" * 1000]
            assert not second.records

    run(work())


async def is_over(client):
    return await client.state("tx") == "CompleteAbort"


async def aborted_and_kept(client, broker):
    """Three aborted transactions and, in another segment, a record in partition 0; a record in partition 1."""
    await client.create("t", 2)
    for value in "abc":
        producer = await client.init("tx")
        await client.produce("t", value, producer=producer, sequence=0, transactional_id="tx")
        await client.end("tx", producer, commit=False)
    await eventually(lambda: is_over(client))
    broker.partitions.existing(TopicPartition("t", 0)).log.roll()
    await client.produce("t", "kept")
    await client.produce("t", "other", partition=1)


def fetch_both(*, committed=True, **fields):
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in range(2)]
    topics = [FetchTopic(topic="t", partitions=wanted)]
    return FetchRequest(max_bytes=1 << 20, isolation_level=int(committed), topics=topics, **fields)


@pytest.mark.parametrize("journal", ["on", "off"])
def test_a_transaction_index_that_cannot_be_read_is_an_error_of_its_partition_alone(tmp_path, journal):
    async def work():
        async with broker_and_client(tmp_path, journal=journal) as (broker, client):
            await aborted_and_kept(client, broker)
        async with broker_and_client(tmp_path, journal=journal) as (broker, client):
            await until(lambda: len(list(broker.partitions)) >= 2)
            (index,) = tmp_path.glob("**/t-0/*.txnindex")
            whole = index.read_bytes()
            index.write_bytes(whole[:-5])
            damaged, other = (await client.call(fetch_both(), 12)).responses[0].partitions
            assert (damaged.error_code, damaged.records, visible(other)) == (
                E.CORRUPT_MESSAGE,
                b"",
                ["other"],
            )
            assert (damaged.high_watermark, damaged.last_stable_offset) == (-1, -1)
            assert broker.metrics.count("handler_failures") == 0
            assert broker.partitions.offline_count == 1, "and says so at once"
            assert broker.partitions.is_offline(TopicPartition("t", 0))
            waiting = (await client.call(fetch_both(max_wait_ms=60_000, min_bytes=1 << 20), 12)).responses[0]
            assert waiting.partitions[0].error_code == E.CORRUPT_MESSAGE, "an error to tell is enough"
            uncommitted = (await client.call(fetch_both(committed=False), 12)).responses[0].partitions[0]
            assert visible(uncommitted) == ["a", "b", "c"], "who asks for no index reads on"
            assert await client.read("t", offset=6) == ["kept"], "and so do those behind it"
            assert (await client.produce("t", "more")).error_code == E.KAFKA_STORAGE_ERROR
        async with broker_and_client(tmp_path, journal=journal) as (broker, client):
            assert (await client.read("t"), await client.read("t", offset=6)) == ([], ["kept"])
            assert index.read_bytes() == whole, "the next start builds it anew from the log"
            assert (await client.produce("t", "more")).error_code == E.NONE
            assert broker.partitions.offline_count == 0

    run(work())


async def list_offset(client, timestamp, *, committed=False, version=11):
    asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=timestamp)])
    reply = await client.call(ListOffsetsRequest(isolation_level=int(committed), topics=[asked]), version)
    part = reply.topics[0].partitions[0]
    return part.offset if part.error_code == E.NONE else E(part.error_code)


def test_list_offsets(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            assert await list_offset(client, -1) == 0
            await client.produce("t", "a")
            producer = await client.init("x")
            await client.produce("t", "b", producer=producer, sequence=0, transactional_id="x")
            assert await list_offset(client, -2) == 0
            assert await list_offset(client, -1) == 2
            assert await list_offset(client, -1, committed=True) == 1
            assert await list_offset(client, -1, version=1) == 2
            assert await list_offset(client, 0) == 0
            assert await list_offset(client, 2**60) == -1
            assert await list_offset(client, -3, version=6) == E.UNSUPPORTED_VERSION
            assert await list_offset(client, -99) == E.UNSUPPORTED_VERSION
            twice = ListOffsetsPartition(partition_index=0, timestamp=-1)
            request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[twice, twice])])
            reply = await client.call(request)
            assert [each.error_code for each in reply.topics[0].partitions] == [E.INVALID_REQUEST]

    run(work())


async def delete_records(client, offset):
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
    part = (await client.call(DeleteRecordsRequest(topics=[topic]))).topics[0].partitions[0]
    return part.low_watermark if part.error_code == E.NONE else E(part.error_code)


def test_deleted_records_stay_deleted(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            for value in "abc":
                await client.produce("t", value)
            assert await delete_records(client, 2) == 2
            assert await delete_records(client, 1) == 2
            assert await delete_records(client, 9) == E.OFFSET_OUT_OF_RANGE
            assert await list_offset(client, -2) == 2
        async with broker_and_client(tmp_path) as (_, client):
            assert await list_offset(client, -2) == 2
            assert await client.read("t", offset=2) == ["c"]
            assert await delete_records(client, -1) == 3

    run(work())


@pytest.mark.parametrize(
    ("policy", "expected"), [("delete", 0), ("compact,delete", 0), ("", 0), ("compact", E.POLICY_VIOLATION)]
)
def test_the_cleanup_policy_says_whether_records_may_be_deleted(tmp_path, policy, expected):
    """Where it is empty nothing goes by itself, and what is asked for goes, as in Apache Kafka."""

    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t", cleanup_policy=policy)
            assert await delete_records(client, -1) == expected

    run(work())


def test_leader_epochs(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await client.produce("t", "a")
            answers = []
            for current, asked in ((-1, 0), (5, 0), (-1, 3)):
                partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=current, leader_epoch=asked)
                topic = OffsetForLeaderTopic(topic="t", partitions=[partition])
                reply = await client.call(OffsetForLeaderEpochRequest(topics=[topic]))
                part = reply.topics[0].partitions[0]
                answers.append((part.error_code, part.leader_epoch, part.end_offset))
            assert answers == [(E.NONE, 0, 1), (E.UNKNOWN_LEADER_EPOCH, -1, -1), (E.NONE, -1, -1)]

    run(work())
