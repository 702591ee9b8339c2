"""Rows of Arrow batches on their way into produce batches: which partition each goes to, and sections that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from oncelog.client.config import ProducerConfig
from oncelog.core.partitioner import partition_for_key
from oncelog.wire.arrow_records import EncodedRecords, encode_from_arrow
from oncelog.wire.compression import Codec
from oncelog.wire.record_batch import HEADER_BYTES, build_batch_of_section

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES_MAX = 1 << 19
"""Larger than batch_size: rows that are there at once need not wait for one another."""


class ArrowSource:
    """One section of rows that becomes a batch when its sequence is known."""

    def __init__(self, records: EncodedRecords, codec: Codec) -> None:
        self._records, self._codec = records, codec
        self.record_count = records.record_count
        self.size_bytes = HEADER_BYTES + len(records.section)

    def encode(self, *, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool) -> bytearray:
        """The whole batch."""
        return build_batch_of_section(
            **self._records._asdict(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
            codec=self._codec,
        )


def sections(
    batch: pa.RecordBatch, rows: pa.Array | None, now_ms: int, config: ProducerConfig
) -> Iterator[ArrowSource]:
    """The rows as sections, none larger than a request takes; one record that is larger comes alone."""
    size_bytes_max = min(BATCH_BYTES_MAX, config.max_request_size, config.buffer_memory) - HEADER_BYTES
    for encoded in encode_from_arrow(batch, timestamp_ms=now_ms, size_bytes_max=size_bytes_max, rows=rows):
        yield ArrowSource(encoded, config.codec)


def partitioned_rows(
    batch: pa.RecordBatch, partition_count: int, partition: int | None, sticky: Callable[[int], int]
) -> Iterator[tuple[int, pa.Array | None]]:
    """Partitions and the indexes of their rows, in order; None is all rows.

    A row's own `partition` goes first, then its key's hash (worked out once per distinct key), then a sticky choice.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not batch.num_rows:
        return
    if partition is not None or partition_count == 1:
        yield (0 if partition is None else partition), None
        return
    chosen = pa.nulls(batch.num_rows, pa.int32())
    names = batch.schema.names
    if "partition" in names and batch.column("partition").type != pa.null():
        chosen = batch.column("partition").cast(pa.int32())
    if "key" in names and batch.column("key").type != pa.null() and chosen.null_count:
        chosen = pc.coalesce(chosen, _by_key(batch.column("key"), partition_count))
    if chosen.null_count:
        chosen = pc.fill_null(chosen, sticky(batch.nbytes))
    for index in sorted(pc.unique(chosen).to_pylist()):
        rows = pc.indices_nonzero(pc.equal(chosen, index))
        yield index, (None if len(rows) == batch.num_rows else rows)


def _by_key(keys: pa.Array, partition_count: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    if keys.type not in (pa.binary(), pa.large_binary()):
        keys = keys.cast(pa.binary())
    encoded = pc.dictionary_encode(keys)
    of_distinct = pa.array(
        [partition_for_key(key, partition_count) for key in encoded.dictionary.to_pylist()], pa.int32()
    )
    return pc.take(of_distinct, encoded.indices)
