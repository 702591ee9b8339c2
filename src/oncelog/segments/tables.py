"""Data directories as Arrow tables, a record batch at a time: what is in a log, and what lies beside it.

| table | a row for each |
|---|---|
| `batches` | batch, by its header; `problem` says what is wrong with it (null: nothing) |
| `records` | record of a readable batch that is none of control (cut from the batches: as slow as reading them) |
| `markers` | end-of-transaction marker |
| `transactions` | transaction of a log: `outcome` commit, abort, open, null: not to be read; `first_offset` null: no data |
| `producers` | producer of a `.snapshot` file |
| `aborted_index` | entry of a `.txnindex` file |
| `coordinator_states` | record of `__transaction_state`; `state` null: a tombstone |
| `group_offsets` | committed offset in `__consumer_offsets`; `committed_offset` null: a tombstone |
| `problems` | place that cannot be read, and why |

Every row begins with `directory`, `topic`, `partition`. Times are ms since 1970, `last_*` offsets are inclusive. The schemas
are in SCHEMAS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from oncelog.core.reconciliation.partition_replay import Ended
from oncelog.errors import CorruptBatch, CorruptIndex, MalformedMessage, StorageError
from oncelog.log.producer_snapshot import snapshot_from_bytes
from oncelog.log.transaction_index import aborted_from_bytes
from oncelog.segments.coordinators import CONSUMER_OFFSETS, TRANSACTION_STATE
from oncelog.segments.directory import PartitionFiles
from oncelog.segments.headers import Batches, Problem
from oncelog.segments.partition_reading import Listener, PartitionReader, items_of_log
from oncelog.segments.runs import marker_of
from oncelog.segments.source import Source
from oncelog.wire.log_records import consumer_offsets, transaction_state
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch

ROWS_MAX = 10_000  # in a record batch of small rows
CODECS = np.array(["none", "gzip", "snappy", "lz4", "zstd", "5?", "6?", "7?"])
_PLACE = [("directory", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]


def _schema(*fields: tuple[str, Any]) -> pa.Schema:
    return pa.schema([*_PLACE, *fields])


_I64, _I32, _I16, _TEXT, _BOOL = pa.int64(), pa.int32(), pa.int16(), pa.string(), pa.bool_()
SCHEMAS: dict[str, pa.Schema] = {
    "batches": _schema(
        ("file", _TEXT),
        ("position", _I64),
        ("size_bytes", _I64),
        ("base_offset", _I64),
        ("last_offset", _I64),
        ("leader_epoch", _I32),
        ("producer_id", _I64),
        ("producer_epoch", _I16),
        ("base_sequence", _I32),
        ("record_count", _I32),
        ("codec", _TEXT),
        ("is_transactional", _BOOL),
        ("is_control", _BOOL),
        ("first_timestamp_ms", _I64),
        ("max_timestamp_ms", _I64),
        ("problem", _TEXT),
    ),
    "records": _schema(
        ("offset", _I64),
        ("timestamp_ms", _I64),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("producer_id", _I64),
        ("is_transactional", _BOOL),
    ),
    "markers": _schema(
        ("offset", _I64),
        ("timestamp_ms", _I64),
        ("producer_id", _I64),
        ("producer_epoch", _I16),
        ("outcome", _TEXT),
        ("coordinator_epoch", _I32),
    ),
    "transactions": _schema(
        ("producer_id", _I64),
        ("producer_epoch", _I16),
        ("first_offset", _I64),
        ("last_offset", _I64),
        ("marker_offset", _I64),
        ("outcome", _TEXT),
        ("ended_ms", _I64),
    ),
    "producers": _schema(
        ("file", _TEXT),
        ("end_offset", _I64),
        ("producer_id", _I64),
        ("producer_epoch", _I16),
        ("last_sequence", _I32),
        ("last_offset", _I64),
        ("timestamp_ms", _I64),
        ("coordinator_epoch", _I32),
        ("open_first_offset", _I64),
    ),
    "aborted_index": _schema(
        ("file", _TEXT),
        ("producer_id", _I64),
        ("first_offset", _I64),
        ("last_offset", _I64),
        ("last_stable_offset", _I64),
    ),
    "coordinator_states": _schema(
        ("offset", _I64),
        ("transactional_id", _TEXT),
        ("state", _TEXT),
        ("producer_id", _I64),
        ("producer_epoch", _I16),
        ("timeout_ms", _I32),
        ("partitions", pa.list_(_TEXT)),
        ("last_update_ms", _I64),
        ("start_ms", _I64),
        ("client_transaction_version", _I16),
    ),
    "group_offsets": _schema(
        ("offset", _I64),
        ("group_id", _TEXT),
        ("committed_topic", _TEXT),
        ("committed_partition", _I32),
        ("committed_offset", _I64),
        ("metadata", _TEXT),
        ("commit_timestamp_ms", _I64),
        ("producer_id", _I64),
    ),
    "problems": _schema(("file", _TEXT), ("position", _I64), ("size_bytes", _I64), ("reason", _TEXT)),
}
_TOPIC_OF = {"coordinator_states": TRANSACTION_STATE, "group_offsets": CONSUMER_OFFSETS}
Row = tuple[Any, ...]


def concerns(table: str, files: PartitionFiles) -> bool:
    """Whether this log can have rows in the table."""
    return _TOPIC_OF.get(table, files.topic) == files.topic


def rows_of(source: Source, files: PartitionFiles, table: str) -> Iterator[pa.RecordBatch]:
    """The table's rows of one log. What cannot be read has no row but in `problems`, and in `batches` where it has a header."""
    if not concerns(table, files):
        return
    if table == "batches":
        for path, item in items_of_log(source, files):
            if isinstance(item, Batches):
                yield _batch_rows(files, path, item)
        return
    yield from _gathered(files, table, _SMALL[table](source, files))


def _gathered(files: PartitionFiles, table: str, rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    schema = SCHEMAS[table]
    gathered: list[Row] = []
    for row in rows:
        gathered.append(row)
        if len(gathered) == ROWS_MAX:
            yield _made(files, schema, gathered)
            gathered = []
    if gathered:
        yield _made(files, schema, gathered)


def _made(files: PartitionFiles, schema: pa.Schema, rows: list[Row]) -> pa.RecordBatch:
    columns = [*_place(files, len(rows)), *(list(column) for column in zip(*rows, strict=True))]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _place(files: PartitionFiles, count: int) -> list[list[Any]]:
    return [[value] * count for value in (files.directory, files.topic, files.partition)]


def _batch_rows(files: PartitionFiles, path: str, batches: Batches) -> pa.RecordBatch:
    header, schema = batches.header, SCHEMAS["batches"]
    attributes = header["attributes"].astype(np.int64)
    columns = [
        *_place(files, len(batches)),
        [path] * len(batches),
        batches.position,
        header["batch_length"].astype(np.int64) + 12,
        batches.base_offset,
        batches.last_offset,
        header["leader_epoch"].astype(np.int32),
        batches.producer_id,
        header["producer_epoch"].astype(np.int16),
        header["base_sequence"].astype(np.int32),
        header["record_count"].astype(np.int32),
        CODECS[attributes & 7].tolist(),
        batches.is_transactional,
        batches.is_control,
        header["base_timestamp"].astype(np.int64),
        header["max_timestamp"].astype(np.int64),
        [batches.problems.get(row) for row in range(len(batches))] if batches.problems else [None] * len(batches),
    ]
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _decoded(source: Source, files: PartitionFiles) -> Iterator[tuple[RecordBatch, Record]]:
    for _, item in items_of_log(source, files):
        if isinstance(item, Batches):
            for row in range(len(item)):
                if row in item.problems or item.is_control[row]:
                    continue
                batch = RecordBatch(item.bytes_of(row))
                try:
                    records = batch.records()
                except CorruptBatch:
                    continue  # `problems` has it
                yield from ((batch, record) for record in records)


def _records(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for batch, each in _decoded(source, files):
        yield each.offset, each.timestamp, each.key, each.value, batch.producer_id, batch.is_transactional


def _markers(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for _, item in items_of_log(source, files):
        if not isinstance(item, Batches):
            continue
        for row in np.flatnonzero(item.is_control).tolist():
            found = None if row in item.problems else marker_of(item, row)
            if found is not None and found.commit is not None:
                outcome = "commit" if found.commit else "abort"
                identity = (found.producer_id, found.producer_epoch, outcome, found.coordinator_epoch)
                yield (found.offset, found.timestamp, *identity)


class _Transactions(Listener):
    def __init__(self) -> None:
        self.rows: list[Row] = []

    def ended(self, ended: Ended) -> None:
        """As Listener."""
        has_data = ended.first_offset >= 0
        self.rows.append(
            (
                ended.producer_id,
                ended.data_epoch if has_data else ended.marker_epoch,
                ended.first_offset if has_data else None,
                ended.last_offset if has_data else None,
                ended.marker_offset,
                "commit" if ended.commit else "abort",
                ended.marker_timestamp,
            )
        )


def _transactions(source: Source, files: PartitionFiles) -> Iterator[Row]:
    listener = _Transactions()
    summary = PartitionReader(source, files, listener).read()
    yield from listener.rows
    for each in summary.open_transactions:
        place = (each.producer_id, each.producer_epoch, each.first_offset, each.last_offset)
        yield (*place, None, None if each.is_uncertain else "open", None)


def _producers(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for end_offset, path in files.snapshots:
        try:
            entries = snapshot_from_bytes(source.read_whole(path))
        except (CorruptIndex, StorageError):
            continue
        for each in entries:
            identity = (path, end_offset, each.producer_id, each.producer_epoch)
            first = each.current_txn_first_offset
            last = (each.last_sequence, each.last_offset, each.timestamp, each.coordinator_epoch)
            yield (*identity, *last, first if first >= 0 else None)


def _aborted_index(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for base_offset, path in sorted(files.transaction_indexes.items()):
        try:
            entries = aborted_from_bytes(source.read_whole(path), base_offset)
        except (CorruptIndex, StorageError):
            continue
        for each in entries:
            yield path, each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset


def _coordinator_states(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for _, record in _decoded(source, files):
        try:
            found = transaction_state.record_from_key_value(record.key, record.value)
        except MalformedMessage:
            continue
        if isinstance(found, transaction_state.TransactionTombstone):
            yield (record.offset, found.transactional_id, *[None] * 8)
        elif found is not None:
            partitions = [str(each) for each in sorted(found.partitions)]
            identity = (found.transactional_id, found.state.name, found.producer_id, found.producer_epoch)
            times = (found.last_update_ms, found.start_ms, found.client_transaction_version)
            yield (record.offset, *identity, found.timeout_ms, partitions, *times)


def _group_offsets(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for batch, record in _decoded(source, files):
        try:
            found = consumer_offsets.record_from_key_value(record.key, record.value)
        except MalformedMessage:
            continue
        producer_id = batch.producer_id if batch.is_transactional else None
        if isinstance(found, consumer_offsets.OffsetCommit):
            where = (record.offset, found.group_id, found.topic, found.partition)
            yield (*where, found.offset, found.metadata, found.commit_timestamp_ms, producer_id)
        elif isinstance(found, consumer_offsets.OffsetDeleted):
            yield (record.offset, found.group_id, found.topic, found.partition, None, None, None, producer_id)


def _problems(source: Source, files: PartitionFiles) -> Iterator[Row]:
    for path, item in items_of_log(source, files):
        if isinstance(item, Problem):
            yield path, item.position, item.size_bytes, item.text
            continue
        for row, text in sorted(item.problems.items()):
            yield path, int(item.position[row]), int(item.header["batch_length"][row]) + 12, text
    beside: list[tuple[str, Callable[[bytes], object]]] = [(path, snapshot_from_bytes) for _, path in files.snapshots]
    for base_offset, path in files.transaction_indexes.items():
        beside.append((path, lambda data, base=base_offset: aborted_from_bytes(data, base)))  # type: ignore[misc]
    for path, read in beside:
        try:
            read(source.read_whole(path))
        except (CorruptIndex, StorageError) as error:
            yield path, 0, 0, str(error)


_SMALL: dict[str, Callable[[Source, PartitionFiles], Iterator[Row]]] = {
    "records": _records,
    "markers": _markers,
    "transactions": _transactions,
    "producers": _producers,
    "aborted_index": _aborted_index,
    "coordinator_states": _coordinator_states,
    "group_offsets": _group_offsets,
    "problems": _problems,
}
