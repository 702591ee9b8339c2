"""Streams groups (KIP-1071) over the wire: internal topics, restart, transactions, rights, configs, the feature."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, run

from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.groups.streams.topology import StatusCode
from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from oncelog.wire.messages.streams_group_heartbeat import (
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TopicInfo,
    Topology,
)
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

E = ErrorCode
AT_ONCE = {"group_streams_initial_rebalance_delay_ms": 0, "group_streams_assignment_interval_ms": 0}


def counting(**changelog):
    """A store of what topic `t` says."""
    info = TopicInfo(name="counts", topic_configs=[KeyValue(key="cleanup.policy", value="compact")], **changelog)
    return Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=["t"], state_changelog_topics=[info])])


async def beat(client, member_id, member_epoch, **fields):
    if member_epoch == 0:
        none = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        fields = none | {"topology": counting(), "rebalance_timeout_ms": 5000, "process_id": "p"} | fields
    request = StreamsGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=member_epoch, **fields)
    return await client.call(request, 0)


async def described(client):
    return (await client.call(StreamsGroupDescribeRequest(group_ids=["g"]), 0)).groups[0]


def held(reply):
    return [index for each in reply.active_tasks for index in each.partitions]


def statuses(reply):
    return [(StatusCode(each.status_code), each.status_detail) for each in reply.status]


def test_internal_topics_are_there_when_the_member_hears_of_them_and_all_survives_a_restart(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (broker, client):
            await client.create("t", 3)
            first = await beat(client, "m", 0)
            assert statuses(first) == [(StatusCode.MISSING_INTERNAL_TOPICS, "Internal topics are missing: counts")]
            assert broker.metadata.topics["counts"].partition_count == 3
            wanted = DescribeConfigsResource(
                resource_type=2, resource_name="counts", configuration_keys=["cleanup.policy"]
            )
            configs = await client.call(DescribeConfigsRequest(resources=[wanted]), 4)
            assert configs.results[0].configs[0].value == "compact"
            reply = await beat(client, "m", first.member_epoch)
            assert (reply.member_epoch, held(reply), reply.status) == (3, [0, 1, 2], [])
            before = await described(client)
            assert (before.group_state, before.members[0].client_host) == ("Stable", "/127.0.0.1")
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            after = await described(client)
            assert (after.members, after.group_epoch, after.group_state) == (before.members, 3, "Stable")
            assert (await beat(client, "m", 3)).error_code == E.NONE
            listed = (await client.call(ListGroupsRequest(types_filter=["streams"]), 5)).groups
            assert [(each.group_id, each.group_state) for each in listed] == [("g", "Stable")]

    run(main())


def test_an_answer_waits_for_what_it_rests_on(tmp_path):
    """A retry must not tell tasks that a crash could still take back."""

    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (broker, client):
            await client.create("t", 1)
            await beat(client, "a", 0)
            holder = await broker.groups.coordinator_of("g")
            partition = holder.partition
            committed, held_back = partition.committed, []
            partition.committed = held_back.append  # type: ignore[method-assign]
            other = await Client.connect(broker)
            first = asyncio.ensure_future(beat(client, "b", 0))
            await asyncio.sleep(0.05)
            assert holder.machine.streams_groups.is_ahead
            second = asyncio.ensure_future(beat(other, "a", 0))
            await asyncio.sleep(0.05)
            assert not first.done()
            assert not second.done()
            partition.committed = committed  # type: ignore[method-assign]
            partition.committed(partition.log_end_offset)
            assert ((await first).error_code, (await second).error_code) == (E.NONE, E.NONE)
            other.close()

    run(main())


def test_topics_that_change_reach_the_group(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            assert statuses(await beat(client, "m", 0))[0][0] is StatusCode.MISSING_SOURCE_TOPICS
            await client.create("t", 1)
            await beat(client, "m", 2)
            assert held(await beat(client, "m", 3)) == [0]
            more = CreatePartitionsTopic(name="t", count=2, assignments=None)
            await client.call(CreatePartitionsRequest(topics=[more], timeout_ms=5000), 3)
            told = statuses(await beat(client, "m", 4))
            assert told == [
                (
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    "Existing topic counts has different number of partitions: expected 2, found 1",
                )
            ]
            gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="counts")], timeout_ms=5000)
            await client.call(gone, 6)
            assert statuses(await beat(client, "m", 4))[0][0] is StatusCode.MISSING_INTERNAL_TOPICS
            reply = await beat(client, "m", 0)
            assert held(reply) == [1], "what it had to give back is free once that is in the log"
            assert held(await beat(client, "m", reply.member_epoch)) == [0, 1]

    run(main())


def test_what_hinders_a_topic_is_told(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            ((_, detail),) = statuses(await beat(client, "m", 0, topology=counting(replication_factor=3)))
            assert detail.startswith("Internal topics are missing: counts; Creation failed: counts (")

    run(main())


def test_names_that_cannot_be_are_refused(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            for name, says in (
                ("__consumer_offsets", "Use of Kafka internal topics __consumer_offsets in a Kafka Streams topology"),
                ("a/b", "Topic names a/b are not valid topic names."),
            ):
                topology = Topology(subtopologies=[Subtopology(subtopology_id="0", source_topics=[name])])
                reply = await beat(client, "m", 0, topology=topology)
                assert reply.error_code == E.STREAMS_INVALID_TOPOLOGY
                assert reply.error_message.startswith(says)

    run(main())


async def committed(client, producer, member_epoch):
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = TxnOffsetCommitRequest(
        transactional_id="tid",
        group_id="g",
        producer_id=producer[0],
        producer_epoch=producer[1],
        member_id="m",
        generation_id=member_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
    )
    return (await client.call(request, 3)).topics[0].partitions[0].error_code


def test_offsets_in_a_transaction_are_fenced_by_the_member_epoch(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            await beat(client, "m", 0)
            member_epoch = (await beat(client, "m", 2)).member_epoch
            producer = await client.init("tid")
            add = AddOffsetsToTxnRequest(
                transactional_id="tid", producer_id=producer[0], producer_epoch=producer[1], group_id="g"
            )
            assert (await client.call(add, 3)).error_code == E.NONE
            assert await committed(client, producer, member_epoch + 1) == E.ILLEGAL_GENERATION
            assert await committed(client, producer, member_epoch) == E.NONE
            await client.end("tid", producer, commit=True)
            topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
            asked = OffsetFetchRequestGroup(group_id="g", member_id="m", member_epoch=member_epoch, topics=topics)
            found = await client.call(OffsetFetchRequest(groups=[asked], require_stable=True), 9)
            assert found.groups[0].topics[0].partitions[0].committed_offset == 1

    run(main())


DENY, ALLOW, READ, CREATE, ALTER, DESCRIBE = 2, 3, 3, 5, 7, 8
TOPIC, GROUP, CLUSTER = 2, 3, 4


async def add_rules(client, *rules):
    made = [
        AclCreation(
            resource_type=kind,
            resource_name=name,
            principal="User:ANONYMOUS",
            host="*",
            operation=operation,
            permission_type=permission,
        )
        for kind, name, operation, permission in rules
    ]
    reply = await client.call(CreateAclsRequest(creations=made))
    assert [each.error_code for each in reply.results] == [E.NONE] * len(rules)


def test_rights(tmp_path):
    config = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}

    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE, **config) as (broker, client):
            await client.create("t", 1)
            await add_rules(
                client,
                (CLUSTER, "kafka-cluster", ALTER, ALLOW),
                (CLUSTER, "kafka-cluster", CREATE, DENY),
                (TOPIC, "counts", DESCRIBE, ALLOW),
            )
            ((_, detail),) = statuses(await beat(client, "m", 0))
            assert detail == "Internal topics are missing: counts; Unauthorized to CREATE on topics counts."
            assert "counts" not in broker.metadata.topics
            assert (await described(client)).error_code == E.NONE
            await add_rules(client, (TOPIC, "counts", DESCRIBE, DENY))
            assert (await beat(client, "n", 0)).error_code == E.TOPIC_AUTHORIZATION_FAILED
            hidden = await described(client)
            assert (hidden.error_code, hidden.members, hidden.topology) == (E.TOPIC_AUTHORIZATION_FAILED, [], None)
            await add_rules(client, (GROUP, "g", READ, DENY), (GROUP, "g", DESCRIBE, DENY))
            assert (await beat(client, "m", 2)).error_code == E.GROUP_AUTHORIZATION_FAILED
            assert (await described(client)).error_code == E.GROUP_AUTHORIZATION_FAILED

    run(main())


def test_a_group_may_have_times_and_standbys_of_its_own(tmp_path):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)

            async def alter(name, value):
                config = AlterableConfig(name=name, config_operation=0, value=value)
                resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[config])
                reply = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
                return reply.responses[0].error_code

            assert await alter("streams.heartbeat.interval.ms", "7000") == E.NONE
            assert await alter("streams.num.standby.replicas", "3") == E.INVALID_CONFIG
            assert await alter("streams.num.standby.replicas", "1") == E.NONE
            await beat(client, "m", 0)
            reply = await beat(client, "m", 2)
            assert (reply.heartbeat_interval_ms, held(reply)) == (7000, [0])
            other = await beat(client, "n", 0, process_id="q")
            assert [each.partitions for each in other.standby_tasks] == [[0]]

    run(main())


@pytest.mark.parametrize("level", [0, 1])
def test_without_the_feature_there_are_no_streams_groups(tmp_path, level):
    async def main():
        async with broker_and_client(tmp_path, **AT_ONCE) as (_, client):
            await client.create("t", 1)
            update = FeatureUpdateKey(feature="streams.version", max_version_level=level, upgrade_type=3 - 2 * level)
            await client.call(UpdateFeaturesRequest(feature_updates=[update], timeout_ms=5000), 1)
            code = E.NONE if level else E.UNSUPPORTED_VERSION
            assert (await beat(client, "m", 0)).error_code == code
            assert (await described(client)).error_code == code

    run(main())
