"""Records that no log may take, and places in logs that nobody may read."""

from __future__ import annotations

from functools import cache

from evidence.simulator.strangers.wrong import (
    LARGE_MESSAGE_BYTES,
    MARK,
    NOBODY,
    SMALL_MESSAGE_BYTES,
    STRANGE,
    STRANGE_LARGE,
    TOPIC,
    TRANSACTIONAL_ID,
    Wrong,
    wrong,
)
from evidence.world.doors import WALL_CLOCK_START_MS
from oncelog.errors import ErrorCode as E
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import Codec, build_batch, build_end_txn_marker

VALUE = f"{MARK}record".encode()
SEGMENT_BYTES = 1_048_576
SOMEBODYS_ID = b"nobody's topic !"
PRODUCE_TIMEOUT_MS = 1500


def batch(value: bytes = VALUE, **more: object) -> bytes:
    """A batch of one record."""
    return bytes(build_batch([(WALL_CLOCK_START_MS, None, value, ())], **more))  # type: ignore[arg-type]


def transactional(producer_id: int, producer_epoch: int, sequence: int = 0) -> bytes:
    """A transactional batch."""
    return batch(producer_id=producer_id, producer_epoch=producer_epoch, base_sequence=sequence, is_transactional=True)


def produce(
    topic: str,
    *records: bytes | None,
    partition: int = 0,
    acks: int = -1,
    transactional_id: str | None = None,
    topic_id: bytes = bytes(16),
) -> ProduceRequest:
    """A batch for a partition, others for the next ones."""
    data = [PartitionProduceData(index=partition + number, records=each) for number, each in enumerate(records)]
    topics = [TopicProduceData(name=topic, topic_id=topic_id, partition_data=data)]
    return ProduceRequest(
        transactional_id=transactional_id, acks=acks, timeout_ms=PRODUCE_TIMEOUT_MS, topic_data=topics
    )


def _flipped() -> bytes:
    damaged = bytearray(batch())
    damaged[-1] ^= 4
    return bytes(damaged)


def _moved() -> bytes:
    moved = bytearray(batch())
    moved[7] = 5  # the base offset
    return bytes(moved)


def _marker() -> bytes:
    return bytes(
        build_end_txn_marker(
            commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=WALL_CLOCK_START_MS
        )
    )


@cache
def larger_than_a_segment() -> Wrong:
    """A megabyte: built once."""
    records = batch(VALUE + bytes(SEGMENT_BYTES))
    assert len(records) < LARGE_MESSAGE_BYTES
    return wrong("a batch larger than a segment", produce(STRANGE_LARGE, records), 9, E.RECORD_LIST_TOO_LARGE)


@cache
def wrong_records() -> tuple[Wrong, ...]:
    """Produce."""
    too_large = batch(VALUE * SMALL_MESSAGE_BYTES)
    return (
        wrong("a checksum that is wrong", produce("a", _flipped()), 9, E.CORRUPT_MESSAGE),
        wrong("a topic that is not there", produce(TOPIC, batch()), 9, E.UNKNOWN_TOPIC_OR_PARTITION),
        wrong("a partition that is not there", produce("a", batch(), partition=99), 9, E.UNKNOWN_TOPIC_OR_PARTITION),
        wrong("a topic id of nobody", produce("", batch(), topic_id=SOMEBODYS_ID), 13, E.UNKNOWN_TOPIC_ID),
        wrong("two acknowledgements", produce("a", batch(), acks=2), 9, E.INVALID_REQUIRED_ACKS),
        wrong("a record that is too large", produce(STRANGE, too_large), 9, E.MESSAGE_TOO_LARGE),
        wrong("zstd of an old client", produce("a", batch(codec=Codec.ZSTD)), 6, E.UNSUPPORTED_COMPRESSION_TYPE),
        wrong("an internal topic", produce("__consumer_offsets", batch()), 9, *_INTERNAL),
        wrong("no transactional id", produce("a", transactional(7, 0)), 9, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        wrong(
            "two producers at once",
            produce("a", transactional(NOBODY, 0), transactional(NOBODY + 1, 0), transactional_id=TRANSACTIONAL_ID),
            9,
            E.INVALID_PRODUCER_ID_MAPPING,
        ),
        wrong(
            "a producer of nobody",
            produce("a", transactional(NOBODY, 0), transactional_id=TRANSACTIONAL_ID),
            11,
            E.INVALID_PRODUCER_ID_MAPPING,
        ),
        wrong(
            "somebody's transaction",
            produce("a", transactional(NOBODY, 0), transactional_id="client-0"),
            11,
            E.INVALID_PRODUCER_ID_MAPPING,
        ),
        wrong("a control batch", produce("a", _marker()), 9, E.INVALID_RECORD),
        wrong("two batches", produce("a", batch() * 2), 9, E.INVALID_RECORD),
        wrong("half a batch", produce("a", batch()[:40]), 9, E.INVALID_RECORD),
        wrong("no batch", produce("a", None), 9, E.INVALID_RECORD),
        wrong("a place of its own choice", produce("a", _moved()), 9, E.INVALID_RECORD),
    )


_INTERNAL = (E.INVALID_TOPIC_EXCEPTION, E.UNKNOWN_TOPIC_OR_PARTITION)  # it is made when it is needed first


def fetch(topic: str, offset: int = 0, *, topic_id: bytes = bytes(16), leader_epoch: int = -1, **more: int) -> object:
    """One partition."""
    partition = FetchPartition(fetch_offset=offset, current_leader_epoch=leader_epoch, partition_max_bytes=1000)
    topics = [FetchTopic(topic=topic, topic_id=topic_id, partitions=[partition])]
    return FetchRequest(min_bytes=1, max_wait_ms=100, topics=topics, **more)


def list_offsets(topic: str, timestamp: int, leader_epoch: int = -1) -> ListOffsetsRequest:
    """One partition."""
    partition = ListOffsetsPartition(timestamp=timestamp, current_leader_epoch=leader_epoch)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])


def delete_records(topic: str, offset: int) -> DeleteRecordsRequest:
    """Up to an offset of one partition."""
    partitions = [DeleteRecordsPartition(offset=offset)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000)


@cache
def wrong_reads() -> tuple[Wrong, ...]:
    """Fetch, ListOffsets, DeleteRecords."""
    table = (
        ("after the end", fetch("a", NOBODY), 12, E.OFFSET_OUT_OF_RANGE),
        ("a leader to come", fetch("a", leader_epoch=7), 12, E.UNKNOWN_LEADER_EPOCH),
        ("a leader that never was", fetch("a", leader_epoch=-2), 12, E.FENCED_LEADER_EPOCH),
        ("reads a topic that is not there", fetch(TOPIC), 12, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("reads a topic id of nobody", fetch("", topic_id=SOMEBODYS_ID), 13, E.UNKNOWN_TOPIC_ID),
        ("a session of nobody", fetch("a", session_id=12345, session_epoch=5), 12, E.FETCH_SESSION_ID_NOT_FOUND),
        ("offsets of no topic", list_offsets(TOPIC, -1), 6, E.UNKNOWN_TOPIC_OR_PARTITION),
        ("offsets of a leader to come", list_offsets("a", -1, 7), 6, E.UNKNOWN_LEADER_EPOCH),
        ("a timestamp of later versions", list_offsets("a", -6), 6, E.UNSUPPORTED_VERSION),
        ("deletes what is not there yet", delete_records("a", NOBODY), 2, E.OFFSET_OUT_OF_RANGE),
        ("deletes of no topic", delete_records(TOPIC, 0), 2, E.UNKNOWN_TOPIC_OR_PARTITION),
    )
    return tuple(wrong(name, message, version, code) for name, message, version, code in table)  # type: ignore[arg-type]
