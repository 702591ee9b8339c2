"""The error of a consumer that met a damaged batch, found by itself or told by the broker: where it is."""

from __future__ import annotations

from oncelog.errors import CorruptBatch, CorruptRecord
from oncelog.types import TopicPartition


def corrupt(topic_partition: TopicPartition, offset: int | None, error: CorruptBatch | None = None) -> CorruptRecord:
    """`error` None: the broker refuses to give what lies there."""
    why = "the broker says that what is stored there is damaged" if error is None else str(error)
    made = CorruptRecord(f"{topic_partition} at offset {offset}: {why}")
    made.topic_partition, made.offset = topic_partition, offset
    return made
