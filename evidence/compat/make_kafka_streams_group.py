"""Records `kafka_streams_group.json`: what Apache Kafka's coordinator writes of a streams group, and what it says of it.

    python -m evidence.compat.make_kafka_streams_group

Needs Java 17 and mvn. Two processes with standbys; one member gives a task back when Kafka ends.
"""

from __future__ import annotations

import asyncio
import json
import pathlib
import sys
import tempfile
from typing import Any

from evidence.differential.brokers import ApacheKafkaNode, kafka_launcher
from evidence.world.broker import Client
from oncelog.wire.log_records.streams_groups import STREAMS_GROUP_KEYS
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.streams_group_describe import StreamsGroupDescribeRequest
from oncelog.wire.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from oncelog.wire.record_batch import batches
from oncelog.wire.schema import encode_message

FILE = pathlib.Path(__file__).parents[2] / "tests" / "data" / "kafka_streams_group.json"
GROUP = "application"
CONFIG = {
    "offsets.topic.num.partitions": 1,
    "group.streams.initial.rebalance.delay.ms": 0,
    "group.streams.assignment.interval.ms": 0,
}
COUNTING = Topology(
    subtopologies=[
        Subtopology(subtopology_id="0", source_topics=["words"], repartition_sink_topics=["by-word"]),
        Subtopology(
            subtopology_id="1",
            repartition_source_topics=[TopicInfo(name="by-word", partitions=2)],
            state_changelog_topics=[
                TopicInfo(name="counts", topic_configs=[KeyValue(key="cleanup.policy", value="compact")])
            ],
        ),
    ]
)


async def grown(client: Client, *, must_create: bool = True) -> None:
    """Make the group: `a` has everything, `b` has come, and `a` has been asked for half of it."""
    await client.call(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4)  # makes the topic of groups
    standbys = AlterableConfig(name="streams.num.standby.replicas", config_operation=0, value="1")
    resource = AlterConfigsResource(resource_type=32, resource_name=GROUP, configs=[standbys])
    await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    if must_create:
        await client.create("words", 2)
    endpoint, tags = Endpoint(host="a.example", port=8080), [KeyValue(key="zone", value="z")]
    await _joined(client, "a", rack_id="r", client_tags=tags)
    await _beat(
        client, "a", await _epoch_of(client, "a"), user_endpoint=endpoint
    )  # with topics missing: an error (G13)
    await _joined(client, "b")
    await _beat(client, "a", await _epoch_of(client, "a"))


async def committed(client: Client, member_id: str, topic: str, partition: int, offset: int) -> None:
    """A position, stored by a member."""
    where = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, committed_metadata="")
    request = OffsetCommitRequest(
        group_id=GROUP,
        member_id=member_id,
        generation_id_or_member_epoch=await _epoch_of(client, member_id),
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[where])],
    )
    reply = await client.call(request, 9)
    assert reply.topics[0].partitions[0].error_code == 0, reply


async def gone(client: Client) -> None:
    """Both members leave."""
    for member_id in ("a", "b"):
        await _beat(client, member_id, -1)


async def _joined(client: Client, member_id: str, **fields: Any) -> None:
    """Joins, and waits until its topics are there and it is in its target's epoch."""
    none: dict[str, list[TaskIds]] = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
    first = {"topology": COUNTING, "rebalance_timeout_ms": 60_000, "process_id": f"process-{member_id}"}
    reply = await _beat(client, member_id, 0, **none, **first, **fields)
    while reply.status:
        await asyncio.sleep(0.05)
        reply = await _beat(client, member_id, reply.member_epoch)


async def _epoch_of(client: Client, member_id: str) -> int:
    found = (await client.call(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)).groups[0]
    return int(next(each.member_epoch for each in found.members if each.member_id == member_id))


async def _beat(client: Client, member_id: str, member_epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
    while True:
        request = StreamsGroupHeartbeatRequest(group_id=GROUP, member_id=member_id, member_epoch=member_epoch, **fields)
        reply: StreamsGroupHeartbeatResponse = await client.call(request, 0)
        if reply.error_code not in (14, 15, 16):  # the coordinator is not there yet
            assert reply.error_code == 0, (reply.error_code, reply.error_message)
            return reply
        await asyncio.sleep(0.05)


async def described(client: Client) -> str:
    """StreamsGroupDescribe's answer, as its bytes."""
    answer = await client.call(StreamsGroupDescribeRequest(group_ids=[GROUP]), 0)
    return encode_message(answer, 0).hex()


def written(log: pathlib.Path) -> list[list[str | None]]:
    """Keys and values of streams groups in a log file."""
    found: list[list[str | None]] = []
    for file in sorted(log.glob("*.log")):
        for batch in batches(file.read_bytes()):
            for record in [] if batch.is_control else batch.records():
                key = bytes(record.key or b"")
                if int.from_bytes(key[:2], "big") in STREAMS_GROUP_KEYS:
                    found.append([key.hex(), None if record.value is None else bytes(record.value).hex()])
    return found


def main() -> int:
    launcher = kafka_launcher()
    if launcher is None:
        print("Apache Kafka cannot be had here: it needs Java 17 and mvn")
        return 77

    async def work(address: tuple[str, int]) -> str:
        client = await Client.connect_to(*address)
        await grown(client)
        return await described(client)

    with tempfile.TemporaryDirectory(prefix="oncelog-streams-") as directory:
        with ApacheKafkaNode(pathlib.Path(directory), launcher, CONFIG) as node:
            said = asyncio.run(work(node.address))
        found = written(pathlib.Path(directory) / "data" / "__consumer_offsets-0")
    FILE.write_text(json.dumps({"described": said, "records": found}, indent=1) + "\n")
    print(f"{len(found)} records of a streams group")
    return 0


if __name__ == "__main__":
    sys.exit(main())
