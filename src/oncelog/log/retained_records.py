"""A batch with fewer records, as the cleaner leaves it (KIP-98, KIP-534): offsets, timestamps and identity unchanged.

What is kept of a record is copied byte by byte; only where a delete horizon takes the place of the base timestamp are the
timestamp deltas written anew. The last offset stays, so a producer's last sequence can still be derived.
"""

from __future__ import annotations

from collections.abc import Sequence

from oncelog.errors import CorruptBatch
from oncelog.wire.compression import Codec, compress
from oncelog.wire.record_batch import (
    CODEC_MASK,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    NO_TIMESTAMP,
    RecordBatch,
    batch_of_header,
)
from oncelog.wire.varint import add_delta, delta_between, read_size, read_varint, varint_bytes, write_varint


def emptied(batch: RecordBatch) -> bytearray:
    """The batch's header alone: it keeps the producer's epoch and last sequence, and the last offset."""
    return batch_of_header(
        batch,
        b"",
        attributes=batch.attributes & ~(CODEC_MASK | DELETE_HORIZON_BIT),
        base_timestamp=NO_TIMESTAMP,
        max_timestamp=batch.max_timestamp,
        record_count=0,
    )


def with_records(
    batch: RecordBatch,
    section: bytes,
    kept: Sequence[int],
    *,
    max_timestamp: int,
    delete_horizon_ms: int | None = None,
) -> bytearray:
    """The batch with the records at the indexes `kept` (ascending, not empty) of its decompressed `section`.

    `max_timestamp` is theirs, in ms. A new `delete_horizon_ms` goes where the base timestamp was; without one the batch
    keeps its own base timestamp or horizon. Raises CorruptBatch.
    """
    spans = record_spans(section, batch.record_count)
    attributes, base_timestamp = batch.attributes, batch.base_timestamp
    if delete_horizon_ms is None:
        new_section = b"".join([section[start:end] for start, end in map(spans.__getitem__, kept)])
    else:
        attributes |= DELETE_HORIZON_BIT
        new_section = bytes(_rebased(section, [spans[index] for index in kept], base_timestamp, delete_horizon_ms))
        base_timestamp = delete_horizon_ms
    codec = batch.codec
    return batch_of_header(
        batch,
        new_section if codec is Codec.NONE else compress(codec, new_section),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp if batch.timestamp_type == CREATE_TIME else batch.max_timestamp,
        record_count=len(kept),
    )


def record_spans(section: bytes, record_count: int) -> list[tuple[int, int]]:
    """Where each record lies in a decompressed section, its length included. Raises CorruptBatch."""
    spans = []
    position, end = 0, len(section)
    for _ in range(record_count):
        size_bytes, body = read_size(section, position, end)
        if size_bytes < 0:
            raise CorruptBatch("a record's length is impossible")
        spans.append((position, body + size_bytes))
        position = body + size_bytes
    return spans


def _rebased(
    section: bytes, spans: Sequence[tuple[int, int]], base_timestamp: int, new_base_timestamp: int
) -> bytearray:
    out = bytearray()
    for start, end in spans:
        _, body = read_size(section, start, end)
        delta, rest = read_varint(section, body + 1, end)
        new_delta = delta_between(new_base_timestamp, add_delta(base_timestamp, delta))
        write_varint(out, 1 + varint_bytes(new_delta) + end - rest)
        out.append(section[body])  # the record's attributes
        write_varint(out, new_delta)
        out += section[rest:end]
    return out
