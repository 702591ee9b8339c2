"""Rows of Arrow batches on their way into produce batches: which partition each goes to, and sections that fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from oncelog.client import arguments
from oncelog.client.config import ProducerConfig
from oncelog.client.producer.arguments import too_large
from oncelog.core.producer.batch import RECORD_OVERHEAD_BYTES, ProducedRecord
from oncelog.core.producer.partitioner import Partitioner
from oncelog.errors import InvalidArgument, need
from oncelog.wire.arrow_records import EncodedRecords, encode_from_arrow, rows_by_partition
from oncelog.wire.compression import Compression
from oncelog.wire.record_batch import HEADER_BYTES, build_batch_of_section
from oncelog.wire.record_codec import parse_records

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_BYTES_MAX = 1 << 19
"""Larger than batch_size: rows that are there at once need not wait for one another."""

WRITTEN_COLUMNS = ("key", "value", "headers", "partition", "timestamp", "topic")
COLUMNS = frozenset((*WRITTEN_COLUMNS, "offset", "timestampType"))
"""The last two are what a batch that was read has beside them; any other is a mistyped one, whose content would be lost."""

T = TypeVar("T")
WRONG = (TypeError, ValueError, OverflowError, IndexError, NotImplementedError)
"""What pyarrow and our codec raise for columns that are no keys, values, headers, partitions or timestamps."""


class ArrowSource:
    """One section of rows that becomes a batch when its sequence is known."""

    def __init__(self, records: EncodedRecords, compression: Compression) -> None:
        self._records, self._compression = records, compression
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
            codec=self._compression.codec,
            compression_level=self._compression.level,
        )

    def records(self) -> list[ProducedRecord]:
        """The rows as objects: only where the broker refused the batch, and takes some of it."""
        section, count, base_timestamp, _ = self._records
        found = parse_records(bytes(section), count, 0, base_timestamp, None)
        return [(each.timestamp, each.key, each.value, each.headers) for each in found]


def checked_batch(batch: Any) -> None:
    """Raise InvalidArgument for what is no Arrow batch with values, MissingLibrary where there can be none."""
    need("send_arrow", "pyarrow", "arrow")
    import pyarrow as pa

    if isinstance(batch, pa.Table):
        raise InvalidArgument("send_arrow takes a pyarrow.RecordBatch: send each of table.to_batches()")
    if not isinstance(batch, pa.RecordBatch):
        raise InvalidArgument(f"send_arrow takes a pyarrow.RecordBatch, not {arguments.shown(batch)}")
    names = batch.schema.names
    if names.count("value") != 1:
        raise InvalidArgument(f"send_arrow needs one column `value`; there are {', '.join(names) or 'none'}")
    others = [name for name in names if name not in COLUMNS]
    if others or len(names) > len(set(names)):
        wrong = ", ".join(map(arguments.shown, others)) or "a column that is there twice"
        raise InvalidArgument(
            f"send_arrow would lose {wrong}: a record has {', '.join(WRITTEN_COLUMNS)} (and what else poll_arrow gives is passed "
            "over); batch.select([...]) and batch.rename_columns([...]) make such a batch"
        )


def check_sizes(batch: pa.RecordBatch, limit: int) -> None:
    """Raise RecordTooLarge where a row's key and value pass `max_request_size`, before anything is buffered."""
    import pyarrow.compute as pc

    if batch.nbytes <= limit - RECORD_OVERHEAD_BYTES:
        return
    columns = [batch.column(name) for name in ("key", "value") if name in batch.schema.names]
    lengths = [pc.fill_null(pc.binary_length(each).cast("int64"), 0) for each in columns if _has_bytes(each.type)]
    if not lengths or not batch.num_rows:
        return
    sizes = lengths[0] if len(lengths) == 1 else pc.add(*lengths)
    largest = pc.max(sizes).as_py() + RECORD_OVERHEAD_BYTES
    if largest > limit:
        row = pc.index(sizes, largest - RECORD_OVERHEAD_BYTES).as_py()
        raise too_large(f"row {row}: a record", largest, limit)


def _has_bytes(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return kind in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string())


def _told(rows: Iterator[T]) -> Iterator[T]:
    try:
        yield from rows
    except WRONG as error:
        raise InvalidArgument(f"send_arrow: {error}") from error


def sections(
    batch: pa.RecordBatch, rows: pa.Array | None, now_ms: int, config: ProducerConfig
) -> Iterator[ArrowSource]:
    """The rows as sections, none larger than a request takes. Raises RecordTooLarge for a record that is."""
    limit = config.max_request_size
    size_bytes_max = min(BATCH_BYTES_MAX, config.max_request_size, config.buffer_memory) - HEADER_BYTES
    for encoded in _told(encode_from_arrow(batch, timestamp_ms=now_ms, size_bytes_max=size_bytes_max, rows=rows)):
        size_bytes = HEADER_BYTES + len(encoded.section)
        if size_bytes > limit:
            raise too_large("a record", size_bytes, limit)
        yield ArrowSource(encoded, config.compression)


def by_topic(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each topic: all go to `topic`, or where it is None each to what its column `topic` says."""
    import pyarrow.compute as pc

    if topic is not None:
        yield topic, batch
        return
    names = batch.column("topic") if "topic" in batch.schema.names else None
    if names is None or names.null_count:
        raise InvalidArgument("say the topic, or give every row one in the column `topic`")
    for name in pc.unique(names).to_pylist():
        yield name, batch.filter(pc.equal(names, name))


def partitioned_rows(
    batch: pa.RecordBatch,
    partition_count: int,
    partition: int | None,
    keyless_partition: int,
    partitioner: Partitioner | None = None,
) -> list[tuple[int, pa.Array | None]]:
    """Partitions and the indexes of their rows, in order; None is all rows. `partitioner` None: Java's, compiled."""
    if not batch.num_rows:
        return []
    if partition is not None:
        return [(partition, None)]
    if partition_count == 1 and "partition" not in batch.schema.names:
        return [(0, None)]
    if partitioner is not None:
        batch = _with_partitions(batch, partition_count, keyless_partition, partitioner)
    try:
        return list(rows_by_partition(batch, partition_count, keyless_partition=keyless_partition))
    except WRONG as error:
        raise InvalidArgument(f"send_arrow: {error}") from error


def highest_partition(batch: pa.RecordBatch) -> int:
    """The highest partition that a row names; -1 where none does, or none can be read (which `partitioned_rows` tells)."""
    import pyarrow.compute as pc

    if "partition" not in batch.schema.names:
        return -1
    try:
        highest = pc.max(batch.column("partition")).as_py()
    except WRONG:
        return -1
    return highest if isinstance(highest, int) else -1


def _with_partitions(
    batch: pa.RecordBatch, partition_count: int, keyless_partition: int, partitioner: Partitioner
) -> pa.RecordBatch:
    """With a column that says what another partitioner than Java's chooses: a call for each row."""
    import pyarrow as pa

    keys = batch.column("key").to_pylist() if "key" in batch.schema.names else [None] * batch.num_rows
    chosen = (partitioner(_key_bytes(key), partition_count) for key in keys)
    partitions = [keyless_partition if each is None else each for each in chosen]
    if "partition" in batch.schema.names:
        said = batch.column("partition").to_pylist()
        partitions = [mine if each is None else each for each, mine in zip(said, partitions, strict=True)]
        batch = batch.drop_columns(["partition"])
    return batch.append_column("partition", pa.array(partitions, pa.int32()))


def _key_bytes(key: bytes | str | None) -> bytes | None:
    return key.encode() if isinstance(key, str) else key
