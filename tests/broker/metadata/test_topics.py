"""Topics, partitions, configs and features over the wire."""

import asyncio

import pytest
from evidence.world.broker import Client, broker_and_client, run, until

from oncelog.core.metadata.features import SUPPORTED
from oncelog.errors import ErrorCode, StorageError
from oncelog.wire.messages.alter_configs import AlterableConfig as WholeConfig
from oncelog.wire.messages.alter_configs import AlterConfigsRequest
from oncelog.wire.messages.alter_configs import AlterConfigsResource as WholeResource
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest
from oncelog.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from oncelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from oncelog.wire.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.list_config_resources import ListConfigResourcesRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

E = ErrorCode
TOPIC, BROKER = 2, 4


def delete_request(names):
    return DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in names], topic_names=names, timeout_ms=5_000
    )


def test_many_topics_are_deleted_with_one_sync_whatever_becomes_of_one(tmp_path, monkeypatch, caplog):
    """Each synced the directory's names and all checkpoints for itself: 400 took half a minute, and their client gave up."""
    names = [f"t{n}" for n in range(5)]

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            for name in names:
                await client.create(name)
                await client.produce(name, "x")
            partitions, files = broker.partitions, broker.partitions._files.files
            checkpoint, rename, written = partitions.checkpoint, files.rename, []
            monkeypatch.setattr(partitions, "checkpoint", lambda: (written.append(1), checkpoint()))

            def failing(path, target):
                if path.endswith("/t1-0"):
                    raise StorageError("no")
                rename(path, target)

            monkeypatch.setattr(files, "rename", failing)
            reply = await client.call(delete_request(names))
            assert [each.error_code for each in reply.responses] == [E.NONE] * 5
            assert len(written) == 1
            assert not [each for each in partitions if each.name.topic in names]
            assert [each.name for each in tmp_path.iterdir() if each.name.endswith("-0") and each.name[0] == "t"] == [
                "t1-0"
            ]

    run(work())
    assert "deleted is t0, t1, t2, t3, t4, but files of it may stay until the next start: no" in caplog.text


def test_many_topics_are_one_change_and_see_one_another(tmp_path):
    """They are decided before any of them is stored: collisions and limits count all the same."""

    async def work():
        async with broker_and_client(tmp_path, oncelog_max_topics=5, oncelog_max_partitions=7) as (broker, client):
            names = [("a.b", 1), ("c", 3), ("a_b", 1), ("d", 4), ("e", 1), ("f", 1), ("g", 1), ("h", 1)]
            asked = [CreatableTopic(name=name, num_partitions=n, replication_factor=1) for name, n in names]
            before = broker.store.end_offset
            reply = await client.call(CreateTopicsRequest(topics=asked))
            assert [(each.name, each.error_code) for each in reply.topics] == [
                ("a.b", E.NONE),
                ("c", E.NONE),
                ("a_b", E.INVALID_TOPIC_EXCEPTION),
                ("d", E.POLICY_VIOLATION),  # 1 + 3 + 4 partitions
                ("e", E.NONE),
                ("f", E.NONE),
                ("g", E.NONE),
                ("h", E.POLICY_VIOLATION),
            ]
            assert sorted(broker.metadata.topics) == ["a.b", "c", "e", "f", "g"]
            assert broker.store.end_offset - before == 5

    run(work())


def test_every_result_of_create_topics_is_its_own(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            asked = [
                CreatableTopic(name="good", num_partitions=3, replication_factor=1),
                CreatableTopic(name="twice", num_partitions=1, replication_factor=1),
                CreatableTopic(name="twice", num_partitions=1, replication_factor=1),
                CreatableTopic(name="bad name", num_partitions=1, replication_factor=1),
                CreatableTopic(name="copies", num_partitions=1, replication_factor=3),
                CreatableTopic(
                    name="configured",
                    num_partitions=-1,
                    replication_factor=-1,
                    configs=[CreatableTopicConfig(name="no.such", value="1")],
                ),
            ]
            reply = await client.call(CreateTopicsRequest(topics=asked))
            assert {each.name: each.error_code for each in reply.topics} == {
                "good": E.NONE,
                "twice": E.INVALID_REQUEST,
                "bad name": E.INVALID_TOPIC_EXCEPTION,
                "copies": E.INVALID_REPLICATION_FACTOR,
                "configured": E.INVALID_CONFIG,
            }
            assert list(broker.metadata.topics) == ["good"]
            again = await client.call(CreateTopicsRequest(topics=asked[:1]), 2)
            assert again.topics[0].error_code == E.TOPIC_ALREADY_EXISTS
            checked = CreateTopicsRequest(
                topics=[CreatableTopic(name="dry", num_partitions=1, replication_factor=1)], validate_only=True
            )
            assert (await client.call(checked)).topics[0].error_code == E.NONE
            assert "dry" not in broker.metadata.topics

    run(work())


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(tmp_path, version):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.create("t", 2)
            everything = await client.call(MetadataRequest(topics=None if version else []), version)
            assert [(each.name, len(each.partitions)) for each in everything.topics] == [("t", 2)]
            asked = MetadataRequest(topics=[MetadataRequestTopic(name="t"), MetadataRequestTopic(name="made")])
            named = await client.call(asked, version)
            assert [(each.name, each.error_code) for each in named.topics] == [("t", E.NONE), ("made", E.NONE)]

    run(work())


def test_metadata_does_not_create_what_it_may_not(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, auto_create_topics_enable=False) as (broker, client):
            asked = [
                MetadataRequestTopic(name="missing"),
                MetadataRequestTopic(name=""),
                MetadataRequestTopic(name=".."),
            ]
            reply = await client.call(MetadataRequest(topics=asked))
            assert [each.error_code for each in reply.topics] == [
                E.UNKNOWN_TOPIC_OR_PARTITION,
                E.INVALID_TOPIC_EXCEPTION,
                E.INVALID_TOPIC_EXCEPTION,
            ]
            by_id = [MetadataRequestTopic(name=None, topic_id=b"i" * 16)]
            reply = await client.call(MetadataRequest(topics=by_id))
            assert reply.topics[0].error_code == E.UNKNOWN_TOPIC_ID
            assert broker.metadata.topics == {}

    run(work())


def test_a_recreated_topic_is_another_one(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "old")
            old_id = broker.metadata.topics["t"].topic_id
            states = [
                DeleteTopicState(name=None, topic_id=old_id),
                DeleteTopicState(name="nosuch"),
                DeleteTopicState(name=None, topic_id=b"x" * 16),
            ]
            reply = await client.call(DeleteTopicsRequest(topics=states, timeout_ms=5_000))
            assert [each.error_code for each in reply.responses] == [
                E.NONE,
                E.UNKNOWN_TOPIC_OR_PARTITION,
                E.UNKNOWN_TOPIC_ID,
            ]
            assert not (tmp_path / "t-0").exists()
            while list(tmp_path.glob("t-0*")):  # noqa: ASYNC110 - removed beside the loop
                await asyncio.sleep(0.01)
            await client.create("t")
            assert broker.metadata.topics["t"].topic_id != old_id
            assert (await client.produce("t", "new")).base_offset == 0
            assert await client.read("t") == ["new"]

    run(work())


def test_internal_topics_are_not_for_clients(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            await client.init("x")
            reply = await client.call(
                DeleteTopicsRequest(topics=[DeleteTopicState(name="__transaction_state")], timeout_ms=5_000)
            )
            assert reply.responses[0].error_code == E.INVALID_REQUEST
            assert (await client.produce("__transaction_state", "x")).error_code == E.INVALID_TOPIC_EXCEPTION

    run(work())


def test_partitions_can_only_be_added(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t", 2)
            codes = []
            for name, count in (("t", 4), ("t", 4), ("t", 1), ("nosuch", 9)):
                asked = CreatePartitionsTopic(name=name, count=count, assignments=None)
                reply = await client.call(CreatePartitionsRequest(topics=[asked], timeout_ms=5_000))
                codes.append(reply.results[0].error_code)
            assert codes == [E.NONE, E.INVALID_PARTITIONS, E.INVALID_PARTITIONS, E.UNKNOWN_TOPIC_OR_PARTITION]
            assert broker.metadata.topics["t"].partition_count == 4
            assert (await client.produce("t", "v", partition=3)).error_code == E.NONE

    run(work())


async def described(client, kind, name, *keys):
    asked = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    reply = await client.call(DescribeConfigsRequest(resources=[asked], include_synonyms=True))
    result = reply.results[0]
    if result.error_code != E.NONE:
        return E(result.error_code)
    return {each.name: (each.value, each.config_source) for each in result.configs}


async def alter(client, kind, name, key, value, operation=0):
    config = AlterableConfig(name=key, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    reply = await client.call(IncrementalAlterConfigsRequest(resources=[resource]))
    return E(reply.responses[0].error_code)


def test_one_operation_that_does_not_exist_refuses_all_that_is_asked_of_the_controller(tmp_path):
    """Apache Kafka's controller cannot read the request; what the broker refuses on its own keeps its reason."""

    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            for name in ("t", "u", "v"):
                await client.create(name)
            asked = {"t": 0, "u": 9, "v": 0}
            resources = [
                AlterConfigsResource(
                    resource_type=TOPIC,
                    resource_name=name,
                    configs=[AlterableConfig(name="max.message.bytes", config_operation=operation, value="200")],
                )
                for name, operation in asked.items()
            ]
            twice = AlterConfigsResource(resource_type=TOPIC, resource_name="twice")
            reply = await client.call(IncrementalAlterConfigsRequest(resources=[*resources, twice, twice]))
            assert [(each.error_code, each.error_message) for each in reply.responses] == [
                *[(E.UNKNOWN_SERVER_ERROR, "Unknown operations type 9")] * 3,
                *[(E.INVALID_REQUEST, "Each resource must appear at most once.")] * 2,
            ]
            assert await described(client, TOPIC, "t", "max.message.bytes") == {"max.message.bytes": ("1048588", 5)}

    run(work())


def test_only_a_brokers_lists_are_appended_to(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            assert await alter(client, BROKER, "1", "log.cleanup.policy", "compact", operation=2) is E.NONE
            found = await described(client, BROKER, "1", "log.cleanup.policy")
            assert found["log.cleanup.policy"][0] == "delete,compact"
            assert await alter(client, BROKER, "1", "message.max.bytes", "5", operation=2) is E.INVALID_CONFIG

    run(work())


def test_topic_configs_are_altered_and_take_effect(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, log_retention_bytes=5000) as (_, client):
            await client.create("t")
            assert await described(client, TOPIC, "t", "max.message.bytes", "retention.bytes", "no.such") == {
                "max.message.bytes": ("1048588", 5),
                "retention.bytes": ("5000", 4),
            }
            assert await alter(client, TOPIC, "t", "max.message.bytes", "200") is E.NONE
            assert await described(client, TOPIC, "t", "max.message.bytes") == {"max.message.bytes": ("200", 1)}
            assert (await client.produce("t", "x" * 300)).error_code == E.MESSAGE_TOO_LARGE
            assert await alter(client, TOPIC, "t", "max.message.bytes", None, operation=1) is E.NONE
            assert (await client.produce("t", "x" * 300)).error_code == E.NONE
            assert await alter(client, TOPIC, "t", "cleanup.policy", "compact", operation=2) is E.NONE
            assert await described(client, TOPIC, "t", "cleanup.policy") == {"cleanup.policy": ("delete,compact", 1)}
            assert await alter(client, TOPIC, "t", "cleanup.policy", "delete", operation=3) is E.NONE
            assert (await client.produce("t", "no key")).error_code == E.INVALID_RECORD
            assert await alter(client, TOPIC, "t", "no.such", "1") is E.INVALID_CONFIG
            assert await alter(client, TOPIC, "t", "retention.ms", "soon") is E.INVALID_CONFIG
            assert await alter(client, TOPIC, "t", "retention.ms", None) is E.INVALID_REQUEST
            assert await alter(client, TOPIC, "t", "retention.ms", "1", operation=2) is E.INVALID_CONFIG
            assert await alter(client, TOPIC, "nosuch", "retention.ms", "1") is E.UNKNOWN_TOPIC_OR_PARTITION
            whole = WholeResource(
                resource_type=TOPIC, resource_name="t", configs=[WholeConfig(name="retention.ms", value="9")]
            )
            reply = await client.call(AlterConfigsRequest(resources=[whole]))
            assert reply.responses[0].error_code == E.NONE
            shown = await described(client, TOPIC, "t", "retention.ms", "cleanup.policy")
            assert shown == {"retention.ms": ("9", 1), "cleanup.policy": ("delete", 5)}

    run(work())


def test_broker_configs_are_dynamic_where_kafkas_are(tmp_path):
    async def work():
        async with broker_and_client(tmp_path, num_partitions=3) as (broker, client):
            assert await described(client, BROKER, "1", "num.partitions") == {"num.partitions": ("3", 4)}
            assert await alter(client, BROKER, "1", "num.partitions", "4") is E.INVALID_REQUEST
            assert await alter(client, BROKER, "", "message.max.bytes", "300") is E.NONE
            assert await alter(client, BROKER, "1", "message.max.bytes", "200") is E.NONE
            assert await described(client, BROKER, "1", "message.max.bytes") == {"message.max.bytes": ("200", 2)}
            await client.create("t")
            assert (await client.produce("t", "x" * 300)).error_code == E.MESSAGE_TOO_LARGE
            assert await described(client, BROKER, "7") is E.INVALID_REQUEST
        async with broker_and_client(tmp_path) as (broker, client):
            assert broker.config.message_max_bytes == 200

    run(work())


async def features(client):
    reply = await client.call(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    levels = {each.name: each.max_version_level for each in reply.finalized_features}
    init = next(each.max_version for each in reply.api_keys if each.api_key == 22)
    return levels.get("transaction.version", 0), init, reply.finalized_features_epoch


def test_feature_levels_change_what_is_served(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            level, init, first_epoch = await features(client)
            assert (level, init) == (3, 6)
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=2, upgrade_type=2)
            assert (await client.call(UpdateFeaturesRequest(feature_updates=[update]))).error_code == E.NONE
            level, init, second_epoch = await features(client)
            assert (level, init) == (2, 5)
            assert second_epoch > first_epoch
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=9)
            refused = await client.call(UpdateFeaturesRequest(feature_updates=[update]))
            assert refused.error_code == E.INVALID_UPDATE_VERSION
        async with broker_and_client(tmp_path) as (_, client):
            assert await features(client) == (2, 5, second_epoch)

    run(work())


def test_a_directory_from_before_a_feature_stays_without_it_until_somebody_raises_it(tmp_path, monkeypatch):
    async def work():
        with monkeypatch.context() as before:
            before.delitem(SUPPORTED, "share.version")
            async with broker_and_client(tmp_path) as (broker, _):
                levels = dict(broker.metadata.features)
        assert "share.version" not in levels
        async with broker_and_client(tmp_path) as (broker, client):
            assert broker.metadata.features == levels
            update = FeatureUpdateKey(feature="share.version", max_version_level=1)
            assert (await client.call(UpdateFeaturesRequest(feature_updates=[update]))).error_code == E.NONE
        async with broker_and_client(tmp_path) as (broker, _):
            assert broker.metadata.features == {**levels, "share.version": 1}

    run(work())


def test_api_versions_hides_what_old_decoders_cannot_read(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (_, client):
            good = ApiVersionsRequest(client_software_name="lib", client_software_version="1.0-b")
            reply = await client.call(good, 3)
            assert all(each.min_version > 0 for each in reply.supported_features)
            assert {each.api_key: each.min_version for each in reply.api_keys}[0] == 0
            bad = ApiVersionsRequest(client_software_name="-", client_software_version="1")
            assert (await client.call(bad, 3)).error_code == E.INVALID_REQUEST

    run(work())


def test_looking_at_the_cluster(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("a", 3)
            await client.create("b", 2)
            await client.produce("a", "x")
            cluster = await client.call(DescribeClusterRequest())
            assert [each.broker_id for each in cluster.brokers] == [1]
            assert cluster.cluster_id == broker.cluster_id
            refused = await client.call(DescribeClusterRequest(endpoint_type=2))
            assert refused.error_code == E.MISMATCHED_ENDPOINT_TYPE
            dirs = await client.call(DescribeLogDirsRequest(topics=None))
            sizes = {topic.name: [each.partition_size for each in topic.partitions] for topic in dirs.results[0].topics}
            assert sizes["b"] == [0, 0]
            assert sizes["a"][0] > 0
            listed = await client.call(ListConfigResourcesRequest(resource_types=[TOPIC]))
            assert sorted(each.resource_name for each in listed.config_resources) == ["a", "b"]
            page = await client.call(DescribeTopicPartitionsRequest(response_partition_limit=4))
            assert [(each.name, len(each.partitions)) for each in page.topics] == [("a", 3), ("b", 1)]
            assert (page.next_cursor.topic_name, page.next_cursor.partition_index) == ("b", 1)
            cursor = Cursor(topic_name="b", partition_index=1)
            asked = DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name="b"), TopicRequest(name="z")], cursor=cursor
            )
            rest = await client.call(asked)
            assert [(each.name, each.error_code, len(each.partitions)) for each in rest.topics] == [
                ("b", E.NONE, 1),
                ("z", E.UNKNOWN_TOPIC_OR_PARTITION, 0),
            ]

    run(work())


class HeldSyncer:
    """Syncs wait until `opened`; `held` says that one does."""

    def __init__(self, inner):
        self.inner, self.held, self.opened = inner, asyncio.Event(), asyncio.Event()

    async def sync(self, files):
        self.held.set()
        await self.opened.wait()
        await self.inner.sync(files)


async def asked_by_one_who_goes(broker, request):
    """The client goes away while its change is synced; then the sync ends."""
    before = broker.store._syncer
    broker.store._syncer = syncer = HeldSyncer(before)
    count = len(broker.server._connections)
    client = await Client.connect(broker)
    client.send(request)
    await syncer.held.wait()
    client.close()
    await until(lambda: len(broker.server._connections) == count)
    broker.store._syncer = before
    syncer.opened.set()
    await broker.store.last_change_over()


def test_a_topic_whose_deletion_nobody_waits_for_is_gone_all_the_same(tmp_path):
    """Its partition stayed, and took the records of the next topic of its name: a start moved them aside."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "of the deleted topic")
            await asked_by_one_who_goes(broker, delete_request(["t"]))
            await client.create("t")
            await client.produce("t", "new")
            assert await client.read("t") == ["new"]
        async with broker_and_client(tmp_path) as (_, client):
            assert await client.read("t") == ["new"]

    run(work())


def test_a_configuration_whose_change_nobody_waits_for_is_in_force_all_the_same(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            await client.produce("t", "x")
            change = AlterableConfig(name="max.message.bytes", config_operation=0, value="100")
            resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change])
            await asked_by_one_who_goes(broker, IncrementalAlterConfigsRequest(resources=[resource]))
            assert (await client.produce("t", "x" * 200)).error_code == E.MESSAGE_TOO_LARGE

    run(work())


def new_topics(*names):
    return [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]


def more_partitions(*names):
    return [CreatePartitionsTopic(name=name, count=2, assignments=None) for name in names]


def change_requests(timeout_ms):
    """Of topics, each with what it names."""
    deleted = [DeleteTopicState(name="t"), DeleteTopicState(name="t"), DeleteTopicState(topic_id=bytes(15) + b"1")]
    return [
        (CreateTopicsRequest(topics=new_topics("a", "b/", "b/"), timeout_ms=timeout_ms), 7, ["a", "b/", "b/"]),
        (CreateTopicsRequest(topics=new_topics("c"), timeout_ms=timeout_ms, validate_only=True), 7, ["c"]),
        (DeleteTopicsRequest(topics=deleted, timeout_ms=timeout_ms), 6, ["t", "t", None]),
        (DeleteTopicsRequest(topic_names=["t", "z"], timeout_ms=timeout_ms), 5, ["t", "z"]),
        (CreatePartitionsRequest(topics=more_partitions("t", "z"), timeout_ms=timeout_ms), 3, ["t", "z"]),
    ]


def results_of(reply):
    for name in ("topics", "responses", "results"):
        if hasattr(reply, name):
            return getattr(reply, name)
    raise AssertionError(reply)


@pytest.mark.parametrize("timeout_ms", [0, -1, -(2**31)])
def test_who_leaves_no_time_is_told_so(tmp_path, timeout_ms):
    """As Apache Kafka's controller does, whatever is asked; only UpdateFeatures goes without."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            offset = broker.store.end_offset
            for request, version, names in change_requests(timeout_ms):
                results = results_of(await client.call(request, version))
                assert [(each.name, each.error_code, each.error_message) for each in results] == [
                    (name, E.REQUEST_TIMED_OUT, None) for name in names
                ]
            reply = await client.call(UpdateFeaturesRequest(timeout_ms=timeout_ms, feature_updates=[]), 1)
            assert reply.error_code == E.NONE
            assert broker.store.end_offset == offset

    run(work())


def test_who_waits_for_a_turn_longer_than_it_wants_is_told_so_and_nothing_is_done(tmp_path):
    """One sync that hung held every change for ever. What has begun is waited for: it may be done."""

    async def work():
        async with broker_and_client(tmp_path) as (broker, client):
            await client.create("t")
            before = broker.store._syncer
            broker.store._syncer = syncer = HeldSyncer(before)
            begun, waiting = await Client.connect(broker), await Client.connect(broker)
            begun.send(CreateTopicsRequest(topics=new_topics("begun"), timeout_ms=1))
            await syncer.held.wait()
            for request, version, names in change_requests(1):
                results = results_of(await client.call(request, version))
                assert [each.error_code for each in results] == [E.REQUEST_TIMED_OUT] * len(names)
            update = FeatureUpdateKey(feature="transaction.version", max_version_level=1, upgrade_type=2)
            reply = await client.call(UpdateFeaturesRequest(timeout_ms=1, feature_updates=[update]), 1)
            assert reply.error_code == E.REQUEST_TIMED_OUT
            waiting.send(CreateTopicsRequest(topics=new_topics("patient"), timeout_ms=60_000))
            await until(lambda: len(broker.server.tasks) == 2)
            broker.store._syncer = before
            syncer.opened.set()
            for each in (begun, waiting):
                _, reply = await each.receive()
                assert reply.topics[0].error_code == E.NONE
                each.close()
            assert set(broker.metadata.topics) == {"t", "begun", "patient"}
            assert broker.metadata.topics["t"].partition_count == 1

    run(work())
