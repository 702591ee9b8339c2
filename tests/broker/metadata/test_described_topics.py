"""Answers that are kept: the same bytes as fresh ones, made anew with their topic, and none of a topic that cannot be served."""

from __future__ import annotations

from dataclasses import replace

from oncelog.broker.handlers.metadata.metadata import _topic
from oncelog.broker.metadata.described_topics import DescribedTopics
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.leadership import alone
from oncelog.types import TopicPartition
from oncelog.wire.messages.metadata import MetadataResponse
from oncelog.wire.schema import encode_message

TOPIC = Topic("orders", b"i" * 16, 3)


def made(*topics: Topic) -> tuple[DescribedTopics, ClusterMetadata, set[TopicPartition]]:
    metadata, offline = ClusterMetadata(), set()
    metadata.topics = {topic.name: topic for topic in topics}
    return DescribedTopics(lambda: metadata, alone(7), offline.__contains__), metadata, offline


def test_its_bytes_are_those_of_a_fresh_answer_in_every_version():
    described, _, _ = made(TOPIC)
    for asks_operations in (False, True):
        fresh = _topic(TOPIC, asks_operations, alone(7), lambda _: False)
        for version in range(14):
            if version < 8 and asks_operations:
                continue
            for _ in range(2):  # encoded, then kept
                kept = described.of(TOPIC, asks_operations, _topic)
                assert encode_message(MetadataResponse(topics=[kept, fresh, kept]), version) == encode_message(
                    MetadataResponse(topics=[fresh] * 3), version
                )


def test_an_answer_is_kept_until_its_topic_is_another_one():
    described, metadata, _ = made(TOPIC)
    kept = described.of(TOPIC, False, _topic)
    assert described.of(TOPIC, False, _topic) is kept
    metadata.topics["orders"] = wider = replace(TOPIC, partition_count=4)
    assert len(described.of(wider, False, _topic).struct.partitions) == 4


def test_while_a_partition_is_offline_nothing_is_kept():
    described, _, offline = made(TOPIC)
    kept = described.of(TOPIC, False, _topic)
    offline.add(TopicPartition("orders", 2))
    assert described.of(TOPIC, False, _topic) is None
    offline.clear()
    assert described.of(TOPIC, False, _topic) is kept


def test_what_was_deleted_goes_with_the_next_new_answer():
    topics = [replace(TOPIC, name=f"t{index}") for index in range(10)]
    described, metadata, _ = made(*topics)
    for topic in topics:
        described.of(topic, False, _topic)
    metadata.topics = {"new": replace(TOPIC, name="new")}
    metadata.topics_version += 1
    described.of(metadata.topics["new"], False, _topic)
    assert len(described) == 1
