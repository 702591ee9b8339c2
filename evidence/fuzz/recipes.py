"""Requests that a well-behaved client would send next: they keep transactions, groups and sessions going under the fire."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.record_batch import build_batch

if TYPE_CHECKING:
    from evidence.fuzz.values import Values

Step = tuple[Any, int]  # the message and its version
PROTOCOL = bytes.fromhex("0001000000010002743000000000ffffffff")  # a consumer's subscription to t0


def next_step(values: Values) -> Step:
    """What the present actor may well do next."""
    return values.random.choice(_RECIPES)(values)


def _create(values: Values) -> Step:
    name = values.random.choice(("t0", "t1", "t2", "compacted"))
    configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")] if name == "compacted" else []
    asked = CreatableTopic(name=name, num_partitions=2, replication_factor=1, configs=configs)
    return CreateTopicsRequest(topics=[asked], timeout_ms=1000), values.random.randint(2, 7)


def _metadata(values: Values) -> Step:
    return MetadataRequest(topics=None), values.random.randint(10, 12)


def _init(values: Values) -> Step:
    actor = values.actor
    return InitProducerIdRequest(transactional_id=actor.transactional_id, transaction_timeout_ms=20_000), 4


def _produce(values: Values) -> Step:
    actor, random = values.actor, values.random
    topic, partition = random.choice(("t0", "t1", "t2")), random.randrange(2)
    key = 10 * int(topic[1]) + partition
    is_transactional = actor.producer_id >= 0
    sequence = actor.sequences.get(key, 0)
    batch = build_batch(
        [(values.now_ms, b"k", b"v", ()) for _ in range(random.choice((1, 2)))],
        producer_id=actor.producer_id,
        producer_epoch=actor.producer_epoch if is_transactional else -1,
        base_sequence=sequence if is_transactional else -1,
        is_transactional=is_transactional,
    )
    actor.sequences[key] = sequence + batch[60]
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=bytes(batch))])
    transactional_id = actor.transactional_id if is_transactional else None
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=1000, topic_data=[data])
    return request, random.choice((9, 11, 12, 12, 12))


def _add_partitions(values: Values) -> Step:
    actor = values.actor
    topics = [AddPartitionsToTxnTopic(name=name, partitions=[0, 1]) for name in ("t0", "t1")]
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=actor.transactional_id,
        v3_and_below_producer_id=actor.producer_id,
        v3_and_below_producer_epoch=actor.producer_epoch,
        v3_and_below_topics=topics,
    )
    return request, values.random.randint(0, 3)


def _add_offsets(values: Values) -> Step:
    actor = values.actor
    request = AddOffsetsToTxnRequest(
        transactional_id=actor.transactional_id,
        producer_id=actor.producer_id,
        producer_epoch=actor.producer_epoch,
        group_id=actor.group_id,
    )
    return request, values.random.randint(0, 4)


def _offsets(values: Values) -> Step:
    actor = values.actor
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    request = TxnOffsetCommitRequest(
        transactional_id=actor.transactional_id,
        group_id=actor.group_id,
        producer_id=actor.producer_id,
        producer_epoch=actor.producer_epoch,
        topics=[TxnOffsetCommitRequestTopic(name="t0", partitions=[partition])],
    )
    return request, values.random.choice((2, 3, 5, 5))


def _end(values: Values) -> Step:
    actor, random = values.actor, values.random
    request = EndTxnRequest(
        transactional_id=actor.transactional_id,
        producer_id=actor.producer_id,
        producer_epoch=actor.producer_epoch,
        committed=random.random() < 0.6,
    )
    return request, random.choice((1, 3, 5, 5, 5))


def _fetch(values: Values) -> Step:
    actor, random = values.actor, values.random
    wanted = [
        FetchPartition(partition=p, fetch_offset=random.choice((0, 0, 2, 9)), partition_max_bytes=1 << 16)
        for p in (0, 1)
    ]
    request = FetchRequest(
        max_wait_ms=random.choice((0, 0, 10)),
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=random.randrange(2),
        session_id=actor.session_id,
        session_epoch=actor.session_epoch,
        topics=[FetchTopic(topic=name, partitions=wanted) for name in ("t0", "t1")],
    )
    if actor.session_id:
        actor.session_epoch += 1
    return request, random.choice((7, 11, 12))


def _join(values: Values) -> Step:
    actor = values.actor
    request = JoinGroupRequest(
        group_id=actor.group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=1_000,
        member_id=actor.member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=PROTOCOL)],
    )
    return request, values.random.randint(1, 9)


def _sync(values: Values) -> Step:
    actor = values.actor
    request = SyncGroupRequest(
        group_id=actor.group_id,
        generation_id=actor.generation_id,
        member_id=actor.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id=actor.member_id, assignment=PROTOCOL)],
    )
    return request, 5


def _heartbeat(values: Values) -> Step:
    actor = values.actor
    request = HeartbeatRequest(group_id=actor.group_id, generation_id=actor.generation_id, member_id=actor.member_id)
    return request, values.random.randint(0, 4)


def _commit(values: Values) -> Step:
    actor = values.actor
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="m")
    request = OffsetCommitRequest(
        group_id=actor.group_id,
        generation_id_or_member_epoch=actor.generation_id,
        member_id=actor.member_id,
        topics=[OffsetCommitRequestTopic(name="t0", partitions=[partition])],
    )
    return request, values.random.choice((2, 6, 8))


def _consumer_heartbeat(values: Values) -> Step:
    actor = values.actor
    is_new = actor.member_epoch <= 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=f"c{actor.group_id}",
        member_id=actor.uuid,
        member_epoch=actor.member_epoch,
        rebalance_timeout_ms=5_000 if is_new else -1,
        subscribed_topic_names=["t0", "t1"] if is_new else None,
        topic_partitions=[] if is_new else None,
    )
    return request, values.random.randint(0, 1)


def _streams_heartbeat(values: Values) -> Step:
    actor, random = values.actor, values.random
    is_new = actor.member_epoch <= 0
    source = Subtopology(
        subtopology_id="0", source_topics=["t0"], state_changelog_topics=[TopicInfo(name=f"{actor.group_id}-store")]
    )
    owned = [TaskIds(subtopology_id="0", partitions=[0])] if random.random() < 0.3 and not is_new else []
    request = StreamsGroupHeartbeatRequest(
        group_id=f"s{actor.group_id}",
        member_id=actor.uuid,
        member_epoch=actor.member_epoch,
        rebalance_timeout_ms=5_000 if is_new else -1,
        topology=Topology(subtopologies=[source]) if is_new else None,
        active_tasks=owned,
        standby_tasks=[],
        warmup_tasks=[],
        process_id=actor.uuid,
        shutdown_application=random.random() < 0.05,
    )
    return request, 0


_RECIPES: tuple[Callable[[Values], Step], ...] = (
    _create,
    _create,
    _metadata,
    _init,
    _init,
    *(_produce,) * 6,
    _add_partitions,
    _add_offsets,
    *(_offsets,) * 2,
    *(_end,) * 3,
    *(_fetch,) * 3,
    *(_join,) * 2,
    _sync,
    _heartbeat,
    _commit,
    *(_consumer_heartbeat,) * 2,
    *(_streams_heartbeat,) * 2,
)
