"""Record batches as Arrow columns and back: `Consumer.poll_arrow` and the Spark source and sink stand on this.

The columns are those of Spark's own Kafka source, in its order and with types that Spark's Arrow reader takes as they
are: plain `binary` and `string`, microseconds in UTC, everything nullable. As there, `headers` is null for a record
that has none. pyarrow is imported on first use, so the broker never needs it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from oncelog.wire.arrow_codec import BytesColumn, ColumnWriter, RowEncoder, assign_partitions
from oncelog.wire.record import INT64_MAX
from oncelog.wire.record_batch import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, RecordBatch

if TYPE_CHECKING:
    import pyarrow as pa

SECTION_BYTES_MAX = 1_000_000 - HEADER_BYTES
RECORD_BYTES_MIN = 7
COLUMN_BYTES_MAX = 0x7FFFFFFF
_COUNT_MAX = 0x7FFFFFFF


class BatchRange(NamedTuple):
    """The part of a batch to read: its records with offsets in [start_offset, end_offset)."""

    topic: str
    partition: int
    batch: RecordBatch
    start_offset: int = 0
    end_offset: int = INT64_MAX


class EncodedRecords(NamedTuple):
    """The uncompressed record section of one batch; `build_batch_of_section(**encoded._asdict(), ...)` completes it."""

    section: bytearray
    record_count: int
    base_timestamp: int
    max_timestamp: int


def kafka_schema(*, include_headers: bool = True) -> pa.Schema:
    """The schema of Spark's Kafka source, without `headers` where they were not asked for (`includeHeaders`)."""
    import pyarrow as pa

    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if include_headers:
        fields.append(pa.field("headers", pa.list_(_header_type())))
    return pa.schema(fields)


class ArrowRows:
    """Rows of Arrow, batch after batch. What cannot be added leaves those before as they were.

    `record_count` and `size_bytes` are what to expect: columns grow, which costs as much again.
    """

    def __init__(self, record_count: int, size_bytes: int) -> None:
        # Good for uncompressed batches. Counts alone are not believed.
        record_count = min(max(record_count, 0), size_bytes // RECORD_BYTES_MIN)
        self._columns = ColumnWriter(_arrow_memory, record_count, size_bytes, COLUMN_BYTES_MAX)
        self._runs: list[tuple[tuple[str, int, int], int]] = []

    def __len__(self) -> int:
        return self._columns.row_count

    def add(
        self,
        topic: str,
        partition: int,
        batch: RecordBatch,
        start_offset: int,
        end_offset: int,
        *,
        decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
    ) -> None:
        """The records with offsets in [start_offset, end_offset). CorruptBatch when the batch cannot be read, OverflowError when
        keys or values of all together would pass 2 GiB, which 32-bit offsets of Arrow cannot say. Checks no CRC."""
        count = self._columns.append(
            batch.section(decompressed_bytes_max),
            batch.record_count,
            batch.base_offset,
            batch.base_timestamp,
            batch.append_timestamp,
            start_offset,
            end_offset,
        )
        run, runs = (topic, partition, batch.timestamp_type), self._runs
        if runs and runs[-1][0] == run:
            runs[-1] = (run, runs[-1][1] + count)
        elif count:
            runs.append((run, count))

    def finish(self, *, include_headers: bool = True) -> pa.RecordBatch:
        """All of them as one batch; nothing can be added any more."""
        return _record_batch(self._columns, self._runs, include_headers)


def decode_to_arrow(
    ranges: Iterable[BatchRange],
    *,
    include_headers: bool = True,
    check_crc: bool = True,
    decompressed_bytes_max: int = DECOMPRESSED_BYTES_MAX,
) -> pa.RecordBatch:
    """All records of the ranges as ONE Arrow batch, control batches left out.

    Which batches were aborted is the caller's knowledge. CorruptBatch when one cannot be read; OverflowError as `ArrowRows.add`.
    """
    wanted = [part for part in ranges if not part.batch.is_control]
    size_bytes = sum(len(part.batch.data) for part in wanted)
    rows = ArrowRows(sum(max(part.batch.record_count, 0) for part in wanted), size_bytes)
    for part in wanted:
        if check_crc:
            part.batch.check_crc()
        rows.add(*part, decompressed_bytes_max=decompressed_bytes_max)
    return rows.finish(include_headers=include_headers)


def encode_from_arrow(
    batch: pa.RecordBatch,
    *,
    timestamp_ms: int,
    size_bytes_max: int = SECTION_BYTES_MAX,
    count_max: int = _COUNT_MAX,
    rows: pa.Array | None = None,
) -> Iterator[EncodedRecords]:
    """The rows of an Arrow batch as record sections, each at most `size_bytes_max` bytes and `count_max` records.

    Columns by name: `value` (needed; null is a tombstone), `key`, `headers` (list of struct of key and value),
    `timestamp` (Arrow timestamp, or ms as int64); others are not looked at. Strings are written as UTF-8. A missing or
    null timestamp is `timestamp_ms`. `rows` chooses rows by index, in that order (what a partitioner decided). A
    record that alone is larger than the limit makes a section of its own.
    """
    encoder = _row_encoder(batch, timestamp_ms, rows)
    first = 0
    end = batch.num_rows if rows is None else len(rows)
    room_bytes = min(size_bytes_max, _section_bytes_bound(batch) if rows is None else size_bytes_max)
    while first < end:
        section = bytearray(room_bytes)
        following, size_bytes, base_timestamp, max_timestamp = encoder.encode(
            section, first, end, room_bytes, count_max
        )
        if following == first:
            section = bytearray(size_bytes)
            following, size_bytes, base_timestamp, max_timestamp = encoder.encode(section, first, end, size_bytes, 1)
        del section[size_bytes:]
        yield EncodedRecords(section, following - first, base_timestamp, max_timestamp)
        first = following


def rows_by_partition(
    batch: pa.RecordBatch, partition_count: int, *, keyless_partition: int
) -> list[tuple[int, pa.Array]]:
    """Which rows of an Arrow batch go to which partition: (partition, row indexes in order) for `encode_from_arrow`.

    A value in the column `partition` decides (ValueError outside 0..`partition_count`-1), else the key's murmur2 as in
    the Java producer; rows without a key all go to `keyless_partition`.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    memory = _arrow_memory(4 * batch.num_rows)
    keys = batch.column("key") if "key" in batch.schema.names else pa.nulls(batch.num_rows)
    if keys.type == pa.null():
        keys = keys.cast(pa.binary())
    assign_partitions(memory.cast("i"), _bytes_column(keys), partition_count, keyless_partition)
    partitions = pa.Array.from_buffers(pa.int32(), batch.num_rows, [None, pa.py_buffer(memory)])
    if "partition" in batch.schema.names:
        partitions = pc.coalesce(batch.column("partition").cast(pa.int32()), partitions)
    bounds = pc.min_max(partitions)
    if batch.num_rows and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < partition_count:
        outside = pc.or_(pc.less(partitions, 0), pc.greater_equal(partitions, partition_count))
        row = pc.index(outside, True).as_py()
        raise ValueError(
            f"row {row} of {batch.num_rows} names partition {partitions[row].as_py()}, outside 0..{partition_count - 1}"
        )
    order = pc.array_sort_indices(partitions)  # stable, so rows keep their order within a partition
    chosen = []
    start = 0
    for entry in sorted(pc.value_counts(partitions).to_pylist(), key=lambda entry: int(entry["values"])):
        chosen.append((entry["values"], order.slice(start, entry["counts"])))
        start += entry["counts"]
    return chosen


def _arrow_memory(size_bytes: int) -> memoryview:
    import pyarrow as pa

    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")


def _header_type() -> pa.StructType:
    import pyarrow as pa

    return pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])


def _record_batch(
    columns: ColumnWriter, runs: list[tuple[tuple[str, int, int], int]], include_headers: bool
) -> pa.RecordBatch:
    import pyarrow as pa

    schema = kafka_schema(include_headers=include_headers)
    count = columns.row_count
    key = _bytes_array(pa.binary(), count, columns.key_valid, columns.key_offsets, columns.keys, columns.key_bytes)
    value = _bytes_array(
        pa.binary(), count, columns.value_valid, columns.value_offsets, columns.values, columns.value_bytes
    )
    arrays = [
        key,
        value,
        _repeated(pa.string(), [(run[0], run_count) for run, run_count in runs]),
        _repeated(pa.int32(), [(run[1], run_count) for run, run_count in runs]),
        pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(columns.offsets)]),
        pa.Array.from_buffers(schema.field("timestamp").type, count, [None, pa.py_buffer(columns.timestamps)]),
        _repeated(pa.int32(), [(run[2], run_count) for run, run_count in runs]),
    ]
    if include_headers:
        arrays.append(_headers_array(columns, schema.field("headers").type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _bytes_array(
    arrow_type: pa.DataType, count: int, valid: bytearray | None, offsets: Any, data: memoryview, size_bytes: int
) -> pa.Array:
    import pyarrow as pa

    # The buffers were sized for the worst case: a column that used little of its own gets a small copy instead.
    kept = data if size_bytes > len(data) // 2 else bytes(data[:size_bytes])
    validity = None if valid is None else pa.py_buffer(valid)
    return pa.Array.from_buffers(arrow_type, count, [validity, pa.py_buffer(offsets), pa.py_buffer(kept)])


def _headers_array(columns: ColumnWriter, arrow_type: pa.ListType) -> pa.Array:
    import pyarrow as pa

    keys = _bytes_array(
        pa.string(),
        columns.header_count,
        None,
        columns.header_key_offsets,
        columns.header_keys,
        columns.header_key_bytes,
    )
    values = _bytes_array(
        pa.binary(),
        columns.header_count,
        columns.header_value_valid,
        columns.header_value_offsets,
        columns.header_values,
        columns.header_value_bytes,
    )
    structs = pa.StructArray.from_arrays([keys, values], fields=list(_header_type()))
    buffers = [pa.py_buffer(columns.headers_valid), pa.py_buffer(columns.header_offsets)]
    return pa.Array.from_buffers(arrow_type, columns.row_count, buffers, children=[structs])


def _repeated(arrow_type: pa.DataType, runs: list[tuple[Any, int]]) -> pa.Array:
    import pyarrow as pa

    parts = [pa.repeat(_scalar(arrow_type, value), count) for value, count in runs]
    if len(parts) == 1:
        return parts[0]
    return pa.concat_arrays(parts) if parts else pa.array([], arrow_type)


def _scalar(arrow_type: pa.DataType, value: str | int) -> pa.Scalar:
    """Made of buffers: `pa.scalar` imports pandas where it is installed, half a second of the first poll."""
    import pyarrow as pa

    if isinstance(value, int):
        parts = [struct.pack("=i", value)]
    else:
        data = value.encode()
        parts = [struct.pack("=ii", 0, len(data)), data]
    return pa.Array.from_buffers(arrow_type, 1, [None, *map(pa.py_buffer, parts)])[0]


def _row_encoder(batch: pa.RecordBatch, timestamp_ms: int, rows: pa.Array | None) -> RowEncoder:
    import pyarrow as pa

    names = batch.schema.names
    values = _bytes_column(batch.column("value"))
    keys = _bytes_column(batch.column("key")) if "key" in names and batch.column("key").type != pa.null() else None
    timestamps = _milliseconds(batch.column("timestamp"), timestamp_ms) if "timestamp" in names else None
    chosen = None if rows is None else _row_indexes(rows, batch.num_rows)
    encoder = RowEncoder(values, keys, timestamps, chosen, timestamp_ms)
    if "headers" in names and batch.column("headers").type != pa.null():
        headers = batch.column("headers").cast(pa.list_(_header_type()))
        structs = headers.values
        _check_headers(headers)
        encoder.set_headers(_bytes_column(headers), _bytes_column(structs.field(0)), _bytes_column(structs.field(1)))
    return encoder


def _check_headers(headers: pa.ListArray) -> None:
    """Raise ValueError for one that has no key, with its row."""
    import pyarrow.compute as pc

    flat = headers.flatten()
    for each, what in ((flat, "is null"), (pc.struct_field(flat, [0]), "has a null key")):
        if each.null_count:
            row = pc.list_parent_indices(headers)[pc.index(each.is_null(), True).as_py()].as_py()
            raise ValueError(f"row {row} of {len(headers)}: a record header {what}")


def _row_indexes(rows: pa.Array, row_count: int) -> memoryview[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    bounds = pc.min_max(rows)
    if rows.null_count or (len(rows) and not 0 <= bounds["min"].as_py() <= bounds["max"].as_py() < row_count):
        raise IndexError("a row index is outside the batch")
    return _int64_view(rows.cast(pa.int64()))


def _bytes_column(array: pa.Array) -> BytesColumn:
    import pyarrow as pa

    if isinstance(array.type, pa.ListType):
        valid, offsets = array.buffers()[:2]
        data = None
    else:
        if array.type not in (pa.binary(), pa.string()):
            array = array.cast(pa.string() if array.type == pa.large_string() else pa.binary())
        valid, offsets, data = array.buffers()
    return BytesColumn(
        memoryview(offsets if offsets is not None and offsets.size else bytes(4)).cast("B").cast("i"),
        memoryview(b"" if data is None else data).cast("B"),
        None if valid is None or array.null_count == 0 else memoryview(valid).cast("B"),
        array.offset,
    )


def _milliseconds(array: pa.Array, default_ms: int) -> memoryview[int]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.timestamp("ms", tz=array.type.tz), safe=False)
    return _int64_view(pc.fill_null(array.cast(pa.int64()), default_ms))


def _int64_view(array: pa.Array) -> memoryview[int]:
    data = array.buffers()[1]
    if data is None or not data.size:
        return memoryview(b"").cast("q")
    return memoryview(data).cast("B").cast("q")[array.offset : array.offset + len(array)]


def _section_bytes_bound(batch: pa.RecordBatch) -> int:
    # 40 bytes hold the numbers of any record; each header adds up to 10, within the list column's own bytes.
    return int(40 * batch.num_rows + 4 * batch.nbytes)
