"""One Fetch of one partition for who looks into a log: batches with their headers and the partition's bounds, markers included.

A consumer hands out what its application may see; this hands out everything, and who reads decides.
"""

from __future__ import annotations

from typing import Any

from oncelog.client.admin.hanging import AdminHanging
from oncelog.client.cluster.each_leader import ask_leaders
from oncelog.errors import CorruptBatch, ErrorCode, error_for
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.fetch import AbortedTransaction, FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.record_batch import RecordBatch, batches

READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one Fetch gave. `next_offset`: the offset behind its last batch, or the one asked for where nothing came."""

    log_start_offset: int
    last_stable_offset: int
    high_watermark: int
    batches: tuple[RecordBatch, ...]
    aborted: tuple[AbortedTransaction, ...]
    next_offset: int
    size_bytes: int
    damaged: str = ""  # why reading ends here, where a batch is damaged


async def read_chunk(
    admin: AdminHanging,
    at: TopicPartition,
    fetch_offset: int,
    *,
    bytes_max: int,
    read_committed: bool,
    timeout_ms: int = 5_000,
) -> Chunk:
    """The batches from an offset on, at least one where there is one; with `read_committed` up to the last stable offset, with
    the aborted transactions among them. Raises KafkaError (OFFSET_OUT_OF_RANGE for offsets that are not kept)."""
    cluster = admin._cluster

    async def ask(node: Node, _: list[TopicPartition]) -> tuple[dict[TopicPartition, Any], dict[TopicPartition, Any]]:
        view = cluster.view.topics.get(at.topic)
        part = FetchPartition(partition=at.partition, fetch_offset=fetch_offset, partition_max_bytes=bytes_max)
        topic_id = bytes(16) if view is None else view.topic_id
        message = FetchRequest(
            max_wait_ms=0,
            max_bytes=bytes_max,
            isolation_level=READ_COMMITTED if read_committed else READ_UNCOMMITTED,
            topics=[FetchTopic(topic=at.topic, topic_id=topic_id, partitions=[part])],
        )
        response = await cluster.request(node, message, timeout_ms=timeout_ms)
        if response.error_code:
            raise error_for(response.error_code, f"read {at}")
        (answer,) = (each for topic in response.responses for each in topic.partitions)
        # Damage is no reason to try again.
        is_error = answer.error_code not in (ErrorCode.NONE, ErrorCode.CORRUPT_MESSAGE)
        error = cluster.refusal(answer.error_code, f"read {at}", at.topic, FetchRequest) if is_error else None
        return ({at: answer}, {}) if error is None else ({}, {at: error})

    answer = (await ask_leaders(cluster, "read records", [at], ask, timeout_ms=timeout_ms, request=FetchRequest))[at]
    data, found, damaged, next_offset = bytes(answer.records or b""), [], "", fetch_offset
    if answer.error_code:
        damaged = f"damaged at offset {fetch_offset}: the broker says that it is not what was written"
    try:
        for batch in batches(data):
            batch.check_crc()
            if batch.base_offset >= answer.high_watermark:
                break
            found.append(batch)
            next_offset = batch.end_offset
    except CorruptBatch as error:
        damaged = f"damaged at offset {next_offset}: {error}"
    bounds = (answer.log_start_offset, answer.last_stable_offset, answer.high_watermark)
    aborted = tuple(answer.aborted_transactions or ())
    return Chunk(*bounds, tuple(found), aborted, next_offset, len(data), damaged)
