"""What a Produce response means for one batch: done, send it again, or over."""

from __future__ import annotations

from enum import Enum

from oncelog.core.producer.batch import ProducerBatch
from oncelog.errors import ErrorCode, error_for


class BatchVerdict(Enum):
    """What to do about a batch."""

    DONE = "stored"
    DONE_BEFORE = "stored by an earlier attempt, at an offset nobody remembers"
    RETRY = "send it again"
    FAIL = "it is over"


MOVED = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors that say the metadata is old."""


def verdict_on_batch(batch: ProducerBatch, error_code: int, log_start_offset: int = -1) -> BatchVerdict:
    """The verdict on `batch` after an answer with `error_code`.

    An out-of-order answer is believed only when nothing of the partition was outstanding before this batch as it was
    sent; else an earlier batch is on its way once more. UNKNOWN_PRODUCER_ID is believed when the broker knows its log.
    """
    if error_code == ErrorCode.NONE:
        return BatchVerdict.DONE
    if error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
        return BatchVerdict.DONE_BEFORE
    if error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return BatchVerdict.RETRY if batch.has_sequence and not batch.was_first_when_sent else BatchVerdict.FAIL
    if error_code == ErrorCode.UNKNOWN_PRODUCER_ID:
        return BatchVerdict.RETRY if log_start_offset < 0 else BatchVerdict.FAIL
    return BatchVerdict.RETRY if error_for(error_code).retriable else BatchVerdict.FAIL
