"""Requests as the bytes of their frames, made before anything is measured, and the error codes of their replies."""

from __future__ import annotations

from typing import Any

from oncelog.wire.api import ApiKey
from oncelog.wire.frame import decode_response, encode_request
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

CLIENT_ID = "bench"
NO_PRODUCER = (-1, -1)


def frame(message: Any, version: int, correlation_id: int = 1) -> bytes:
    """A request's frame, its size included."""
    return b"".join(encode_request(message.KEY, version, correlation_id, CLIENT_ID, message))


def batch(
    values: list[bytes],
    stamp_ms: int,
    *,
    producer: tuple[int, int] = NO_PRODUCER,
    sequence: int = -1,
    is_transactional: bool = False,
) -> bytearray:
    """A batch of records without keys."""
    return build_batch(
        [(stamp_ms, None, value, ()) for value in values],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=is_transactional,
    )


def produce(
    topic: str,
    partition: int,
    values: list[bytes],
    stamp_ms: int,
    *,
    producer: tuple[int, int] = NO_PRODUCER,
    sequence: int = -1,
    transactional_id: str | None = None,
    correlation_id: int = 1,
    version: int = 10,
) -> bytes:
    """A Produce request with one batch, acks=all."""
    records = batch(
        values, stamp_ms, producer=producer, sequence=sequence, is_transactional=transactional_id is not None
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=records)])
    message = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=30_000, topic_data=[data])
    return frame(message, version, correlation_id)


def fetch(
    topic_id: Any, partition: int, offset: int, *, max_bytes: int, correlation_id: int = 1, committed: bool = False
) -> bytes:
    """A Fetch request (v16, outside a session) that waits for one byte."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=max_bytes)
    message = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=int(committed),
        topics=[FetchTopic(topic_id=topic_id, partitions=[wanted])],
    )
    return frame(message, 16, correlation_id)


def add_partitions(transactional_id: str, producer: tuple[int, int], topic: str, partition: int) -> bytes:
    """AddPartitionsToTxn v0, as librdkafka sends it."""
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
    )
    return frame(message, 0)


def end_transaction(transactional_id: str, producer: tuple[int, int], *, version: int) -> bytes:
    """EndTxn that commits: v1 is librdkafka's, v5 ours (KIP-890: the reply has the next epoch)."""
    message = EndTxnRequest(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=True
    )
    return frame(message, version)


def metadata(topics: list[str], correlation_id: int = 1) -> bytes:
    """Metadata of these topics."""
    asked = [MetadataRequestTopic(name=topic) for topic in topics]
    return frame(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 12, correlation_id)


def create_topics(names: list[str], partition_count: int = 1, **configs: str) -> bytes:
    """One CreateTopics request for all of them; configs with underscores (file_delete_delay_ms="0")."""
    chosen = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    topics = [
        CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1, configs=chosen)
        for name in names
    ]
    return frame(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)


def delete_topics(names: list[str]) -> bytes:
    """One DeleteTopics request."""
    return frame(DeleteTopicsRequest(topic_names=names, timeout_ms=60_000), 5)


def reply_of(api_key: int, version: int, reply: Any) -> Any:
    """The message in a reply's frame, whose size is still in front."""
    return decode_response(api_key, version, memoryview(reply)[4:])[1]


def error_codes(message: Any) -> list[int]:
    """Every error code in a message, wherever it is."""
    found = []
    for name in ("error_code", "partition_error_code"):
        if hasattr(message, name):
            found.append(int(getattr(message, name)))
    for field in type(message).FIELDS:
        value = getattr(message, field.name)
        if isinstance(value, list):
            for item in value:
                if hasattr(type(item), "FIELDS"):
                    found += error_codes(item)
    return found


def request_of(sent: bytes) -> tuple[ApiKey, int]:
    """API and version of a request's frame."""
    return ApiKey(int.from_bytes(sent[4:6], "big")), int.from_bytes(sent[6:8], "big")
