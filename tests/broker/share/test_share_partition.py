"""Share groups over real sockets and a real disk: who gets which records, when, and what a restart remembers."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, run, until

from oncelog.broker.share.share_coordinators import PRUNED_RECORDS_MIN
from oncelog.broker.share.share_partition import SharePartition
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.decision import Decision
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.broker.share.share_world import ACCEPT, REJECT, RELEASE, Reader, acquired, beat, configure, offsets, started

E = ErrorCode
TEN = "abcdefghij"
WAIT_MS = 60_000


def test_records_are_shared_acknowledged_and_remembered(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, *TEN)
            await beat(client, "n", 0, "t")
            m, n = Reader(client, topic_id), Reader(await Client.connect(broker), topic_id, "n")
            assert await m.fetch(records_max=3) == [(0, 9, 1)], "whole batches"
            assert await n.fetch() == []
            assert await m.say((0, 3, ACCEPT), (4, 5, RELEASE, REJECT)) == [E.NONE]
            assert await n.fetch() == [(4, 4, 2)]
            assert await n.say((4, 4, ACCEPT)) == [E.NONE]
            assert await n.say((6, 6, ACCEPT)) == [E.INVALID_RECORD_STATE], "it is another's"
            assert await offsets(client) == [(0, 4, 4)]
        async with broker_and_client(tmp_path) as (_, client):
            assert await offsets(client) == [(0, 6, 4)]
            assert await Reader(client, topic_id).fetch() == [(6, 9, 2)], "what a member had when its connection ended"

    run(main())


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_only_committed_records_where_a_group_wants_no_others(tmp_path, isolation_level):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, "a", isolation_level=isolation_level)
            producer = await client.init("tx")
            await client.produce("t", "b", "c", producer=producer, sequence=0, transactional_id="tx")
            writer = await Client.connect(broker)
            await writer.produce("t", "d")
            m = Reader(client, topic_id)
            if isolation_level == "read_uncommitted":
                assert await m.fetch() == [(0, 3, 1)]
                return
            assert await m.fetch() == [(0, 0, 1)], "nothing from the last stable offset on"
            client.send(m.request(wait_ms=WAIT_MS))
            await writer.end("tx", producer, commit=False)
            assert acquired((await client.receive())[1]) == [(3, 4, 1)], (
                "the aborted are for nobody; the marker is a gap"
            )
            assert await m.say((0, 0, ACCEPT), (3, 4, ACCEPT, 0)) == [E.NONE]
            producer = await writer.init("tx")
            await writer.produce("t", "e", producer=producer, sequence=0, transactional_id="tx")
            await writer.end("tx", producer, commit=True)
            assert await m.fetch(wait_ms=WAIT_MS) == [(5, 6, 1)]
            assert await offsets(client) == [(0, 0, 2)]

    run(main())


def test_a_damaged_header_makes_no_record_an_aborted_one(tmp_path):
    """What is aborted is done with, for good: a record whose producer id was damaged would be lost to the group."""

    async def main():
        async with broker_and_client(tmp_path) as (_, client):
            topic_id = await started(client, isolation_level="read_committed")
            a, b = await client.init("a"), await client.init("b")
            await client.produce("t", "aborted", producer=a, sequence=0, transactional_id="a")
            await client.produce("t", "kept", producer=b, sequence=0, transactional_id="b")
            await client.end("b", b, commit=True)
            await client.end("a", a, commit=False)
            await until(lambda: len(list(tmp_path.glob("**/t-0/*.log"))) == 1)
            (log,) = tmp_path.glob("**/t-0/*.log")
            whole = log.read_bytes()
            begin = 12 + int.from_bytes(whole[8:12], "big")  # of the second batch; its producer id is 43 behind
            assert whole[begin + 43 : begin + 51] == b[0].to_bytes(8, "big")
            log.write_bytes(whole[: begin + 43] + a[0].to_bytes(8, "big") + whole[begin + 51 :])
            m = Reader(client, topic_id)
            reply = await client.call(m.request(wait_ms=100))
            assert [part.error_code for topic in reply.responses for part in topic.partitions] == [E.CORRUPT_MESSAGE]
            log.write_bytes(whole)
            assert await m.fetch(wait_ms=WAIT_MS) == [(1, 3, 1)], "and two markers"

    run(main())


async def is_over(client):
    return await client.state("tx") == "CompleteAbort"


@pytest.mark.parametrize("wait_ms", [0, WAIT_MS])
def test_a_transaction_index_that_cannot_be_read_is_told(tmp_path, wait_ms):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, isolation_level="read_committed")
            producer = await client.init("tx")
            await client.produce("t", "aborted", producer=producer, sequence=0, transactional_id="tx")
            await client.end("tx", producer, commit=False)
            await eventually(lambda: is_over(client))
            broker.partitions.existing(TopicPartition("t", 0)).log.roll()
            await client.produce("t", "kept")
        async with broker_and_client(tmp_path) as (broker, client):
            await until(lambda: broker.partitions.existing(TopicPartition("t", 0)) is not None)
            (index,) = tmp_path.glob("**/t-0/*.txnindex")
            index.write_bytes(index.read_bytes()[:-5])
            await beat(client, "m", 0, "t")
            reply = await client.call(Reader(client, topic_id).request(wait_ms=wait_ms))
            assert [part.error_code for topic in reply.responses for part in topic.partitions] == [E.CORRUPT_MESSAGE]
            assert (broker.partitions.offline_count, broker.metrics.count("handler_failures")) == (1, 0)

    run(main())


def test_where_a_group_begins_by_time_is_not_known_where_that_is_damaged(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await configure(client, auto_offset_reset="by_duration:PT1H")
            assert (await beat(client, "m", 0, "t")).error_code == 0
            await client.produce("t", "a")
            (log,) = tmp_path.glob("**/t-0/*.log")
            data = bytearray(log.read_bytes())
            data[61] ^= 0x40  # the record's length
            log.write_bytes(data)
            topic_id = broker.metadata.topics["t"].topic_id
            reply = await client.call(Reader(client, topic_id).request(wait_ms=0))
            assert [part.error_code for topic in reply.responses for part in topic.partitions] == [
                E.KAFKA_STORAGE_ERROR
            ]
            assert (broker.partitions.offline_count, broker.metrics.count("handler_failures")) == (1, 0)

    run(main())


@pytest.mark.parametrize("damage", ["another batch in its place", "a last offset beyond its end"])
def test_a_damaged_header_makes_no_gap(tmp_path, damage):
    """Offsets that no batch has are done with, for good: a record behind a damaged header would be lost to the group."""

    async def main():
        async with broker_and_client(tmp_path) as (_, client):
            topic_id = await started(client)
            for value in "abcd":
                await client.produce("t", value)
            await until(lambda: len(list(tmp_path.glob("**/t-0/*.log"))) == 1)
            (log,) = tmp_path.glob("**/t-0/*.log")
            whole = log.read_bytes()
            size = len(whole) // 4
            if damage == "another batch in its place":
                log.write_bytes(whole[:size] + whole[2 * size : 3 * size] + whole[2 * size :])
            else:  # the second one's base offset and, 23 behind it, its last offset's distance: it lies behind all others
                second = (
                    (7).to_bytes(8, "big") + whole[size + 8 : size + 23] + b"\0\0\0\1" + whole[size + 27 : 2 * size]
                )
                log.write_bytes(whole[:size] + second)
            m = Reader(client, topic_id)
            reply = await client.call(m.request(wait_ms=100))
            assert [part.error_code for topic in reply.responses for part in topic.partitions] == [E.CORRUPT_MESSAGE]
            log.write_bytes(whole)
            assert await m.fetch(wait_ms=WAIT_MS) == [(0, 3, 1)]

    run(main())


def test_who_waits_is_woken_by_whatever_brings_records(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client)
            m, n = Reader(client, topic_id), Reader(await Client.connect(broker), topic_id, "n")
            writer = await Client.connect(broker)

            async def waits(reader, deed):
                sent = reader.client.send(reader.request(wait_ms=WAIT_MS))
                await until(lambda: any(share._watchers for share in _open(broker)))
                await deed()
                correlation_id, reply = await reader.client.receive()
                assert correlation_id == sent
                return acquired(reply)

            assert await waits(m, lambda: writer.produce("t", *TEN)) == [(0, 9, 1)]
            assert await waits(n, lambda: m.say((0, 1, RELEASE))) == [(0, 1, 2)]

            async def gone():
                n.client.close()

            other = Reader(await Client.connect(broker), topic_id, "o")
            assert await waits(other, gone) == [(0, 1, 3)], "a member's connection ended"
            assert await waits(other, lambda: m.fetch(is_last=True)) == [(2, 9, 2)], "a member has left"

    run(main())


def _open(broker):
    return [share for shares in broker.node.share_partitions._open.values() for share in shares.values()]


def test_how_much_could_be_given_is_counted_in_bytes_of_the_log(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, "a")
            assert await Reader(client, topic_id).fetch() == [(0, 0, 1)]
            log = broker.partitions.existing(TopicPartition("t", 0)).log
            before = log.segments[-1].size_bytes
            (share,) = _open(broker)
            assert share.available_bytes(1 << 20) == 0
            await client.produce("t", "x" * 100)
            assert share.available_bytes(1 << 20) == log.segments[-1].size_bytes - before > 100
            assert share.available_bytes(1) == 1, "that there is something is enough"

    run(main())


def test_a_lock_ends_and_others_get_the_record(tmp_path, monkeypatch):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, "a")
            m, n = Reader(client, topic_id), Reader(await Client.connect(broker), topic_id, "n")
            assert await m.fetch() == [(0, 0, 1)]
            n.client.send(n.request(wait_ms=WAIT_MS))
            (share,) = _open(broker)
            await until(lambda: bool(share._watchers))
            assert share._alarm is not None
            later_ms = share._now_ms() + 30_000
            monkeypatch.setattr(SharePartition, "_now_ms", lambda _: later_ms)
            share._alarm.cancel()
            share._ring()
            assert acquired((await n.client.receive())[1]) == [(0, 0, 2)]
            assert await m.say((0, 0, ACCEPT)) == [E.INVALID_RECORD_STATE], "it was too late"

    run(main())


def test_deleted_records_topics_and_groups_are_forgotten(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, *TEN)
            m = Reader(client, topic_id)
            part = DeleteRecordsPartition(partition_index=0, offset=4)
            await client.call(DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=[part])]))
            assert await m.fetch() == [(4, 9, 1)]
            assert await m.say((4, 9, ACCEPT)) == [E.NONE]
            client.send(m.request(wait_ms=WAIT_MS))
            await until(lambda: any(share._watchers for share in _open(broker)))
            admin = await Client.connect(broker)
            await admin.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000))
            part = (await client.receive())[1].responses[0].partitions[0]
            assert part.error_code in (E.UNKNOWN_TOPIC_OR_PARTITION, E.NOT_LEADER_OR_FOLLOWER)
            assert broker.node.share_partitions.coordinators.key_count == 0
            assert await offsets(client) == []

    run(main())


def test_a_stop_answers_who_waits(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            m = Reader(client, await started(client))
            client.send(m.request(wait_ms=WAIT_MS))
            await until(lambda: any(share._watchers for share in _open(broker)))
            stopping = asyncio.ensure_future(broker.stop())
            assert acquired((await client.receive())[1]) == []
            client.close()
            await stopping

    run(main())


def test_where_a_group_begins_is_stored_before_it_is_given_anything(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (_, client):
            topic_id = await started(client, *TEN)
            await configure(client, auto_offset_reset="latest")
            assert await Reader(client, topic_id).fetch() == []
            await client.produce("t", "k")
        async with broker_and_client(tmp_path) as (_, client):
            assert await Reader(client, topic_id).fetch() == [(10, 10, 1)], "else a restart would begin behind it"

    run(main())


def test_the_states_log_gives_up_what_it_needs_no_more(tmp_path, monkeypatch):
    monkeypatch.setattr("oncelog.broker.share.share_coordinators.PRUNED_RECORDS_MIN", 5)
    assert PRUNED_RECORDS_MIN > 5

    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            topic_id = await started(client, *TEN)
            m = Reader(client, topic_id)
            await m.fetch()
            for offset in range(8):
                await m.say((offset, offset, ACCEPT))
            before = await offsets(client)
            await broker.node.share_partitions.coordinators.prune()
            coordinator = await broker.node.share_partitions.coordinators.coordinator_of(
                str(ShareKey("g", topic_id, 0))
            )
            assert coordinator.partition.rules.log_start_offset == coordinator.partition.log_end_offset - 1
            assert await offsets(client) == before
        async with broker_and_client(tmp_path) as (_, client):
            assert await Reader(client, topic_id).fetch() == [(8, 9, 2)]

    run(main())


def test_states_that_a_crash_left_behind_are_forgotten(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            await started(client)
            await started(client, topic="u", group="h")
            await beat(client, "m", -1)
            machine = (await broker.groups.coordinator_of("g")).machine
            # as if the broker had died between the end of the group and that of its state
            await broker.groups.ask(
                "g", lambda found, _: Decision(records=tuple(found.share_groups.by_id["g"].tombstones()))
            )
            assert not machine.knows_group("g")
            assert broker.node.share_partitions.coordinators.key_count == 2
        async with broker_and_client(tmp_path) as (broker, _):
            await until(lambda: broker.node.share_partitions.coordinators.key_count == 1)

    run(main())


def test_a_partition_that_is_gone_is_told_once_and_then_waits_like_the_others(tmp_path):
    async def main():
        async with broker_and_client(tmp_path) as (broker, client):
            m = Reader(client, await started(client))
            reply = await client.call(m.request(wait_ms=WAIT_MS, partition=7))
            assert reply.responses[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            sent = client.send(m.request(wait_ms=50))
            assert (await client.receive())[0] == sent
            assert broker.node.share_partitions.sessions

    run(main())


def test_a_topic_that_may_not_be_read_any_more_is_refused_in_its_session(tmp_path):
    async def main():
        config = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}
        async with broker_and_client(tmp_path, **config) as (_, client):
            m = Reader(client, await started(client, *TEN))
            assert await m.fetch(records_max=1) == [(0, 9, 1)]
            denied = AclCreation(
                resource_type=2, resource_name="t", principal="User:ANONYMOUS", host="*", operation=3, permission_type=2
            )
            await client.call(CreateAclsRequest(creations=[denied]))
            assert await m.say((0, 0, ACCEPT)) == [E.TOPIC_AUTHORIZATION_FAILED]
            (topic,) = (await client.call(m.request())).responses
            assert topic.partitions[0].error_code == E.TOPIC_AUTHORIZATION_FAILED

    run(main())
