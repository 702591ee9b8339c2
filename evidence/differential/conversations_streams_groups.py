"""Streams groups of KIP-1071: topologies, internal topics, tasks, epochs, standbys, endpoints, offsets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from evidence.differential.consumer_group_verbs import beat as consumer_beat
from evidence.differential.consumer_group_verbs import classic_join, delete_group, describe_group, list_group
from evidence.differential.conversation import Conversation
from evidence.differential.scenario import RESTART, scenario
from evidence.differential.streams_group_verbs import (
    beat,
    counting,
    describe_streams,
    info,
    sub,
    topics_for_streams,
    until_known,
)
from oncelog.errors import ErrorCode

KIND = "streams"


@scenario(KIND)
def streams_group_of_one(x: Conversation) -> None:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "m", 0)
    describe_streams(x, "g")
    list_group(x, "g")
    list_group(x, "g", types_filter=["Streams"])
    list_group(x, "g", types_filter=["consumer"])
    list_group(x, "g", states_filter=["stable"])
    beat(x, "g", "m", 2)
    beat(x, "g", "m", 2, active={"0": [0, 1]})
    beat(x, "g", "m", 0, label=" again")
    delete_group(x, "g")
    beat(x, "g", "m", -1)
    describe_streams(x, "g")
    list_group(x, "g")
    beat(x, "g", "m", 2, label=" after leaving")
    beat(x, "g", "m", -1, label=" twice")
    delete_group(x, "g")
    describe_streams(x, "g")
    beat(x, "g", "m", 0, label=" anew")


@scenario(KIND)
def streams_heartbeat_refusals(x: Conversation) -> None:
    topics_for_streams(x, a=1, c=1)
    for label, how in (
        ("no member id", {"member_id": ""}),
        ("no group", {"group_id": ""}),
        ("instance", {"instance_id": "i"}),
        ("empty instance", {"instance_id": ""}),
        ("empty rack", {"rack_id": ""}),
        ("no timeout", {"rebalance_timeout_ms": -1}),
        ("active", {"active_tasks": [{"subtopology_id": "0", "partitions": [0]}]}),
        ("standby", {"standby_tasks": [{"subtopology_id": "0", "partitions": [0]}]}),
        ("warmup", {"warmup_tasks": [{"subtopology_id": "0", "partitions": [0]}]}),
        ("no topology", {"topology": None}),
        ("one kind of tasks", {"standby_tasks": None}),
        ("offsets", {"task_offsets": []}),
        ("end offsets", {"task_end_offsets": []}),
        ("regex", {"topology": {"subtopologies": [{"subtopology_id": "0", "source_topic_regex": ["a.*"]}]}}),
    ):
        beat(x, "g", "m", 0, label=f" {label}", **how)
    beat(x, "g", "m", -3, label=" epoch")
    beat(x, "g", "m", -2, label=" static leave")
    beat(x, "g", "m", 6, label=" unknown group")
    beat(x, "g", "m", -1, label=" unknown group")
    beat(x, "g", "m", 0)
    beat(x, "g", "other", 2, label=" unknown member")
    beat(x, "g", "other", -1, label=" unknown member")
    beat(x, "g", "m", 2, label=" topology later", topology={"subtopologies": counting(x)})
    beat(x, "g", "m", 2, active={"0": [5]}, label=" no such task")
    beat(x, "g", "m", 2, active={"7": [0]}, label=" no such subtopology")
    describe_streams(x, "g")


@scenario(KIND)
def streams_topologies_that_are_refused(x: Conversation) -> None:
    topics_for_streams(x, a=1, c=1)
    for label, subtopologies in (
        ("changelog with partitions", [sub(x, "0", ["a"], stores=[info(x, "c", 3)])]),
        ("internal topic", [sub(x, "0", ["a"]) | {"source_topics": ["__consumer_offsets"]}]),
        ("no topic's name", [sub(x, "0", ["a"]) | {"source_topics": ["a b"]}]),
        ("reads nothing", [sub(x, "0")]),
        ("repartition that nobody writes", [sub(x, "0", ["a"]), sub(x, "1", repartitions=["r"])]),
        ("loop", [sub(x, "0", repartitions=["r"], writes=["s"]), sub(x, "1", repartitions=["s"], writes=["r"])]),
    ):
        beat(x, "g", "m", 0, of=subtopologies, label=f" {label}")
    describe_streams(x, "g")


@scenario(KIND)
def streams_topologies_with_faults(x: Conversation) -> None:
    """What Apache Kafka does not expect."""
    topics_for_streams(x, a=1, c=1)
    twice = [sub(x, "0", ["a"]), sub(x, "0", ["a"])]
    beat(x, "g", "m", 0, of=twice, label=" one id twice")
    beyond = [sub(x, "0", ["a"], joins=[{"source_topics": [3]}])]
    beat(x, "g", "m", 0, of=beyond, label=" a join of nothing")
    at = {"user_endpoint": {"host": "h", "port": 1}, "endpoint_information_epoch": -1}
    beat(x, "h", "m", 0, of=[sub(x, "0", ["none"])], label=" an endpoint, and no source", **at)


@scenario(KIND)
def streams_source_topics_that_are_missing(x: Conversation) -> None:
    many = [sub(x, "0", ["z", "y", "v", "w", "u"])]
    beat(x, "g", "m", 0, of=many)
    describe_streams(x, "g")
    list_group(x, "g")
    beat(x, "g", "m", 2)
    for plain in "uvwyz":
        x.topic(plain, 1)
    until_known(x, *"uvwyz")
    beat(x, "g", "m", 2)
    describe_streams(x, "g")


def until_epoch(x: Conversation, member: str, epoch: int) -> Any:
    """Beats until the member is in the next epoch; says nothing."""

    def moved() -> Any:
        reply = beat(x, "g", member, epoch, quiet=True)
        assert reply.error_code == 0, ErrorCode(reply.error_code).name
        return reply if reply.member_epoch > epoch else None

    return x.until(moved)


@scenario(KIND)
def streams_internal_topics_are_made(x: Conversation) -> None:
    topics_for_streams(x, a=3)
    configs = [{"key": "cleanup.policy", "value": "compact"}, {"key": "retention.ms", "value": "77"}]
    beat(x, "g", "m", 0, of=[sub(x, "0", ["a"], stores=[info(x, "c", topic_configs=configs)])])
    describe_streams(x, "g")
    reply = until_epoch(x, "m", 2)
    x.say("then", f"epoch={reply.member_epoch} tasks={[list(each.partitions) for each in reply.active_tasks]}")
    wanted = {
        "resource_type": 2,
        "resource_name": x.name("c"),
        "configuration_keys": ["cleanup.policy", "retention.ms"],
    }
    found = x.call("DescribeConfigs", 4, resources=[wanted]).results[0]
    x.say("configs", *sorted(f"{each.name}={each.value}" for each in found.configs))
    describe_streams(x, "g")


@scenario(KIND)
def streams_topics_with_wrong_partitions(x: Conversation) -> None:
    topics_for_streams(x, a=2, b=3, c=1)
    beat(x, "g", "m", 0, label=" changelog")
    describe_streams(x, "g")
    joined = {"source_topics": [0, 1]}
    beat(x, "h", "m", 0, of=[sub(x, "0", ["a", "b"], joins=[joined])], label=" join")
    fixed = {"source_topics": [0], "repartition_source_topics": [0]}
    writer = sub(x, "0", ["a"], writes=["r"])
    beat(x, "i", "m", 0, of=[writer, sub(x, "1", ["b"], repartitions=[info(x, "r", 7)], joins=[fixed])], label=" fixed")
    both = {"repartition_source_topics": [0, 1]}
    two = sub(x, "1", repartitions=[info(x, "r", 7), info(x, "s", 6)], joins=[both])
    beat(x, "j", "m", 0, of=[sub(x, "0", ["a"], writes=["r", "s"]), two], label=" two fixed")


@scenario(KIND)
def streams_repartitions_that_are_not_joined_with_one_another(x: Conversation) -> None:
    topics_for_streams(x, a=2, r=2, s=2, t=3)
    both = {"repartition_source_topics": [0, 1]}
    joined = sub(x, "1", repartitions=[info(x, "r", 2), "s"], joins=[both])
    alone = sub(x, "2", repartitions=[info(x, "t", 3)])
    beat(x, "g", "m", 0, of=[sub(x, "0", ["a"], writes=["r", "s", "t"]), joined, alone])


@scenario(KIND)
def streams_two_members(x: Conversation) -> None:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "a", 0)
    beat(x, "g", "b", 0)
    describe_streams(x, "g")
    beat(x, "g", "b", 3)
    beat(x, "g", "a", 2)
    describe_streams(x, "g")
    beat(x, "g", "a", 2, active={"0": [0, 1]}, label=" has not given back")
    beat(x, "g", "b", 3)
    beat(x, "g", "a", 2, active={"0": [0]})
    beat(x, "g", "b", 3)
    describe_streams(x, "g")
    beat(x, "g", "a", -1)
    describe_streams(x, "g")
    beat(x, "g", "b", 3)
    describe_streams(x, "g")


@scenario(KIND)
def streams_epochs_that_are_fenced(x: Conversation) -> None:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "a", 0)
    beat(x, "g", "b", 0)
    beat(x, "g", "a", 2)
    beat(x, "g", "a", 2, active={"0": [0]})
    beat(x, "g", "a", 4, label=" greater")
    beat(x, "g", "a", 1, label=" smaller")
    beat(x, "g", "a", 2, label=" previous, owns unsaid")
    beat(x, "g", "a", 2, active={"0": [1]}, label=" previous, owns too much")
    beat(x, "g", "a", 2, active={"0": [0]}, label=" previous")


@scenario(KIND)
def streams_answer_that_is_lost(x: Conversation) -> None:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "a", 0)
    beat(x, "g", "b", 0)
    beat(x, "g", "a", 2)
    beat(x, "g", "a", 2, active={"0": [0]})
    beat(x, "g", "b", 3, label=" lost")
    beat(x, "g", "b", 3, active={}, label=" says what it has")


@scenario(KIND)
def streams_processes(x: Conversation) -> None:
    """Two members of a process and one of another; standbys by the group's config."""
    topics_for_streams(x, a=4, c=4)
    resource = {
        "resource_type": 32,
        "resource_name": x.name("g"),
        "configs": [{"name": "streams.num.standby.replicas", "config_operation": 0, "value": "1"}],
    }
    altered = x.call("IncrementalAlterConfigs", 1, resources=[resource]).responses[0]
    x.say("alter standbys", ErrorCode(altered.error_code).name)
    beat(x, "g", "a", 0, process="p")
    beat(x, "g", "b", 0, process="q")
    beat(x, "g", "a", 2)
    beat(x, "g", "a", 2, active={"0": [0, 1]})
    beat(x, "g", "a", 3, active={"0": [0, 1]})
    beat(x, "g", "b", 3)
    beat(x, "g", "a", 3)
    describe_streams(x, "g")


@scenario(KIND)
def streams_topology_of_another_epoch(x: Conversation) -> None:
    topics_for_streams(x, a=1, c=1)
    beat(x, "g", "a", 0, topology_epoch=2)
    beat(x, "g", "b", 0, topology_epoch=1, label=" older")
    beat(x, "g", "b", 3)
    beat(x, "g", "c", 0, topology_epoch=3, label=" newer")
    beat(x, "g", "d", 0, topology_epoch=2, of=[sub(x, "0", ["a"])], label=" other")
    beat(x, "g", "e", 0, topology_epoch=1, of=[sub(x, "0", ["a"])], label=" older and other")
    describe_streams(x, "g")


@scenario(KIND)
def streams_shutdown(x: Conversation) -> None:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "a", 0)
    beat(x, "g", "b", 0)
    beat(x, "g", "a", 2, shutdown_application=True)
    beat(x, "g", "b", 3)
    beat(x, "g", "b", -1, shutdown_application=True)
    beat(x, "g", "a", 2)
    beat(x, "g", "a", -1)
    beat(x, "g", "a", 0)


@scenario(KIND)
def streams_endpoints(x: Conversation) -> None:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "a", 0, user_endpoint={"host": "h", "port": 1}, endpoint_information_epoch=-1)
    beat(x, "g", "a", 2, endpoint_information_epoch=-1)
    beat(x, "g", "b", 0, user_endpoint={"host": "i", "port": 65_535}, endpoint_information_epoch=-1)
    beat(x, "g", "a", 2, endpoint_information_epoch=0)
    beat(x, "g", "a", 2, active={"0": [0]}, endpoint_information_epoch=2)
    beat(x, "g", "b", 3, endpoint_information_epoch=2)
    describe_streams(x, "g")


@scenario(KIND)
def streams_groups_and_other_kinds(x: Conversation) -> None:
    topics_for_streams(x, a=1, c=1)
    classic_join(x, "classic", "", [x.name("a")], v=3)
    beat(x, "classic", "m", 0)
    beat(x, "classic", "m", -1)
    describe_streams(x, "classic")
    consumer_beat(x, "consumer", "m", 0, topics=[x.name("a")])
    beat(x, "consumer", "m", 0)
    describe_streams(x, "consumer")
    consumer_beat(x, "consumer", "m", -1)
    beat(x, "consumer", "m", 0, label=" empty")
    beat(x, "g", "m", 0)
    consumer_beat(x, "g", "m", 0, topics=[x.name("a")])
    consumer_beat(x, "g", "m", 2)
    describe_group(x, "g")
    classic_join(x, "g", "", [x.name("a")])
    describe_streams(x, "none")
    describe_streams(x, "")


@scenario(KIND)
def streams_offsets(x: Conversation) -> None:
    """`a` in epoch 3 has task 0 since epoch 2; task 1 went to `b`."""
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "a", 0)
    beat(x, "g", "b", 0)
    beat(x, "g", "a", 2)
    beat(x, "g", "a", 2, active={"0": [0]})
    beat(x, "g", "b", 3)
    producer = x.init("t")
    for member, epoch, partition in (
        ("a", 3, 0),
        ("a", 2, 0),
        ("a", 1, 0),
        ("a", 4, 0),
        ("a", 2, 1),
        ("a", 3, 1),
        ("b", 2, 1),
        ("b", 3, 1),
        ("x", 3, 0),
        ("", -1, 0),
    ):
        asked = [{"name": x.name("a"), "partitions": [{"partition_index": partition, "committed_offset": 1}]}]
        plain = {"group_id": x.name("g"), "member_id": member, "generation_id_or_member_epoch": epoch, "topics": asked}
        told = x.call("OffsetCommit", 9, **plain).topics[0].partitions[0].error_code
        identity = {"transactional_id": x.name("t"), "producer_id": producer[0], "producer_epoch": producer[1]}
        with_epoch = {"group_id": x.name("g"), "member_id": member, "generation_id": epoch, "topics": asked}
        told_txn = x.call("TxnOffsetCommit", 5, **identity, **with_epoch).topics[0].partitions[0].error_code
        who = f"{member or repr('')} epoch={epoch} partition={partition}"
        x.say(f"commit {who}", ErrorCode(told).name, "txn", ErrorCode(told_txn).name)
    x.end("t", *producer, True)


@scenario("default")
def streams_first_assignment_is_delayed(x: Conversation) -> None:
    topics_for_streams(x, a=1, c=1)
    beat(x, "g", "m", 0)
    describe_streams(x, "g")
    beat(x, "g", "m", 1)


@scenario(RESTART)
def streams_group_over_a_restart(x: Conversation) -> Iterator[tuple[str, int]]:
    topics_for_streams(x, a=2, c=2)
    beat(x, "g", "m", 0, user_endpoint={"host": "h", "port": 1})
    describe_streams(x, "g")
    yield x.name("a"), 2

    def loaded() -> Any:
        code = x.call("StreamsGroupDescribe", 0, group_ids=[x.name("g")]).groups[0].error_code
        early = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return None if code in early else True

    x.until(loaded)
    describe_streams(x, "g")
    beat(x, "g", "m", 1)
