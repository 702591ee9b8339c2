"""Groups over the wire: members, offsets, offsets within transactions."""

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, eventually, run, until

from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.leave_group import LeaveGroupRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
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
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.coordinators.test_transactions import is_complete
from tests.broker.metadata.test_topics import HeldSyncer

E = ErrorCode


def join_request(member_id="", session_timeout_ms=30_000):
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"m")],
    )


async def join(client):
    required = await client.call(join_request(), 5)
    assert required.error_code == E.MEMBER_ID_REQUIRED
    return await client.call(join_request(required.member_id), 5)


def commit_request(offset, topic="t", partition=0, generation=-1, member=""):
    position = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="m")
    return OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation,
        member_id=member,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[position])],
    )


async def committed(client, *, require_stable=False, version=7):
    asked = OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[0])],
        require_stable=require_stable,
    )
    reply = await client.call(asked, version)
    part = reply.topics[0].partitions[0]
    return part.committed_offset if part.error_code == E.NONE else E(part.error_code)


def test_two_members_share_a_group(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, group_initial_rebalance_delay_ms=0) as (broker, client):
            leader = await join(client)
            assert (leader.error_code, leader.leader) == (E.NONE, leader.member_id)
            other = await Client.connect(broker)
            required = await other.call(join_request(), 5)
            other.send(join_request(required.member_id), 5)  # waits until the leader joins again
            await eventually(lambda: is_rebalancing(client, leader))
            again = await client.call(join_request(leader.member_id), 5)
            _, second = await other.receive()
            assert again.generation_id == second.generation_id == leader.generation_id + 1
            assert {each.member_id for each in again.members} == {leader.member_id, required.member_id}
            other.send(SyncGroupRequest(group_id="g", generation_id=2, member_id=required.member_id), 3)
            assignments = [
                SyncGroupRequestAssignment(member_id=each, assignment=each.encode())
                for each in (leader.member_id, required.member_id)
            ]
            mine = await client.call(
                SyncGroupRequest(group_id="g", generation_id=2, member_id=leader.member_id, assignments=assignments),
                3,
            )
            _, theirs = await other.receive()
            assert (bytes(mine.assignment), bytes(theirs.assignment)) == (
                leader.member_id.encode(),
                required.member_id.encode(),
            )
            described = await client.call(DescribeGroupsRequest(groups=["g", "none"]), 5)
            assert [each.group_state for each in described.groups] == ["Stable", "Dead"]
            listed = await client.call(ListGroupsRequest())
            assert [each.group_id for each in listed.groups] == ["g"]
            left = await client.call(LeaveGroupRequest(group_id="g", member_id=required.member_id), 1)
            assert left.error_code == E.NONE
            other.close()

    async def is_rebalancing(client, member):
        beat = HeartbeatRequest(group_id="g", generation_id=member.generation_id, member_id=member.member_id)
        return (await client.call(beat, 3)).error_code == E.REBALANCE_IN_PROGRESS

    run(work())


def test_offsets_survive_a_restart_and_can_be_deleted(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            reply = await client.call(commit_request(7), 8)
            assert reply.topics[0].partitions[0].error_code == E.NONE
            reply = await client.call(commit_request(7, topic="nosuch"), 8)
            assert reply.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            reply = await client.call(commit_request(7, partition=5), 8)
            assert reply.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
        async with broker_and_client(tmp_path) as (_, client):
            assert await committed(client) == 7
            gone = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
            reply = await client.call(OffsetDeleteRequest(group_id="g", topics=[gone]))
            assert reply.topics[0].partitions[0].error_code == E.NONE
            assert await committed(client) == -1
            await client.call(commit_request(8), 8)
            deleted = await client.call(DeleteGroupsRequest(groups_names=["g", "none"]))
            assert [each.error_code for each in deleted.results] == [E.NONE, E.GROUP_ID_NOT_FOUND]
            assert await committed(client) == -1

    run(work())


def test_topics_by_id_in_the_newest_versions(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            topic_id = broker.metadata.topics["t"].topic_id
            request = commit_request(9)
            request.topics[0].topic_id = topic_id
            unknown = OffsetCommitRequestTopic(topic_id=bytes(15) + b"x", partitions=request.topics[0].partitions)
            request.topics.append(unknown)
            reply = await client.call(request, 10)
            assert [each.partitions[0].error_code for each in reply.topics] == [E.NONE, E.UNKNOWN_TOPIC_ID]
            asked = [OffsetFetchRequestTopics(topic_id=each.topic_id, partition_indexes=[0]) for each in request.topics]
            reply = await client.call(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=asked)]))
            found = {each.topic_id: each.partitions[0] for each in reply.groups[0].topics}
            assert found[topic_id].committed_offset == 9
            assert found[unknown.topic_id].error_code == E.UNKNOWN_TOPIC_ID
            everything = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
            reply = await client.call(everything)
            assert [each.topic_id for each in reply.groups[0].topics] == [topic_id]

    run(work())


def txn_request(producer, offset, partition=0):
    position = TxnOffsetCommitRequestPartition(partition_index=partition, committed_offset=offset)
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[position])],
    )


def test_offsets_of_a_transaction_become_visible_with_it(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x")
            for offset, commit in ((3, True), (4, False), (5, True)):
                before = await committed(client)
                reply = await client.call(txn_request(producer, offset), 5)
                assert reply.topics[0].partitions[0].error_code == E.NONE
                assert await committed(client) == before
                assert await committed(client, require_stable=True) == E.UNSTABLE_OFFSET_COMMIT
                ended = await client.end("x", producer, commit=commit)
                producer = ended.producer_id, ended.producer_epoch
                await eventually(lambda: is_complete(client, "x"))
                assert await committed(client, require_stable=True) == (offset if commit else before)

    run(work())


def test_offsets_of_a_topic_that_is_made_again_while_they_are_verified_are_not_the_new_ones(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.create("other")
            producer, gate, second = await client.init("x"), broker.node.gate, await Client.connect(broker)
            ask = gate.ask

            async def ask_while_it_is_made_again(*asked):
                refused = await ask(*asked)
                await second.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
                await second.create("t")
                return refused

            gate.ask = ask_while_it_is_made_again
            request = txn_request(producer, 3)
            request.topics.append(request.topics[0].replace(name="other"))
            reply = await client.call(request, 5)
            assert [each.partitions[0].error_code for each in reply.topics] == [E.UNKNOWN_TOPIC_OR_PARTITION, E.NONE]
            await client.end("x", producer, commit=True)
            await eventually(lambda: is_complete(client, "x"))
            assert await committed(client) == -1
            second.close()

    run(work())


@pytest.mark.parametrize("version", [9, 10])
@pytest.mark.parametrize("is_made_again", [False, True])
@pytest.mark.parametrize("has_other", [False, True])
def test_positions_of_a_topic_that_is_deleted_while_their_own_topic_is_made_are_not_stored(
    tmp_path, version, is_made_again, has_other
):
    """The first commit waits for `__consumer_offsets`; what was known before that may be gone."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            for name in ("t", "other"):
                await client.create(name)
            request = commit_request(3)
            if has_other:
                request.topics.append(request.topics[0].replace(name="other"))
            for topic in request.topics:
                topic.topic_id = broker.metadata.topics[topic.name].topic_id
            second, third = await Client.connect(broker), await Client.connect(broker)
            before = broker.store._syncer
            broker.store._syncer = syncer = HeldSyncer(before)
            second.send(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
            await syncer.held.wait()
            if is_made_again:
                topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
                third.send(CreateTopicsRequest(topics=[topic]))
                await until(lambda: len(broker.server.tasks) == 2)
            client.send(request, version)
            await until(lambda: len(broker.server.tasks) == 2 + is_made_again)
            assert "__consumer_offsets" not in broker.metadata.topics
            broker.store._syncer = before
            syncer.opened.set()
            _, reply = await client.receive()
            unknown = E.UNKNOWN_TOPIC_ID if version == 10 else E.UNKNOWN_TOPIC_OR_PARTITION
            assert [each.partitions[0].error_code for each in reply.topics] == [unknown] + [E.NONE] * has_other
            assert await committed(client) == -1
            second.close()
            third.close()

    run(work())


def test_the_old_protocol_adds_the_group_first(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x", version=4)
            reply = await client.call(txn_request(producer, 3), 3)
            assert reply.topics[0].partitions[0].error_code == E.INVALID_TXN_STATE
            added = AddOffsetsToTxnRequest(
                transactional_id="x", producer_id=producer[0], producer_epoch=producer[1], group_id="g"
            )
            assert (await client.call(added, 3)).error_code == E.NONE
            reply = await client.call(txn_request(producer, 3), 3)
            assert reply.topics[0].partitions[0].error_code == E.NONE
            reply = await client.call(txn_request(producer, 3, partition=9), 3)
            assert reply.topics[0].partitions[0].error_code == E.UNKNOWN_TOPIC_OR_PARTITION
            await client.end("x", producer, commit=True, version=3)
            await eventually(lambda: is_complete(client, "x"))
            assert await committed(client) == 3

    run(work())


def test_pending_offsets_survive_a_restart(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            producer = await client.init("x")
            await client.call(txn_request(producer, 6), 5)
        async with broker_and_client(tmp_path) as (_, client):
            assert await committed(client, require_stable=True) == E.UNSTABLE_OFFSET_COMMIT
            await client.end("x", producer, commit=True)
            await eventually(lambda: is_complete(client, "x"))
            assert await committed(client, require_stable=True) == 6

    run(work())


def test_offsets_of_a_deleted_topic_go_with_it(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t")
            await client.call(commit_request(7), 8)
            await client.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=5_000))
            await client.create("t")
            assert await committed(client) == -1

    run(work())


def test_the_coordinator_is_this_broker_and_its_topic_is_made_with_the_first_question(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, offsets_topic_num_partitions=7) as (broker, client):
            assert "__consumer_offsets" not in broker.metadata.topics
            reply = await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["a", "b"]))
            assert [(each.key, each.node_id, each.error_code) for each in reply.coordinators] == [
                ("a", 1, E.NONE),
                ("b", 1, E.NONE),
            ]
            assert broker.metadata.topics["__consumer_offsets"].partition_count == 7
            assert len(broker.partitions) == 0, "idle partitions cost nothing"
            old = await client.call(FindCoordinatorRequest(key="a"), 0)
            assert (old.node_id, old.port) == (1, broker.addresses[0].port)
            share = await client.call(FindCoordinatorRequest(key_type=2, coordinator_keys=["a"]))
            assert (share.coordinators[0].error_code, share.coordinators[0].node_id) == (E.INVALID_REQUEST, -1)

    run(work())


def test_a_member_whose_connection_is_lost_while_it_joins_is_forgotten(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, group_initial_rebalance_delay_ms=60_000) as (broker, client):
            joining = await Client.connect(broker)
            joining.send(join_request(), 3)  # old versions get their id with the first answer only
            await eventually(lambda: has_members(broker, 1))
            joining.close()
            await eventually(lambda: has_members(broker, 0))
            assert (await client.call(ListGroupsRequest())).error_code == E.NONE

    async def has_members(broker, count):
        await asyncio.sleep(0)
        holders = list(broker.groups.loaded())
        return bool(holders) and sum(len(g.members) for h in holders for g in h.machine.groups.values()) == count

    run(work())
