"""A group's positions belong to a topic, not to its name: one that was deleted and made again begins without any."""

from __future__ import annotations

import pytest
from evidence.world.broker import run
from evidence.world.client import TOPIC_ID, ScriptedBroker
from evidence.world.client import run as run_scripted

from oncelog import Admin, Broker, Consumer, OffsetAndMetadata, Producer, TopicPartition, errors
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.wire.schema import ZERO_UUID
from tests.client.consumer.test_consumer import ZERO as T0
from tests.client.consumer.test_consumer import consumer, fill

ZERO, OTHER = TopicPartition("t", 0), TopicPartition("other", 0)


def served(work):
    """Runs `work` with a broker that has the topics t and other, and a started consumer of the group g."""

    async def main():
        async with Broker() as broker:
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Admin(**servers) as admin, Producer(**servers) as producer:
                await admin.create_topics({"t": 1, "other": 1})
                options = {"group_id": "g", "auto_offset_reset": "earliest", "enable_auto_commit": False}
                options["default_api_timeout_ms"] = 1500
                async with Consumer(**servers, **options) as reader:
                    await work(admin, producer, reader)

    run(main())


async def make_again(admin, producer, values):
    await admin.delete_topics(["t"])
    await admin.create_topics({"t": 1})
    for value in values:
        await producer.send_and_wait("t", value)


async def read(reader, count):
    found = []
    while len(found) < count:
        found += [record.value for record in await reader.poll(timeout_ms=200)]
    return found


def test_a_position_in_a_topic_that_was_made_again_is_not_stored_and_the_others_are():
    async def work(admin, producer, reader):
        for topic in ("t", "other"):
            await producer.send_and_wait(topic, b"old")
        reader.assign([ZERO, OTHER])
        await read(reader, 2)
        positions = reader.current_positions()
        await make_again(admin, producer, [b"new"])
        with pytest.raises(errors.UnknownTopicId, match=r"the topic was deleted and made again: t-0$"):
            await reader.commit(positions)
        assert await admin.list_consumer_group_offsets("g") == {OTHER: OffsetAndMetadata(1, "", 0)}

    served(work)


def test_a_plain_number_is_a_place_in_the_topic_that_is_there():
    async def work(admin, producer, reader):
        await make_again(admin, producer, [])
        await reader.commit({ZERO: 7})
        assert await admin.list_consumer_group_offsets("g") == {ZERO: OffsetAndMetadata(7)}

    served(work)


def test_a_topic_that_is_not_there_is_refused_by_its_name():
    async def work(admin, producer, reader):
        await producer.send_and_wait("t", b"old")
        reader.assign([ZERO])
        await read(reader, 1)
        await admin.delete_topics(["t"])
        with pytest.raises(
            errors.RequestTimedOut, match=r"UNKNOWN_TOPIC_OR_PARTITION: topic 't' is not there any more"
        ):
            await reader.commit()

    served(work)


def test_a_member_that_leaves_stores_nothing_for_the_new_topic():
    async def work(admin, producer, reader):
        servers = {"bootstrap_servers": reader._cluster.config.bootstrap_servers}
        options = {"group_id": "g", "auto_offset_reset": "earliest"}
        for _ in range(3):
            await producer.send_and_wait("t", b"old")
        async with Consumer("t", **servers, **options, auto_commit_interval_ms=60_000) as member:
            await read(member, 3)
            member.pause(ZERO)  # it does not hear that the topic is another one
            await make_again(admin, producer, [b"1", b"2", b"3", b"4"])
        async with Consumer("t", **servers, **options) as next_member:
            assert await read(next_member, 4) == [b"1", b"2", b"3", b"4"]

    served(work)


def test_an_administrator_takes_positions_from_one_cluster_to_another():
    async def main():
        async with Broker() as one, Broker() as two:
            positions = {}
            for broker in (one, two):
                servers = {"bootstrap_servers": broker.bootstrap_servers}
                async with Admin(**servers) as admin, Producer(**servers) as producer:
                    await admin.create_topics({"t": 1})
                    await producer.send_and_wait("t", b"0")
                    if broker is one:
                        async with Consumer(**servers, auto_offset_reset="earliest") as reader:
                            reader.assign([ZERO])
                            await read(reader, 1)
                            positions = reader.current_positions()
                            assert positions[ZERO].topic_id
                    else:
                        await admin.alter_consumer_group_offsets("g", positions)
                        assert await admin.list_consumer_group_offsets("g") == {ZERO: OffsetAndMetadata(1, "", 0)}

    run(main())


@pytest.mark.parametrize("version_max", [9, 10])
def test_brokers_before_4_1_are_told_names(version_max):
    by_id = version_max == 10

    def stored(message):
        (topic,) = message.topics
        assert (topic.name, bytes(topic.topic_id)) == (("", TOPIC_ID) if by_id else ("t", ZERO_UUID))
        answers = [OffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions]
        return OffsetCommitResponse(
            topics=[OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=answers)]
        )

    async def work():
        broker = ScriptedBroker(versions={ApiKey.OFFSET_COMMIT: version_max})
        fill(broker)
        broker.script(ApiKey.OFFSET_COMMIT, stored)
        async with consumer(broker, group_id="g", enable_auto_commit=False) as c:
            c.assign([T0])
            await c.poll(1_000)
            await c.commit({T0: 5})
            assert broker.versions_asked(ApiKey.OFFSET_COMMIT) == [version_max]

    run_scripted(work)
