"""Bounds on what is remembered, each met over a socket; what is there goes on. And how it is counted."""

from __future__ import annotations

from evidence.world.broker import broker_and_client, run

from oncelog.broker.admission.population import Population
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import encode_request
from oncelog.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, EntryData, OpData
from oncelog.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.create_acls import AclCreation, CreateAclsRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.metrics.limits_world import commit_request, committed, join_request, shows

E = ErrorCode


def test_a_population_is_counted_only_near_its_bound():
    counted: list[int] = []
    there = 0

    def count() -> int:
        counted.append(there)
        return there

    population = Population(count)
    assert all(population.has_room(1, 10, 0.0) for _ in range(10))
    assert counted == [0]
    there = 9  # one of the ten has gone
    assert population.has_room(1, 10, 1.0)
    assert counted == [0, 9]
    there = 10
    assert not population.has_room(1, 10, 1.0), "not counted again so soon"
    assert not population.has_room(1, 10, 2.0)
    assert counted == [0, 9, 10]
    there = 3
    assert population.has_room(7, 10, 4.0)


@shows("oncelog.max.topics", "oncelog.max.partitions")
def test_topics_and_partitions_are_bounded(tmp_path):
    async def work():
        config = {"oncelog_max_topics": 2, "oncelog_max_partitions": 5}
        async with broker_and_client(tmp_path, **config) as (broker, client):
            await client.create("a", 2)

            async def create(name: str, count: int) -> ErrorCode:
                asked = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
                return E((await client.call(CreateTopicsRequest(topics=[asked]))).topics[0].error_code)

            assert await create("b", 4) == E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.partitions") == 1
            assert await create("b", 3) == E.NONE
            assert await create("c", 1) == E.POLICY_VIOLATION
            grown = CreatePartitionsRequest(
                topics=[CreatePartitionsTopic(name="a", count=3, assignments=None)], timeout_ms=5_000
            )
            assert (await client.call(grown)).results[0].error_code == E.POLICY_VIOLATION
            reply = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="automatic")]), 12)
            assert reply.topics[0].error_code != E.NONE
            assert broker.metrics.limit_hits("oncelog.max.topics") == 2
            await client.init("tx")  # the coordinators' own topic is made all the same
            for name in (
                "__consumer_offsets",
                "__share_group_state",
            ):  # of another size than the broker's it is anybody's
                assert await create(name, 9_000) == E.POLICY_VIOLATION
            assert await create("__consumer_offsets", -1) == E.NONE

    run(work())


@shows("oncelog.max.transactional.ids")
def test_transactional_ids_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_transactional_ids=2) as (broker, client):
            await client.init("a")
            await client.init("b")
            third = InitProducerIdRequest(transactional_id="c", transaction_timeout_ms=60_000)
            assert (await client.call(third)).error_code == E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.transactional.ids") == 1
            await client.init("a")
            await client.init(None)

    run(work())


@shows("oncelog.max.producer.ids.per.partition")
def test_producer_ids_of_a_partition_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_producer_ids_per_partition=1) as (broker, client):
            await client.create("t")
            first, second = await client.init(), await client.init()
            assert (await client.produce("t", "a", producer=first, sequence=0)).error_code == E.NONE
            assert (await client.produce("t", "a", producer=second, sequence=0)).error_code == E.POLICY_VIOLATION
            assert (await client.produce("t", "b", producer=first, sequence=1)).error_code == E.NONE
            assert broker.metrics.limit_hits("oncelog.max.producer.ids.per.partition") == 1

    run(work())


@shows("oncelog.max.groups")
def test_groups_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_groups=2) as (broker, client):
            await client.create("t")
            assert (await client.call(join_request("a"), 3)).error_code == E.NONE
            assert await committed(client, commit_request("b")) == E.NONE
            assert (await client.call(join_request("c"), 3)).error_code == E.GROUP_MAX_SIZE_REACHED
            assert await committed(client, commit_request("d")) == E.GROUP_MAX_SIZE_REACHED
            assert await committed(client, commit_request("b")) == E.NONE
            assert broker.metrics.limit_hits("oncelog.max.groups") == 2

    run(work())


@shows("oncelog.max.group.members")
def test_members_of_all_groups_are_bounded_and_so_are_ids_that_nobody_uses(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_group_members=2) as (broker, client):
            given = await client.call(join_request("a"), 4)
            assert given.error_code == E.MEMBER_ID_REQUIRED
            assert (await client.call(join_request("b"), 3)).error_code == E.NONE
            assert (await client.call(join_request("c"), 4)).error_code == E.GROUP_MAX_SIZE_REACHED
            joining = heartbeat_request("d")
            assert (await client.call(joining, 1)).error_code == E.GROUP_MAX_SIZE_REACHED
            back = join_request("a", member_id=given.member_id)
            assert (await client.call(back, 4)).error_code == E.NONE, "who has an id is no new member"
            assert broker.metrics.limit_hits("oncelog.max.group.members") == 2

    run(work())


def heartbeat_request(group_id: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=["t"],
        topic_partitions=[],
    )


def test_a_member_of_a_full_house_may_join_again(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_group_members=1) as (_, client):
            for _ in range(3):
                assert (await client.call(heartbeat_request("g"), 1)).error_code == E.NONE
            static = join_request("h", group_instance_id="i")
            assert (await client.call(static, 5)).error_code == E.GROUP_MAX_SIZE_REACHED

    run(work())


@shows("oncelog.max.committed.offsets")
def test_offsets_are_bounded_and_those_that_are_there_go_on(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_committed_offsets=2) as (broker, client):
            await client.create("t")
            for group_id in ("a", "b", "a", "b", "a"):
                assert await committed(client, commit_request(group_id)) == E.NONE
            assert await committed(client, commit_request("c")) == E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.committed.offsets") == 1
            producer = await client.init("tx")
            partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
            request = TxnOffsetCommitRequest(
                transactional_id="tx",
                group_id="c",
                producer_id=producer[0],
                producer_epoch=producer[1],
                topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
            )
            reply = await client.call(request, 5)
            assert reply.topics[0].partitions[0].error_code == E.POLICY_VIOLATION

    run(work())


@shows("oncelog.max.fetch.session.partitions")
def test_partitions_of_fetch_sessions_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_fetch_session_partitions=3) as (broker, client):

            def fetch(session_id: int, session_epoch: int, *names: str) -> FetchRequest:
                topics = [FetchTopic(topic=name, partitions=[FetchPartition(partition=0)]) for name in names]
                return FetchRequest(
                    max_wait_ms=0, max_bytes=100, session_id=session_id, session_epoch=session_epoch, topics=topics
                )

            first = await client.call(fetch(0, 0, "a", "b"), 12)
            assert first.session_id != 0
            grown = await client.call(fetch(first.session_id, 1, "c", "d"), 12)
            assert grown.error_code == E.FETCH_SESSION_ID_NOT_FOUND
            assert (await client.call(fetch(0, 0, "a", "b", "c", "d"), 12)).session_id == 0
            assert broker.metrics.limit_hits("oncelog.max.fetch.session.partitions") == 2
            assert (await client.call(fetch(0, 0, "a", "b", "c"), 12)).session_id != 0
            assert broker.fetch_sessions.partition_count == 3

    run(work())


@shows("oncelog.max.acls")
def test_access_rules_are_bounded(tmp_path):
    async def work():
        config = {"authorizer_class_name": STANDARD_AUTHORIZER, "allow_everyone_if_no_acl_found": True}
        async with broker_and_client(tmp_path, oncelog_max_acls=2, **config) as (broker, client):
            rules = [
                AclCreation(
                    resource_type=2, resource_name=name, principal="User:x", host="*", operation=3, permission_type=3
                )
                for name in "aabcd"
            ]
            reply = await client.call(CreateAclsRequest(creations=rules))
            assert [each.error_code for each in reply.results] == [0, 0, 0, E.POLICY_VIOLATION, E.POLICY_VIOLATION]
            assert "oncelog.max.acls" in reply.results[3].error_message
            assert len(broker.metadata.acls) == 2
            assert broker.metrics.limit_hits("oncelog.max.acls") == 2

    run(work())


@shows("oncelog.max.scram.credentials")
def test_credentials_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_scram_credentials=1) as (broker, client):

            async def alter(deleted: str, *names: str, salt: bytes = b"s") -> list[int]:
                request = AlterUserScramCredentialsRequest(
                    deletions=[ScramCredentialDeletion(name=name, mechanism=1) for name in deleted],
                    upsertions=[
                        ScramCredentialUpsertion(
                            name=name, mechanism=1, iterations=4096, salt=salt, salted_password=b"p"
                        )
                        for name in names
                    ],
                )
                return [each.error_code for each in (await client.call(request)).results]

            assert await alter("", "a", "b") == [0, E.POLICY_VIOLATION]
            assert await alter("", "a") == [0], "one that is there is changed"
            assert await alter("a", "b") == [0, 0]
            assert await alter("", "b", salt=bytes(2000)) == [E.UNACCEPTABLE_CREDENTIAL]
            assert broker.metrics.limit_hits("oncelog.max.scram.credentials") == 1

    run(work())


@shows("oncelog.max.client.quotas", "oncelog.max.clients.under.quota")
def test_quotas_and_whom_they_hold_for_are_bounded(tmp_path):
    async def work():
        config = {"oncelog_max_client_quotas": 1, "oncelog_max_clients_under_quota": 1}
        async with broker_and_client(tmp_path, **config) as (broker, client):

            async def alter(*names: str | None, remove: bool = False) -> list[int]:
                op = OpData(key="producer_byte_rate", value=1e9, remove=remove)
                entries = [
                    EntryData(entity=[EntityData(entity_type="client-id", entity_name=name)], ops=[op])
                    for name in names
                ]
                return [
                    each.error_code for each in (await client.call(AlterClientQuotasRequest(entries=entries))).entries
                ]

            assert await alter("a", "b", "a") == [0, E.POLICY_VIOLATION, 0]
            assert broker.metrics.limit_hits("oncelog.max.client.quotas") == 1
            assert await alter("a", remove=True) == [0]
            assert await alter(None) == [0]
            await client.create("t")
            for client_id in ("x", "y"):
                request = client.produce_request("t", "v")
                client.send_bytes(b"".join(encode_request(ApiKey.PRODUCE, 9, 77, client_id, request)))
                await client.frame()
            assert broker.metrics.limit_hits("oncelog.max.clients.under.quota") == 1

    run(work())


@shows("oncelog.max.config.resources")
def test_groups_with_configs_of_their_own_are_bounded(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, oncelog_max_config_resources=1) as (broker, client):

            async def alter(kind: int, resource: str, name: str, value: str) -> ErrorCode:
                changed = AlterConfigsResource(
                    resource_type=kind,
                    resource_name=resource,
                    configs=[AlterableConfig(name=name, config_operation=0, value=value)],
                )
                reply = await client.call(IncrementalAlterConfigsRequest(resources=[changed]))
                return E(reply.responses[0].error_code)

            group, metrics = 32, 16
            assert await alter(group, "a", "consumer.heartbeat.interval.ms", "6000") is E.NONE
            assert await alter(group, "a", "consumer.heartbeat.interval.ms", "7000") is E.NONE
            assert await alter(group, "b", "consumer.heartbeat.interval.ms", "6000") is E.POLICY_VIOLATION
            assert await alter(metrics, "m", "interval.ms", "6000") is E.POLICY_VIOLATION
            assert broker.metrics.limit_hits("oncelog.max.config.resources") == 2

    run(work())


def test_a_list_does_not_grow_beyond_what_can_be_described(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):

            async def append(value: str) -> ErrorCode:
                name = "leader.replication.throttled.replicas"
                changed = AlterConfigsResource(
                    resource_type=2,
                    resource_name="t",
                    configs=[AlterableConfig(name=name, config_operation=2, value=value)],
                )
                reply = await client.call(IncrementalAlterConfigsRequest(resources=[changed]))
                return E(reply.responses[0].error_code)

            await client.create("t")
            first, second = (",".join(f"{index}:1" for index in range(at, at + 4000)) for at in (0, 4000))
            assert await append(first) is E.NONE
            assert await append(second) is E.INVALID_CONFIG, "as Apache Kafka answers"
            assert await append("9000:1") is E.NONE

    run(work())
