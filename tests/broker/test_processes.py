"""Several processes as one cluster: who leads what, what each knows, and what goes on while one is away."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from evidence.world.broker import Client, eventually, run, until
from evidence.world.processes import BrokersInARow, brokers_in_a_row

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.metadata import followed_metadata
from oncelog.core.metadata.topic_configs import TRANSACTION_STATE_TOPIC
from oncelog.errors import ErrorCode as E
from oncelog.types import TopicPartition
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog.wire.messages.describe_cluster import DescribeClusterRequest
from oncelog.wire.messages.describe_log_dirs import DescribeLogDirsRequest
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from oncelog.wire.messages.describe_topic_partitions import TopicRequest as TopicRequestOfPartitions
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from oncelog.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest


async def created(cluster: BrokersInARow, name: str, partitions: int, at: int = 0) -> list[int]:
    """A topic that every process knows; the index of each partition's leader."""
    await cluster.clients[at].create(name, partitions)
    await until(lambda: all(name in broker.metadata.topics for broker in cluster.brokers))
    return leaders(cluster, name)


def leaders(cluster: BrokersInARow, name: str) -> list[int]:
    broker = cluster.brokers[0]
    topic = broker.metadata.topics[name]
    return [broker.node.leadership.leader_of(topic, index) - 1 for index in range(topic.partition_count)]


async def described(client: Client, name: str) -> Any:
    return await client.call(MetadataRequest(topics=[MetadataRequestTopic(name=name)]))


def test_every_process_tells_the_same(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            await created(cluster, "t", 6, at=2)
            answers = [await described(client, "t") for client in cluster.clients]
            assert answers[1:] == answers[:1] * 2
            brokers = {each.node_id: f"{each.host}:{each.port}" for each in answers[0].brokers}
            assert brokers == dict(enumerate(cluster.bootstrap.split(","), 1))
            assert answers[0].controller_id == 1
            told = [each.leader_id - 1 for each in answers[0].topics[0].partitions]
            assert told == leaders(cluster, "t")
            assert set(told) == {0, 1, 2}
            clusters = [await client.call(DescribeClusterRequest()) for client in cluster.clients]
            assert clusters[1:] == clusters[:1] * 2
            assert len(clusters[0].brokers) == 3

    run(work())


def test_whoever_is_asked_knows_what_is_offline_anywhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path, offsets_topic_num_partitions=3, num_partitions=6) as cluster:
            await created(cluster, "t", 6)
            await cluster.clients[0].call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]))
            leader = leaders(cluster, "t")[0]
            assert (await cluster.clients[leader].produce("t", "x")).error_code == E.NONE
            assert await offline_as_told(cluster, "t") == [[]] * 3
            partition = cluster.brokers[leader].node.partitions.existing(TopicPartition("t", 0))
            assert partition is not None
            partition.go_offline("its disk failed")
            await eventually(lambda: is_told(cluster, "t", [0]))
            cluster.clients[leader].close()
            await cluster.brokers[leader].stop()
            if leader:
                assert await offline_as_told(cluster, "t", [each for each in range(3) if each != leader]) == [[0]] * 2
            damage(tmp_path, "t-0")
            await cluster.start_again(leader)
            await eventually(lambda: is_told(cluster, "t", [0]))
            described_again = DescribeTopicPartitionsRequest(topics=[TopicRequestOfPartitions(name="t")])
            for client in cluster.clients:
                (topic,) = (await client.call(described_again)).topics
                assert [each.partition_index for each in topic.partitions if each.offline_replicas] == [0]

    run(work())


def damage(directory: Path, partition: str) -> None:
    (log,) = directory.glob(f"**/{partition}/0*0.log")
    log.write_bytes(b"\0" * 30)


async def is_told(cluster: BrokersInARow, name: str, indexes: list[int]) -> bool:
    return await offline_as_told(cluster, name) == [indexes] * 3


async def offline_as_told(cluster: BrokersInARow, name: str, at: Sequence[int] = (0, 1, 2)) -> list[list[int]]:
    """Which of a topic's partitions are offline, as each process tells."""
    found = []
    for index in at:
        (topic,) = (await described(cluster.clients[index], name)).topics
        found.append([each.partition_index for each in topic.partitions if each.offline_replicas == [each.leader_id]])
    return found


@pytest.mark.parametrize("kind", [0, 1])
def test_a_coordinator_is_found_by_any_process_and_is_the_partitions_leader(tmp_path: Path, kind: int) -> None:
    async def work() -> None:
        async with brokers_in_a_row(
            tmp_path, transaction_state_log_num_partitions=5, offsets_topic_num_partitions=5
        ) as cluster:
            request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[f"name{n}" for n in range(12)])
            answers = []
            for client in cluster.clients:
                answers.append((await client.call(request)).coordinators)
            assert answers[1:] == answers[:1] * 2
            assert {each.node_id for each in answers[0]} == {1, 2, 3}
            old = await cluster.clients[1].call(FindCoordinatorRequest(key_type=kind, key="name0"), 3)
            assert (old.node_id, old.port) == (answers[0][0].node_id, answers[0][0].port)

    run(work())


def test_who_does_not_lead_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            (leader,) = await created(cluster, "t", 1)
            client = cluster.clients[(leader + 1) % 3]
            assert (await client.produce("t", "x")).error_code == E.NOT_LEADER_OR_FOLLOWER
            wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
            fetched = await client.call(FetchRequest(topics=[FetchTopic(topic="t", partitions=[wanted])]), 12)
            assert fetched.responses[0].partitions[0].error_code == E.NOT_LEADER_OR_FOLLOWER
            asked = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
            listed = await client.call(ListOffsetsRequest(replica_id=-1, topics=[asked]))
            assert listed.topics[0].partitions[0].error_code == E.NOT_LEADER_OR_FOLLOWER
            one = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=-1)])
            removed = await client.call(DeleteRecordsRequest(topics=[one], timeout_ms=1000))
            assert removed.topics[0].partitions[0].error_code == E.NOT_LEADER_OR_FOLLOWER
            names = [TopicRequest(name="t", partition_indexes=[0, 1])]
            producers = (await client.call(DescribeProducersRequest(topics=names))).topics[0].partitions
            codes = [each.error_code for each in producers]
            assert codes == [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION]
            assert not folders(tmp_path, "t-0")
            assert (await cluster.clients[leader].produce("t", "x")).error_code == E.NONE
            assert len(folders(tmp_path, "t-0")) == 1

    run(work())


@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_over_every_process_is_whole(tmp_path: Path, commit: bool) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            topics = {}
            while len(topics) < 3:  # one topic of one partition on each process
                name = f"t{len(topics)}-{len(cluster.brokers[0].metadata.topics)}"
                (leader,) = await created(cluster, name, 1, at=1)
                topics.setdefault(leader, name)
            found = (
                await cluster.clients[0].call(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]))
            ).coordinators
            coordinator = cluster.clients[found[0].node_id - 1]
            producer = await coordinator.init("tx")
            for leader, name in topics.items():
                options = {"producer": producer, "sequence": 0, "transactional_id": "tx"}
                assert (await cluster.clients[leader].produce(name, "in", **options)).error_code == E.NONE
                assert await cluster.clients[leader].read(name) == []
            ended = await coordinator.end("tx", producer, commit=commit)
            assert ended.error_code == E.NONE

            async def is_complete() -> bool:
                return (await coordinator.state("tx")).startswith("Complete")

            await eventually(is_complete)
            for leader, name in topics.items():
                assert await cluster.clients[leader].read(name) == (["in"] if commit else [])

    run(work())


def test_a_process_that_is_not_the_coordinator_says_so(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            found = (
                await cluster.clients[0].call(FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"]))
            ).coordinators
            own = found[0].node_id - 1
            await until(lambda: all(TRANSACTION_STATE_TOPIC in broker.metadata.topics for broker in cluster.brokers))
            reply = await cluster.clients[(own + 1) % 3].end("tx", (1, 0), commit=True)
            assert reply.error_code == E.NOT_COORDINATOR

    run(work())


def test_producer_ids_are_given_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            ids = [await client.init() for _ in range(5) for client in cluster.clients]
            assert len(set(ids)) == len(ids)

    run(work())


def test_what_one_process_deletes_is_gone_everywhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path, log_segment_delete_delay_ms=0) as cluster:
            for index, leader in enumerate(await created(cluster, "t", 6)):
                await cluster.clients[leader].produce("t", "x", partition=index)
            assert len(folders(tmp_path, "t-?")) == 6
            asked = DeleteTopicsRequest(topics=[DeleteTopicState(name="t")], timeout_ms=1000)
            assert (await cluster.clients[1].call(asked)).responses[0].error_code == E.NONE
            await until(lambda: not folders(tmp_path, "t-?"))
            assert not any("t" in broker.metadata.topics for broker in cluster.brokers)
            await created(cluster, "t", 6, at=2)  # another topic of the same name
            leader = leaders(cluster, "t")[0]
            assert (await cluster.clients[leader].produce("t", "new")).base_offset == 0

    run(work())


def test_a_changed_config_is_in_force_everywhere(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            change = AlterableConfig(name="log.retention.ms", config_operation=0, value="123456")
            resource = AlterConfigsResource(resource_type=4, resource_name="", configs=[change])
            reply = await cluster.clients[2].call(IncrementalAlterConfigsRequest(resources=[resource]))
            assert reply.responses[0].error_code == E.NONE
            await until(lambda: all(broker.config.log_retention_ms == 123456 for broker in cluster.brokers))

    run(work())


def test_without_the_controller_what_is_known_stays_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(followed_metadata, "TURN_WAIT_S", 0.1)
        async with brokers_in_a_row(tmp_path) as cluster:
            own = leaders_of(await created(cluster, "t", 6))
            cluster.clients[0].close()
            await cluster.brokers[0].stop()
            for leader in (1, 2):
                assert (await cluster.clients[leader].produce("t", "x", partition=own[leader])).error_code == E.NONE
            asked = CreateTopicsRequest(topics=[CreatableTopic(name="u", num_partitions=1, replication_factor=1)])
            refused = (await cluster.clients[1].call(asked)).topics[0]
            assert refused.error_code == E.NOT_CONTROLLER
            monkeypatch.undo()
            await cluster.start_again(0)

            async def is_made() -> bool:
                return (await cluster.clients[1].call(asked)).topics[0].error_code in (E.NONE, E.TOPIC_ALREADY_EXISTS)

            await eventually(is_made)
            await until(lambda: all("u" in broker.metadata.topics for broker in cluster.brokers))
            assert (await cluster.clients[0].produce("t", "x", partition=own[0])).error_code == E.NONE

    run(work())


def folders(directory: Path, pattern: str) -> list[Path]:
    """The partitions' directories of every process. (None of them is looked into: it may go meanwhile.)"""
    return [*directory.glob(pattern), *directory.glob(f"processes/*/{pattern}")]


def leaders_of(found: list[int]) -> dict[int, int]:
    """A partition of each leader."""
    return {leader: index for index, leader in enumerate(found)}


def test_a_process_that_was_away_learns_what_was_changed(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            own = leaders_of(await created(cluster, "t", 6))
            await cluster.clients[2].produce("t", "kept", partition=own[2])
            cluster.clients[2].close()
            await cluster.brokers[2].stop()
            await cluster.clients[1].create("u", 3)
            await cluster.start_again(2)
            assert "u" in cluster.brokers[2].metadata.topics
            partition = cluster.brokers[2].partitions.find(TopicPartition("t", own[2]))
            assert partition is not None
            assert partition.rules.log_end_offset == 1

    run(work())


def test_share_groups_are_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path, count=2) as cluster:
            asked = ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"])
            assert (await cluster.clients[1].call(asked)).error_code == E.UNSUPPORTED_VERSION

    run(work())


@pytest.mark.parametrize(
    ("feature", "level", "code"),
    [
        ("share.version", 1, E.FEATURE_UPDATE_FAILED),
        ("transaction.version", 2, E.FEATURE_UPDATE_FAILED),
        ("group.version", 0, E.NONE),
    ],
)
def test_levels_that_several_cannot_take_are_refused(tmp_path: Path, feature: str, level: int, code: E) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path, count=2) as cluster:
            update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=3 if level != 1 else 1)
            reply = await cluster.clients[1].call(UpdateFeaturesRequest(timeout_ms=1000, feature_updates=[update]))
            assert reply.error_code == code, reply

    run(work())


def test_each_process_tells_the_sizes_of_its_own_partitions(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            await created(cluster, "t", 6)
            found = []
            for client in cluster.clients:
                (result,) = (await client.call(DescribeLogDirsRequest(topics=None))).results
                found += [
                    each.partition_index for topic in result.topics if topic.name == "t" for each in topic.partitions
                ]
            assert sorted(found) == list(range(6))

    run(work())


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path, count=2):
            pass
        with pytest.raises(ConfigInvalid, match="shared out to 2 processes, and this is one of 1"):
            await Broker(str(tmp_path)).start()

    run(work())


def test_partitions_are_not_assigned_by_hand(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path, count=2) as cluster:
            topic = CreatableTopic(name="t", num_partitions=-1, replication_factor=-1)
            topic.assignments = [CreatableTopic.FIELDS[3].wire.item(partition_index=0, broker_ids=[1])]
            reply = (await cluster.clients[0].call(CreateTopicsRequest(topics=[topic]))).topics[0]
            assert reply.error_code == E.INVALID_REPLICA_ASSIGNMENT
            assert "share them out" in reply.error_message

    run(work())


def test_a_stop_of_all_at_once_is_clean(tmp_path: Path) -> None:
    async def work() -> None:
        async with brokers_in_a_row(tmp_path) as cluster:
            await created(cluster, "t", 6)
            for client in cluster.clients:
                client.close()
            await asyncio.gather(*(broker.stop() for broker in cluster.brokers))
        async with brokers_in_a_row(tmp_path) as cluster:
            assert all(broker.is_clean_start for broker in cluster.brokers)
            assert leaders(cluster, "t")

    run(work())
