"""Who leads a partition where several processes share them."""

from __future__ import annotations

from collections import Counter

import pytest

from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.leadership import Leadership, Led, alone
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import TopicRecord

THREE = Leadership(8, (7, 8, 9))


def topic(name: str, number: int, partition_count: int = 6) -> Topic:
    return Topic(name, number.to_bytes(16, "big"), partition_count)


def test_one_process_leads_everything() -> None:
    only = alone(5)
    assert only.is_alone
    assert only.is_controller
    assert only.others == ()
    assert {only.leader_of(topic("t", number), index) for number in range(9) for index in range(6)} == {5}


@pytest.mark.parametrize("number", range(5))
def test_a_topic_goes_round_and_every_process_says_the_same(number: int) -> None:
    leaders = [THREE.leader_of(topic("t", number), index) for index in range(6)]
    assert leaders[:3] == leaders[3:]
    assert set(leaders) == {7, 8, 9}
    assert leaders == [Leadership(9, THREE.node_ids).leader_of(topic("t", number), index) for index in range(6)]


def test_topics_of_one_partition_are_spread() -> None:
    counts = Counter(THREE.leader_of(topic(f"t{number}", number, 1), 0) for number in range(300))
    assert set(counts.values()) == {100}


@pytest.mark.parametrize(
    "name", ["__transaction_state", "__consumer_offsets", "__share_group_state", "__oncelog_audit"]
)
def test_partitions_of_coordinators_begin_with_the_first_process(name: str) -> None:
    assert [THREE.leader_of(topic(name, 77), index) for index in range(4)] == [7, 8, 9, 7]


def test_the_first_is_the_controller() -> None:
    assert (THREE.controller_id, THREE.is_controller, THREE.others) == (7, False, (7, 9))
    assert Leadership(7, (7, 8)).is_controller


def test_what_is_said_of_a_partition_that_is_not_led_here() -> None:
    metadata = ClusterMetadata()
    metadata.apply(TopicRecord(name="t", topic_id=bytes(16), partition_count=3))
    led = Led(metadata, THREE)
    here = [index for index in range(3) if led.topic_of(TopicPartition("t", index)) is not None]
    assert here == [1]
    assert led.why_not(TopicPartition("t", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert led.why_not(TopicPartition("t", 3)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert led.why_not(TopicPartition("u", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert led.topic_of(TopicPartition("t", -1)) is None
