"""Whenever a client goes away while its request waits, what is begun is completed: whole, or not at all, and nobody waits.

Every moment is tried: the connection is cut after so many turns of the loop, of which a sync takes some.
"""

from __future__ import annotations

import asyncio
import dataclasses
from contextlib import asynccontextmanager

import pytest
from evidence.world.broker import Client, keys, run, until

from oncelog.broker.broker import Broker
from oncelog.host.host import real_host
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages import alter_share_group_offsets as altering
from oncelog.wire.messages import delete_share_group_offsets as deleting
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.wire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.share.share_world import ACCEPT, Reader, beat, configure, offsets

SYNC_TURNS = 6
TURNS_MAX = 60
TOPICS = ("t", "u")
SETTINGS = {
    "share_coordinator_state_topic_num_partitions": 3,
    "offsets_topic_num_partitions": 2,
    "group_initial_rebalance_delay_ms": 0,
    "add_partitions_to_txn_retry_backoff_max_ms": 120_000,
}


class TurningSyncer:
    """A sync takes some turns of the loop; nobody cuts the power here."""

    async def sync(self, _files):
        for _ in range(SYNC_TURNS):
            await asyncio.sleep(0)

    def close(self):
        pass


class World:
    """A broker, a client that stays, and one for each request that is cut."""

    def __init__(self, broker, client):
        self.broker, self.client = broker, client
        self.topic_ids = {name: broker.metadata.topics[name].topic_id for name in TOPICS}

    async def cut(self, message, turns, version=None):
        leaving = await Client.connect(self.broker)
        leaving.send(message, version)
        await self.go(leaving, turns)

    async def go(self, leaving, turns):
        for _ in range(turns):
            await asyncio.sleep(0)
        leaving.close()
        await until(lambda: len(self.broker.server._connections) == 1)
        await self.settled()

    async def settled(self):
        broker = self.broker
        await until(lambda: not len(broker.server.tasks) and not len(broker.share_groups.share_partitions.changes))
        for partition in broker.partitions:
            await partition.commit(partition.log_end_offset)
        await until(lambda: not len(broker.marker_sender))
        self.judge()

    def judge(self):
        """What two logs keep agrees, and nobody waits."""
        broker, shares = self.broker, self.broker.share_groups.share_partitions
        stored = {key for each in shares.coordinators.loaded() for key in each.machine.by_key}
        begun = {
            ShareKey(group.group_id, topic_id, index)
            for each in broker.groups.loaded()
            for group in each.machine.share_groups.by_id.values()
            for topic_id, indexes in group.begun.items()
            for index in indexes
        }
        assert stored == begun
        assert broker.groups._waiting == {}
        assert len(broker.gate) == 0
        assert sum(len(each.waiters) for each in broker.transactions.loaded()) == 0

    def share_group(self, name):
        for each in self.broker.groups.loaded():
            if name in each.machine.share_groups.by_id:
                return each.machine.share_groups.by_id[name]
        return None

    async def empty_share_group(self, name):
        await configure(self.client, name, auto_offset_reset="earliest")
        assert (await beat(self.client, "m", 0, *TOPICS, group=name)).error_code == 0
        assert (await beat(self.client, "m", -1, group=name)).error_code == 0

    async def reads_again(self, name):
        """Whoever joins is given every record."""
        other = await Client.connect(self.broker)
        assert (await beat(other, "n", 0, *TOPICS, group=name)).error_code == 0
        reader = Reader(other, self.topic_ids["t"], "n", name)
        assert [each[:2] for each in await reader.fetch()] == [(0, 2)]
        other.close()
        await until(lambda: len(self.broker.server._connections) == 1)


@asynccontextmanager
async def world_in(directory, **settings):
    host = real_host()
    syncer, host = host.syncer, dataclasses.replace(host, syncer=TurningSyncer())
    async with Broker(str(directory), keys(SETTINGS | settings), host) as broker:
        client = await Client.connect(broker)
        if "t" not in broker.metadata.topics:
            for name in TOPICS:
                await client.create(name, 2)
            await client.produce("t", "a", "b", "c")
        yield World(broker, client)
        client.close()
    syncer.close()


# share groups


async def delete_group(world, name, turns):
    await world.empty_share_group(name)
    await world.cut(DeleteGroupsRequest(groups_names=[name]), turns)
    await world.reads_again(name)


def delete_offsets_request(name):
    topics = [deleting.DeleteShareGroupOffsetsRequestTopic(topic_name=each) for each in TOPICS]
    return deleting.DeleteShareGroupOffsetsRequest(group_id=name, topics=topics)


async def delete_offsets(world, name, turns):
    await world.empty_share_group(name)
    await world.cut(delete_offsets_request(name), turns)
    assert len(world.share_group(name).begun) in (0, 2)
    await world.reads_again(name)


def alter_offsets_request(name):
    partitions = [
        altering.AlterShareGroupOffsetsRequestPartition(partition_index=index, start_offset=1) for index in range(2)
    ]
    topics = [altering.AlterShareGroupOffsetsRequestTopic(topic_name=each, partitions=partitions) for each in TOPICS]
    return altering.AlterShareGroupOffsetsRequest(group_id=name, topics=topics)


async def alter_offsets(world, name, turns):
    if turns % 2:
        await world.empty_share_group(name)
    await world.cut(alter_offsets_request(name), turns)
    starts = [start for _, start, _ in await offsets(world.client, name)]
    assert starts in ([], [-1] * 4, [1] * 4)
    assert bool(starts) == (world.share_group(name) is not None)


def share_heartbeat(name, member):
    return ShareGroupHeartbeatRequest(
        group_id=name, member_id=member, member_epoch=0, subscribed_topic_names=list(TOPICS)
    )


async def join_share_group(world, name, turns):
    await configure(world.client, name, auto_offset_reset="earliest")
    await world.cut(share_heartbeat(name, "m"), turns)
    group = world.share_group(name)
    assert group is None or (len(group.members), len(group.begun)) == (1, 2)
    await world.reads_again(name)


async def join_refused(world, name, turns):
    await world.cut(share_heartbeat(name, ""), turns)
    assert world.share_group(name) is None


async def _reader(world, name):
    await world.empty_share_group(name)
    client = await Client.connect(world.broker)
    assert (await beat(client, "m", 0, *TOPICS, group=name)).error_code == 0
    reader = Reader(client, world.topic_ids["t"], "m", name)
    assert await reader.fetch() == [(0, 2, 1)]
    return reader


async def fetch_for_the_last_time(world, name, turns):
    reader = await _reader(world, name)
    reader.client.send(reader.request((0, 0, ACCEPT), is_last=True))
    await _others_read(world, name, reader, turns)


async def acknowledge_for_the_last_time(world, name, turns):
    reader = await _reader(world, name)
    batch = AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])
    parts = [AcknowledgePartition(partition_index=0, acknowledgement_batches=[batch])]
    topics = [AcknowledgeTopic(topic_id=reader.topic_id, partitions=parts)]
    reader.client.send(ShareAcknowledgeRequest(group_id=name, member_id="m", share_session_epoch=-1, topics=topics))
    await _others_read(world, name, reader, turns)


async def fetch_that_waits(world, name, turns):
    reader = await _reader(world, name)
    reader.client.send(reader.request(wait_ms=60_000))
    await _others_read(world, name, reader, turns)


async def _others_read(world, name, reader, turns):
    """What the member had is another's at once, and not when its lock is over."""
    await world.go(reader.client, turns)
    other = Reader(world.client, reader.topic_id, "n", name)
    (found,) = await other.fetch()
    assert found in ((0, 2, 2), (1, 2, 2))
    await other.fetch(is_last=True)


# groups


async def join_classic(world, name, turns):
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"m")]
    message = JoinGroupRequest(
        group_id=name,
        session_timeout_ms=300_000,
        rebalance_timeout_ms=300_000,
        member_id="",
        protocol_type="consumer",
        protocols=protocols,
    )
    await world.cut(message, turns, 3)
    groups = [each.machine.groups.get(name) for each in world.broker.groups.loaded()]
    members = [member for group in groups if group is not None for member in group.members.values()]
    assert not any(each.is_awaiting_join for each in members)
    again = await Client.connect(world.broker)
    message.member_id = members[0].member_id if members else ""
    reply = await again.call(message, 3)
    assert reply.error_code == 0
    message = SyncGroupRequest(group_id=name, generation_id=reply.generation_id, member_id=reply.member_id)
    again.send(message, 3)
    await world.go(again, turns)
    await world.cut(LeaveGroupRequest(group_id=name, members=[MemberIdentity(member_id=reply.member_id)]), turns, 4)


async def consumer_heartbeat(world, name, turns):
    message = ConsumerGroupHeartbeatRequest(
        group_id=name,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=list(TOPICS),
        topic_partitions=[],
    )
    await world.cut(message, turns, 1)
    assert (await world.client.call(message, 1)).error_code == 0


def _commit(name):
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(2)]
    topics = [OffsetCommitRequestTopic(name=each, partitions=partitions) for each in TOPICS]
    return OffsetCommitRequest(
        group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=topics, retention_time_ms=-1
    )


def _committed_count(world, name):
    return sum(len(each.machine.offsets.all_partitions(name)) for each in world.broker.groups.loaded())


async def commit_and_delete_offsets(world, name, turns):
    await world.cut(_commit(name), turns, 8)
    assert _committed_count(world, name) in (0, 4)
    assert (await world.client.call(_commit(name), 8)).topics[0].partitions[0].error_code == 0
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in range(2)]
    topics = [OffsetDeleteRequestTopic(name=each, partitions=partitions) for each in TOPICS]
    await world.cut(OffsetDeleteRequest(group_id=name, topics=topics), turns)
    assert _committed_count(world, name) in (0, 4)
    await world.client.call(_commit(name), 8)
    await world.cut(DeleteGroupsRequest(groups_names=[name]), turns)
    assert _committed_count(world, name) in (0, 4)


# transactions


async def init(world, name, turns):
    """First anew, then over an open transaction, whose abort it waits for."""
    message = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    await world.cut(message, turns, 5)
    producer = await world.client.init(name)
    await world.client.produce("u", "x", producer=producer, sequence=0, transactional_id=name)
    await world.cut(message, turns, 5)
    await _goes_on(world, name)


async def end(world, name, turns):
    producer = await world.client.init(name)
    await world.client.produce("u", "x", producer=producer, sequence=0, transactional_id=name)
    message = EndTxnRequest(
        transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=turns % 2 == 0
    )
    await world.cut(message, turns, 5)
    await _goes_on(world, name)


async def offsets_in_a_transaction(world, name, turns):
    producer = await world.client.init(name)
    await world.cut(
        AddOffsetsToTxnRequest(
            transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id=name
        ),
        turns,
        3,
    )
    partitions = [TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1) for index in range(2)]
    message = TxnOffsetCommitRequest(
        transactional_id=name,
        group_id=name,
        producer_id=producer[0],
        producer_epoch=producer[1],
        generation_id=-1,
        member_id="",
        topics=[TxnOffsetCommitRequestTopic(name=each, partitions=partitions) for each in TOPICS],
    )
    await world.cut(message, turns, 5)
    assert (await world.client.call(message, 5)).topics[0].partitions[0].error_code == 0
    assert (await world.client.end(name, producer, commit=True)).error_code == 0
    await world.settled()
    assert _committed_count(world, name) == 4
    await _goes_on(world, name)


async def _goes_on(world, name):
    """The id's next transaction is like any other."""
    producer = await world.client.init(name)
    assert (await world.client.produce("u", "y", producer=producer, sequence=0, transactional_id=name)).error_code == 0
    assert (await world.client.end(name, producer, commit=True)).error_code == 0
    await world.settled()


CASES = [
    delete_group,
    delete_offsets,
    alter_offsets,
    join_share_group,
    join_refused,
    fetch_for_the_last_time,
    acknowledge_for_the_last_time,
    fetch_that_waits,
    join_classic,
    consumer_heartbeat,
    commit_and_delete_offsets,
    init,
    end,
    offsets_in_a_transaction,
]


@pytest.mark.parametrize("journal", ["on", "off"])
@pytest.mark.parametrize("case", CASES, ids=[case.__name__ for case in CASES])
def test_what_is_begun_is_completed(tmp_path, case, journal):
    async def main():
        async with world_in(tmp_path, journal=journal) as world:
            for turns in range(TURNS_MAX):
                await case(world, f"g-{turns}", turns)
        async with world_in(tmp_path, journal=journal) as world:
            await world.settled()

    run(main())


@pytest.mark.parametrize("journal", ["on", "off"])
@pytest.mark.parametrize(
    "change",
    [
        lambda name: DeleteGroupsRequest(groups_names=[name]),
        delete_offsets_request,
        alter_offsets_request,
    ],
    ids=["delete", "delete offsets", "alter offsets"],
)
def test_who_joins_meanwhile_finds_a_whole_group(tmp_path, change, journal):
    """A change of a group without members, and its first member, in every order of their steps."""

    async def main():
        async with world_in(tmp_path, journal=journal) as world:
            changing, joining = world.client, await Client.connect(world.broker)
            for turns in range(-TURNS_MAX, TURNS_MAX, 2):
                name = f"g{turns}"
                await world.empty_share_group(name)
                both = [(changing, change(name)), (joining, share_heartbeat(name, "m"))]
                for client, message in both if turns >= 0 else both[::-1]:
                    client.send(message)
                    for _ in range(abs(turns)):
                        await asyncio.sleep(0)
                _, changed = await changing.receive()
                assert (await joining.receive())[1].error_code == 0
                await world.settled()
                is_moved = change is alter_offsets_request and not changed.error_code
                reader = Reader(joining, world.topic_ids["t"], "m", name)
                assert await reader.fetch() == [(int(is_moved), 2, 1)]
                await reader.fetch(is_last=True)
            joining.close()

    run(main())


def test_a_topic_that_is_made_while_its_first_reader_joins_is_read(tmp_path):
    async def main():
        async with world_in(tmp_path) as world:
            joining = await Client.connect(world.broker)
            for turns in range(TURNS_MAX):
                name, topic = f"g-{turns}", f"made-{turns}"
                request = share_heartbeat(name, "m")
                joining.send(request.replace(subscribed_topic_names=["t", topic]))
                for _ in range(turns):
                    await asyncio.sleep(0)
                await world.client.create(topic, 1)
                _, joined = await joining.receive()
                assert (await beat(joining, "m", joined.member_epoch, group=name)).error_code == 0
                assert len(world.share_group(name).begun) == 2
                await world.settled()
            joining.close()

    run(main())
